//! `kiln kernels`: list the kernels, print one, check them against their references.

use std::io::Write;
use std::path::PathBuf;

use kiln_abi::launch::check_device;
use kiln_abi::{Device, StageErrors, StagedKernel};
use kiln_kernels::conformance::{Outcomes, Report, check, check_format};
use kiln_kernels::{FormatRow, Registry, Variant, disassemble, is_format};
use kiln_runtime::{Gpu, RuntimeOptions};
use kiln_spirv_interp::{InterpOptions, Interpreter, SUBGROUP_SIZES};

use super::options::REFERENCE;
use super::{Context, Failure, output, spare_models};

/// List kernels, print one as SPIR-V, or check them against their references.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(ListArgs),
    Emit(EmitArgs),
    Check(CheckArgs),
}

/// One line for each kernel: role, format, arm, name, words, bindings, workgroup bytes, capabilities.
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    only: Only,
}

/// Which kernels.
#[derive(clap::Args)]
struct Only {
    /// Only kernels made for this format, as files write it or as kernels do
    #[arg(long, value_name = "F")]
    format: Option<String>,
    /// Only kernels with this role
    #[arg(long, value_name = "R")]
    role: Option<String>,
}

impl Only {
    /// Refuses a format or role that no kernel has.
    fn check(&self, registry: &Registry) -> Result<(), Refusal> {
        known("format", self.format.as_deref(), registry.formats().map(|format| format.name), is_format)?;
        let is_role = |role: &str, name: &str| role == name;
        known("role", self.role.as_deref(), registry.variants().map(|variant| variant.role), is_role)
    }

    fn takes(&self, variant: &Variant) -> bool {
        self.format.as_deref().is_none_or(|format| variant.is_of_format(format))
            && self.role.as_deref().is_none_or(|role| variant.role == role)
    }
}

/// Print a kernel's SPIR-V as text.
#[derive(clap::Args)]
struct EmitArgs {
    /// The kernel, as `kiln kernels list` names it
    name: String,
    /// Write the words to a file instead, little-endian
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
}

/// Run kernels on known inputs and compare with their plain-Rust references, one line for each kernel; before them one for
/// the layout of each of their formats.
#[derive(clap::Args)]
struct CheckArgs {
    /// A kernel, as `kiln kernels list` names it, a part of names, or a format [default: all]
    name: Option<String>,
    #[command(flatten)]
    only: Only,
    /// `interpreter`, or a Vulkan device by number or part of its name
    #[arg(long, value_name = "NAME", default_value = INTERPRETER)]
    device: String,
    /// The interpreter's subgroup size: 4, 8, 16, 32 or 64 [default: 32]
    #[arg(long, value_name = "SIZE", value_parser = subgroup_size)]
    subgroup: Option<u32>,
}

/// The name of the interpreter among devices.
const INTERPRETER: &str = "interpreter";

fn subgroup_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| SUBGROUP_SIZES.contains(size));
    size.ok_or_else(|| format!("expected one of {SUBGROUP_SIZES:?}"))
}

/// Why a kernel cannot be listed, printed or checked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// No kernel, format or role of this name.
    #[error("no {what} is called {name:?}; {} {}", if *close { "close are" } else { "there are" }, known.join(", "))]
    Unknown { what: &'static str, name: String, close: bool, known: Vec<String> },
    /// The kernel breaks the rules of the kernel language.
    #[error(transparent)]
    Stage(#[from] StageErrors),
    /// The kernel's words have no text.
    #[error("{kernel} cannot be printed: {reason}")]
    Words { kernel: String, reason: String },
    /// Kernels that differ from their references.
    #[error("on {device}, {outcomes}")]
    Failed { outcomes: Outcomes, device: String },
    /// A format does not keep what its host side promises.
    #[error("the layout of {format} is not what `Format` promises, as the line above says")]
    BrokenFormat { format: &'static str },
    /// The options exclude each other.
    #[error(
        "no kernel has this name, format and role at once; `kiln kernels list` takes --format and --role too"
    )]
    NoneLeft,
    /// Nothing was checked.
    #[error("{device} runs none of the {of} kernels asked for")]
    NoneRan { of: usize, device: String },
}

