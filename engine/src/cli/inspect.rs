//! `kiln inspect`: what a file holds and whether it can be run.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use kiln_kernels::Registry;

use super::log::visible;
use super::options::Placement;
use super::{Context, Failure, output};
use crate::gguf::{Array, Gguf, Tensor, Value};
use crate::models::{self, HyperRow};
use crate::plan::Target;
use crate::session::{self, Error, ModelFile};
use crate::size::size;
use crate::tokenizer::Tokenizer;

/// Show a file's metadata and hyper-parameters, and what Kiln declines in it and why.
///
/// Only a file that is no GGUF fails; an unknown model is shown as far as it goes.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// List every tensor with its shape, slowest dimension first
    #[arg(long)]
    tensors: bool,
    /// Show what a device would hold and run instead: residency, kernels with their reasons, launches with barriers
    #[arg(long)]
    plan: bool,
    /// Plan for the device of a caps file, as `kiln devices --caps` writes it [default: this machine's device]
    #[arg(long, value_name = "FILE", requires = "plan")]
    caps: Option<PathBuf>,
    #[command(flatten)]
    placement: Placement,
}

pub(super) fn inspect(context: &Context, args: &Args) -> Result<(), Failure> {
    if args.plan {
        return plan(context, args);
    }
    let gguf = Gguf::open(&args.model, &context.registry).map_err(Error::from)?;
    let mut text = String::new();
    for line in report(&gguf, &context.registry, args.tensors) {
        text += &line;
        text.push('\n');
    }
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(output)
}

/// The plan of a model on a device, or why there is none.
fn plan(context: &Context, args: &Args) -> Result<(), Failure> {
    if args.caps.is_none() && args.placement.is_reference() {
        let why = "--plan is of Vulkan devices; the reference runs a model's words one after another";
        return Err(Failure::Usage(why.to_owned()));
    }
    let file = ModelFile::open(&args.model, &context.registry)?;
    let target = match &args.caps {
        Some(path) => {
            let what = || path.display().to_string();
            let text =
                std::fs::read_to_string(path).map_err(|source| Failure::File { what: what(), source })?;
            let target =
                Target::from_json(&text).map_err(|why| Failure::Usage(format!("{}: {why}", what())))?;
            target.without(&args.placement.left_out(context))
        }
        None => Target::of(&args.placement.open(context)?),
    };
    let plan = file.plan(&context.registry, &target, args.placement.plan_options(&file))?;
    let text =
        format!("model    {}, {} layers\n{plan}", file.model.architecture, file.model.graph.layers.len());
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(output)
}

/// The whole answer, line by line.
fn report(gguf: &Gguf, registry: &Registry, with_tensors: bool) -> Vec<String> {
    let mut lines = vec![file_line(gguf)];
    lines.push("\nmetadata".to_owned());
    lines.extend(gguf.metadata().iter().map(|(key, value)| format!("  {} = {}", plain(key), shown(value))));
    lines.push("\nmodel".to_owned());
    lines.extend(model_lines(gguf).iter().map(|line| format!("  {line}")));
    lines.push("\ntext".to_owned());
    lines.extend(text_lines(gguf).iter().map(|line| format!("  {line}")));
    lines.push("\ntensors".to_owned());
    lines.extend(format_lines(gguf, registry).iter().map(|line| format!("  {line}")));
    if with_tensors {
        lines.push(String::new());
        lines.extend(gguf.tensors().map(|tensor| format!("  {}", tensor_line(&tensor, registry))));
    }
    lines
}

fn file_line(gguf: &Gguf) -> String {
    let parts = if gguf.n_parts() > 1 { format!(" in {} parts", gguf.n_parts()) } else { String::new() };
    format!("GGUF version {}, {}{parts}", gguf.version(), size(gguf.file_bytes()))
}

/// Hyper-parameters, then whether the model can be run and the reasons why not.
fn model_lines(gguf: &Gguf) -> Vec<String> {
    let hyper_line = |row: &HyperRow| {
        let origin = if row.default { " (default)" } else { "" };
        format!("{} = {}{origin}", row.key, row.value)
    };
    match models::describe(gguf) {
        Ok(model) => {
            let graph = &model.graph;
            let mut lines: Vec<String> = model.hyper.iter().map(hyper_line).collect();
            lines.push(format!(
                "runs: {} of {} layers, {} weights; {} values of state per position",
                model.architecture,
                graph.layers.len(),
                graph.n_weight_elems(),
                graph.n_state_values(1)
            ));
            lines.push(format!(
                "the reference needs {} for weights and {} for a context of {}",
                size(4 * graph.n_weight_elems() as u64),
                size(4 * graph.n_state_values(model.n_ctx_train) as u64),
                model.n_ctx_train
            ));
            lines
        }
        Err(declined) => {
            let reasons = declined.reasons.iter().map(|reason| visible(&format!("declined: {reason}")));
            declined.hyper.iter().map(hyper_line).chain(reasons).collect()
        }
    }
}

/// Whether text goes in and comes out.
fn text_lines(gguf: &Gguf) -> Vec<String> {
    let tokenizer = match Tokenizer::from_gguf(gguf) {
        Ok(t) => format!("tokenizer: {} with {} tokens", t.method_name(), t.n_tokens()),
        Err(error) => visible(&format!("tokenizer declined: {error}")),
    };
    let template = match session::chat_template(gguf) {
        Ok(_) => "chat template: compiles".to_owned(),
        Err(error) => visible(&format!("chat template declined: {error}")),
    };
    vec![tokenizer, template]
}

/// Number and size of the tensors of each format.
fn format_lines(gguf: &Gguf, registry: &Registry) -> Vec<String> {
    let mut formats: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let (n, bytes) = formats.entry(format_name(&tensor, registry)).or_default();
        *n += 1;
        *bytes += tensor.data.len() as u64;
    }
    formats.iter().map(|(name, (n, bytes))| format!("{name}: {n} in {}", size(*bytes))).collect()
}

fn tensor_line(tensor: &Tensor<'_>, registry: &Registry) -> String {
    format!("{} {} {:?}", plain(tensor.name), format_name(tensor, registry), tensor.shape)
}

/// The format's name; the reader refuses files with formats that the registry lacks.
fn format_name<'r>(tensor: &Tensor<'_>, registry: &'r Registry) -> &'r str {
    registry.format(tensor.type_id).map_or("?", |format| format.name)
}

/// A value on one line; long ones are cut.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::Int { value, .. } => value.to_string(),
        // Files hold f32 for the most part; its shortest form is what was meant.
        Value::Float { value, .. } => (value as f32).to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(array) => list(array),
    }
}

fn list(array: Array<'_>) -> String {
    const SHOWN: usize = 6;
    let items: Vec<String> = array.iter().take(SHOWN).map(shown).collect();
    let more = if array.len() > SHOWN { format!(", ... {} in all", array.len()) } else { String::new() };
    format!("[{}{more}]", items.join(", "))
}

fn quoted(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((cut, _)) => format!("{:?}... {} bytes", &text[..cut], text.len()),
    }
}

/// A name from the file, fit for a terminal.
fn plain(name: &str) -> String {
    name.escape_debug().to_string()
}
