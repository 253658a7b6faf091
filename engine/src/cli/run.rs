//! `kiln run`: one prompt, one answer.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::options::{Placement, Sampling, count};
use super::progress::{Bar, Stages};
use super::{Context, Failure, output};
use crate::bench::profile::profile;
use crate::chat::Message;
use crate::forward::{Backend, ForwardError};
use crate::session::{self, Error, Generated, ModelFile, Session, Stop, chat_prompt};
use crate::tokenizer::{SpecialText, TokenId, Tokenizer};

/// Answer one prompt, given by -p, -f or standard input.
///
/// The answer goes to standard output as it grows; it ends where the model ends it, after -n tokens, or when
/// the context is full.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// The prompt
    #[arg(short, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Most tokens of the answer [default: no limit but the context]
    #[arg(short, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    n: Option<usize>,
    /// Continue the prompt as it stands, without the file's chat template
    #[arg(long)]
    raw: bool,
    /// Print one JSON object at the end instead of the text as it grows
    #[arg(long)]
    json: bool,
    /// Afterward, show on standard error where the time of a step goes, and how often each kernel runs
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    sampling: Sampling,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let text = prompt_text(args)?;
    let file = ModelFile::open(&args.model, &context.registry)?;
    let tokenizer = Tokenizer::from_gguf(&file.gguf).map_err(Error::from)?;
    let prompt = if args.raw {
        tokenizer.encode_prompt(&text, SpecialText::Parse)
    } else {
        let template = session::chat_template(&file.gguf)?;
        chat_prompt(&tokenizer, &template, &[Message::text("user", &text)])?
    };

    let started = Instant::now();
    let profiled = args.profile.then(|| args.placement.load_device(context, &file)).transpose()?;
    let loaded;
    let backend: &dyn Backend = match &profiled {
        Some((_, model)) => model,
        None => {
            loaded = args.placement.load(context, &file)?;
            loaded.as_ref()
        }
    };
    let load = started.elapsed();
    let options = args.sampling.options();
    let mut session = Session::new(backend, args.placement.n_ctx(&file))?;
    let mut out = std::io::stdout().lock();
    let bar = Bar::new("prefill");
    let generated = session.generate(
        &prompt,
        &tokenizer,
        options,
        args.n.unwrap_or(usize::MAX),
        &|done, total| bar.report(done, total),
        |piece| {
            if args.json || piece.is_empty() {
                return Ok(());
            }
            out.write_all(piece.as_bytes())?;
            out.flush()
        },
    )?;
    drop(bar);
    if args.json {
        writeln!(out, "{}", json(&generated, &prompt, options.seed, load)).map_err(output)?;
    } else {
        writeln!(out).map_err(output)?;
    }
    super::log::say(format_args!("{}", speeds(&generated)));
    if let Some((gpu, model)) = &profiled {
        drop(session);
        let depth = prompt.len() + generated.ids.len();
        let stages = Stages::default();
        let stage = |what, done, total| stages.report(what, done, total);
        let rows = prompt.len();
        super::log::say(format_args!(
            "taking a step of {rows} rows apart, or of as many as fit, and one of a row"
        ));
        let profile =
            profile(gpu, model, &file.model.graph, depth, rows, &stage).map_err(ForwardError::from)?;
        drop(stages);
        super::log::say(format_args!("profile\n{}", profile.to_string().trim_end()));
    }
    Ok(())
}

fn prompt_text(args: &Args) -> Result<String, Failure> {
    if let Some(text) = &args.prompt {
        return Ok(text.clone());
    }
    if let Some(path) = &args.file {
        let what = format!("prompt file {}", path.display());
        return std::fs::read_to_string(path).map_err(|source| Failure::File { what, source });
    }
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        return Err(Failure::Usage("no prompt: give -p TEXT or -f FILE, or pipe it in".to_owned()));
    }
    let mut text = String::new();
    stdin.read_to_string(&mut text).map_err(|source| Failure::Stream { stream: "input", source })?;
    Ok(text)
}

/// Tokens and tokens per second of both phases, for people.
pub(super) fn speeds(generated: &Generated) -> String {
    format!(
        "prompt {} tokens, {:.1}/s; answer {} tokens, {:.1}/s; {}",
        generated.n_fed,
        rate(generated.n_fed, generated.prefill),
        generated.ids.len(),
        rate(generated.n_decoded, generated.decode),
        match generated.stop {
            Stop::End => "the model ended its answer",
            Stop::Length => "stopped after -n tokens",
            Stop::Context => "stopped at the end of the context (--ctx)",
        }
    )
}

fn rate(n: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}

fn json(generated: &Generated, prompt: &[TokenId], seed: u64, load: Duration) -> serde_json::Value {
    let stop = match generated.stop {
        Stop::End => "end",
        Stop::Length => "length",
        Stop::Context => "context",
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    serde_json::json!({
        "text": generated.text,
        "ids": generated.ids,
        "prompt_ids": prompt,
        "stop": stop,
        "seed": seed,
        "timings": {
            "load_ms": ms(load),
            "prefill_ms": ms(generated.prefill),
            "prefill_tokens_per_second": rate(generated.n_fed, generated.prefill),
            "decode_ms": ms(generated.decode),
            "decode_tokens_per_second": rate(generated.n_decoded, generated.decode),
        },
    })
}