impl Refusal {
    /// The command asks for what there is not.
    pub(super) fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NoneLeft)
    }
}

pub(super) fn kernels(context: &Context, args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List(args) => list(&context.registry, args),
        Command::Emit(args) => emit(&context.registry, args),
        Command::Check(args) => check_all(context, args),
    }
}

/// A variant's words and layout.
pub(super) fn staged(variant: &Variant) -> Result<StagedKernel, Refusal> {
    Ok(variant.stage()?)
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(output)
}

fn list(registry: &Registry, args: &ListArgs) -> Result<(), Failure> {
    args.only.check(registry)?;
    let chosen = registry.variants().filter(|variant| args.only.takes(variant));
    let rows =
        chosen.map(|variant| Ok(row(variant, &staged(variant)?))).collect::<Result<Vec<_>, Refusal>>()?;
    print(&table(&rows))
}

/// Refuses a name that is none of `names`.
fn known<'a>(
    what: &'static str,
    name: Option<&str>,
    names: impl Iterator<Item = &'a str>,
    is: impl Fn(&str, &str) -> bool,
) -> Result<(), Refusal> {
    let Some(name) = name else { return Ok(()) };
    let mut known: Vec<String> = Vec::new();
    for each in names {
        if is(each, name) {
            return Ok(());
        }
        if !known.iter().any(|met| met == each) {
            known.push(each.to_owned());
        }
    }
    Err(Refusal::Unknown { what, name: name.to_owned(), close: false, known })
}

fn row(variant: &Variant, kernel: &StagedKernel) -> [String; 8] {
    let layout = &kernel.layout;
    let capabilities: Vec<_> = layout.capabilities.iter().map(|capability| capability.name()).collect();
    [
        variant.role.to_owned(),
        variant.format.unwrap_or("-").to_owned(),
        variant.arm.unwrap_or("-").to_owned(),
        variant.name.clone(),
        format!("{} words", kernel.words.len()),
        format!("{} bindings", layout.bindings.len()),
        format!("{} workgroup bytes", layout.workgroup_bytes),
        capabilities.join(" "),
    ]
}

/// Rows in columns two spaces apart; cells that begin with a digit stand to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let is_number = cell.starts_with(|first: char| first.is_ascii_digit());
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn emit(registry: &Registry, args: &EmitArgs) -> Result<(), Failure> {
    let kernel = staged(named(registry, &args.name)?)?;
    match &args.words {
        Some(path) => {
            spare_models(path)?;
            let bytes: Vec<u8> = kernel.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let what = path.display().to_string();
            std::fs::write(path, bytes).map_err(|source| Failure::File { what, source })
        }
        None => {
            let text = disassemble(&kernel.words);
            print(&text.map_err(|e| Refusal::Words { kernel: kernel.name, reason: e.to_string() })?)
        }
    }
}

fn named<'r>(registry: &'r Registry, name: &str) -> Result<&'r Variant, Refusal> {
    registry.variants().find(|variant| variant.name == name).ok_or_else(|| Refusal::Unknown {
        what: "kernel",
        name: name.to_owned(),
        close: true,
        known: close_names(registry.variants().map(|variant| variant.name.as_str()), name),
    })
}

/// The kernel of that name, else all that have it in theirs or are made for the format of that name.
fn all_named<'r>(registry: &'r Registry, name: &str) -> Result<Vec<&'r Variant>, Refusal> {
    match named(registry, name) {
        Ok(variant) => Ok(vec![variant]),
        Err(refusal) => {
            let with: Vec<_> = registry.variants().filter(|variant| variant.is_called(name)).collect();
            if with.is_empty() { Err(refusal) } else { Ok(with) }
        }
    }
}

/// The names that hold `name` or differ least from it, at most five.
fn close_names<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Vec<String> {
    const SHOWN: usize = 5;
    let wanted = name.to_lowercase();
    let mut ranked: Vec<(bool, usize, &str)> = names
        .map(|each| {
            let lower = each.to_lowercase();
            (!lower.contains(&wanted), edits(&lower, &wanted), each)
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(SHOWN).map(|(_, _, name)| name.to_owned()).collect()
}

/// Characters to insert, delete or replace to make `wanted` the beginning of `name`: names are long, the start is typed.
fn edits(name: &str, wanted: &str) -> usize {
    let wanted: Vec<char> = wanted.chars().collect();
    let mut above: Vec<usize> = (0..=wanted.len()).collect();
    let mut fewest = wanted.len();
    for (i, x) in name.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in wanted.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            row.push(replaced.min(above[j + 1] + 1).min(row[j] + 1));
        }
        fewest = fewest.min(row[wanted.len()]);
        above = row;
    }
    fewest
}

fn check_all(context: &Context, args: &CheckArgs) -> Result<(), Failure> {
    args.only.check(&context.registry)?;
    let mut variants: Vec<&Variant> = match &args.name {
        Some(name) => all_named(&context.registry, name)?,
        None => context.registry.variants().collect(),
    };
    variants.retain(|variant| args.only.takes(variant));
    if variants.is_empty() {
        return Err(Refusal::NoneLeft.into());
    }
    let formats = context.registry.formats();
    promises_kept(formats.filter(|row| variants.iter().any(|v| v.format == Some(row.name))))?;
    let device = open(context, args)?;
    let (of, device_name) = (variants.len(), device.caps().name.clone());
    let mut outcomes = Outcomes::default();
    for variant in variants {
        let verdict = check_one(variant, &*device);
        match verdict {
            Verdict::Passed { .. } => outcomes.add(variant, false),
            Verdict::Failed(_) => outcomes.add(variant, true),
            Verdict::Refused(_) => {}
        }
        print(&format!("{}\n", verdict.line(&variant.name)))?;
    }
    match (outcomes.ran(), outcomes.failed()) {
        (0, _) => Err(Refusal::NoneRan { of, device: device_name }.into()),
        (_, 0) => Ok(()),
        _ => Err(Refusal::Failed { outcomes, device: device_name }.into()),
    }
}

/// What the host sides of formats promise; kernels of a broken one would say less about it.
fn promises_kept<'r>(formats: impl Iterator<Item = &'r FormatRow>) -> Result<(), Failure> {
    let mut first = Ok(());
    for row in formats {
        match check_format(row) {
            Ok(()) => print(&format!("ok       layout of {}\n", row.name))?,
            Err(why) => {
                print(&format!("failed   layout of {}: {why}\n", row.name))?;
                first = first.and(Err(Refusal::BrokenFormat { format: row.name }.into()));
            }
        }
    }
    first
}

fn open(context: &Context, args: &CheckArgs) -> Result<Box<dyn Device>, Failure> {
    if args.device == INTERPRETER {
        let defaults = InterpOptions::default();
        let subgroup_size = args.subgroup.unwrap_or(defaults.subgroup_size);
        return Ok(Box::new(Interpreter::new(InterpOptions { subgroup_size, ..defaults })));
    }
    if args.subgroup.is_some() {
        let why = "--subgroup is for the interpreter: a Vulkan device has a subgroup size of its own";
        return Err(Failure::Usage(why.to_owned()));
    }
    if args.device == REFERENCE {
        let why =
            format!("kernels are checked against references, on `--device {INTERPRETER}` or a Vulkan device");
        return Err(Failure::Usage(why));
    }
    let options = RuntimeOptions {
        device: Some(args.device.clone()),
        validation: context.validation,
        ..RuntimeOptions::default()
    };
    let gpu = Gpu::open(&options)?;
    context.validation_log.get_or_init(|| gpu.validation_log());
    Ok(Box::new(gpu))
}

/// What came of checking a kernel.
enum Verdict {
    Passed { cases: usize, total: Report },
    Refused(String),
    Failed(String),
}

impl Verdict {
    fn line(&self, kernel: &str) -> String {
        match self {
            Self::Passed { cases, total: Report { outputs, worst } } => {
                format!("ok       {kernel}: {cases} cases, {outputs} values, worst {worst:.3} of its bound")
            }
            Self::Refused(why) => format!("refused  {why}"),
            Self::Failed(why) => format!("failed   {kernel}: {why}"),
        }
    }
}

/// Runs every case; the first failure is told, all are counted.
fn check_one(variant: &Variant, device: &dyn Device) -> Verdict {
    let kernel = match variant.stage() {
        Ok(kernel) => kernel,
        Err(errors) => return Verdict::Failed(errors.to_string()),
    };
    if let Err(refusal) = check_device(device, &kernel) {
        return Verdict::Refused(refusal.to_string());
    }
    let cases: Vec<_> = variant.cases().collect();
    if cases.is_empty() {
        return Verdict::Failed("it has no cases, nothing was compared".to_owned());
    }
    let mut total = Report::default();
    let mut failures = Vec::new();
    for case in &cases {
        match check(device, &kernel, case) {
            Ok(report) => {
                total.outputs += report.outputs;
                total.worst = total.worst.max(report.worst);
            }
            Err(failure) => failures.push(failure),
        }
    }
    match failures.first() {
        None => Verdict::Passed { cases: cases.len(), total },
        Some(first) => Verdict::Failed(format!("{} of {} cases, {first}", failures.len(), cases.len())),
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::add::Add;
    use kiln_kernels::conformance::Case;

    use super::*;

    #[test]
    fn close_names_hold_the_name_or_look_like_it() {
        let names = || ["gemv<Q8_0>(rows: 4)", "gemv<Q4_0>(rows: 4)", "add", "get_rows<Q8_0>"].into_iter();
        assert_eq!(close_names(names(), "GEMV<q8_0>")[0], "gemv<Q8_0>(rows: 4)");
        assert_eq!(close_names(names(), "adt")[0], "add");
        assert_eq!(close_names(names(), "get_row<Q8_0>")[0], "get_rows<Q8_0>");
        assert_eq!(close_names(names(), "gemv<Q8>")[0], "gemv<Q8_0>(rows: 4)");
        assert_eq!([edits("", "ab"), edits("kitten", "sitting"), edits("same and more", "same")], [2, 3, 0]);
    }

    #[test]
    fn a_part_of_names_chooses_all_that_have_it_and_a_whole_name_one() {
        let registry = Registry::builtin();
        let names =
            |name: &str| all_named(&registry, name).map(|all| all.iter().map(|v| v.name.clone()).collect());
        assert_eq!(names("add").unwrap(), ["add"].map(str::to_owned).to_vec());
        let parts: Vec<String> = names("get_rows<Q").unwrap();
        assert!(parts.len() > 1 && parts.iter().all(|name| name.starts_with("get_rows<Q")), "{parts:?}");
        assert!(names("no kernel is called this").is_err());
    }

    #[test]
    fn a_format_that_breaks_its_promises_is_refused_before_its_kernels_run() {
        let registry = Registry::builtin();
        assert!(promises_kept(registry.formats()).is_ok());
        let mut row = registry.format_named("Q4_0").unwrap().clone();
        row.unpack = |_, n_blocks| vec![0; n_blocks * 18];
        let why = promises_kept([&row].into_iter().chain(registry.formats())).unwrap_err().to_string();
        assert!(why.contains("layout of Q4_0"), "{why}");
    }

    /// The kernel `add` with its cases after `change`, on the interpreter.
    fn verdict(change: fn(&mut Vec<Case>)) -> Verdict {
        let add = Registry::builtin().variants().find(|variant| variant.name == "add").unwrap().clone();
        let changed = Variant::new("add", Add::new(), move || {
            let mut cases: Vec<_> = add.cases().collect();
            change(&mut cases);
            cases
        });
        check_one(&changed, &Interpreter::new(InterpOptions::default()))
    }

    #[test]
    fn a_kernel_that_differs_from_its_reference_fails() {
        let n_cases = Registry::builtin().variants().find(|v| v.name == "add").unwrap().cases().count();
        assert!(matches!(verdict(|_| ()), Verdict::Passed { cases, .. } if cases == n_cases && cases > 1));
        let Verdict::Failed(why) = verdict(|cases| {
            let other = cases[1].expected.clone();
            cases[0].expected = other;
        }) else {
            return assert_eq!("passed", "failed", "the wrong reference values");
        };
        assert!(why.starts_with(&format!("1 of {n_cases} cases, ")), "{why}");
        assert!(matches!(verdict(Vec::clear), Verdict::Failed(why) if why.contains("no cases")));
    }
}
