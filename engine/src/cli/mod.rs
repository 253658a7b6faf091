//! The command line: answers on stdout, everything else on stderr; exit code 0 good, 1 failed, 2 bad usage.

mod bench;
mod chat;
mod devices;
mod environment;
mod inspect;
mod kernels;
mod log;
mod logits;
mod options;
mod progress;
mod run;
mod tokenize;

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kiln_kernels::Registry;
use kiln_runtime::{RuntimeError, ValidationLog};

use crate::bench::BenchError;
use crate::session::Error;

#[derive(Parser)]
#[command(name = "kiln", version, about = "Runs large language models from GGUF files", max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = false)]
struct Cli {
    /// List the environment variables that Kiln reads
    #[arg(long)]
    help_env: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Chat(chat::Args),
    Bench(bench::Args),
    Logits(logits::Args),
    Tokenize(tokenize::Args),
    Inspect(inspect::Args),
    Devices(devices::Args),
    Kernels(kernels::Args),
}

/// How a command ends early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The command cannot be understood.
    #[error("{0}")]
    Usage(String),
    /// The command failed.
    #[error("{0}")]
    Engine(#[from] Error),
    /// There is no speed to report.
    #[error("{0}")]
    Bench(#[from] BenchError),
    /// The Vulkan loader, a driver, or the device that was asked for.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
    /// The same where a model could run without a device too.
    #[error("{0}\n`--device reference` runs the model on the CPU without Vulkan")]
    Placed(RuntimeError),
    /// A kernel that cannot be listed, printed or checked.
    #[error("{0}")]
    Kernels(#[from] kernels::Refusal),
    /// The validation layer's messages.
    #[error("the validation layer has {} messages:\n{}", messages.len(), messages.join("\n"))]
    Validation { messages: Vec<String> },
    /// A file that the command names.
    #[error("{what}: {source}")]
    File { what: String, source: io::Error },
    /// Standard output or input.
    #[error("standard {stream}: {source}")]
    Stream { stream: &'static str, source: io::Error },
}

impl Failure {
    /// The command asks for what there is not, rather than that something failed.
    fn is_usage(&self) -> bool {
        use RuntimeError::{AmbiguousDevice, UnknownDevice};
        match self {
            Self::Runtime(error) | Self::Placed(error) => {
                matches!(error, UnknownDevice { .. } | AmbiguousDevice { .. })
            }
            Self::Kernels(refusal) => refusal.is_usage(),
            _ => matches!(self, Self::Usage(_)),
        }
    }

    /// The reader of our answers went away, as `head` does: no failure of ours.
    fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Stream { source, .. } | Self::Engine(Error::Output(source)) => {
                source.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }
}

/// Refuses to write over a model.
fn spare_models(out: &Path) -> Result<(), Failure> {
    let mut start = Vec::new();
    if out.is_file() {
        let read = File::open(out).and_then(|file| file.take(4).read_to_end(&mut start));
        read.map_err(|source| Failure::File { what: out.display().to_string(), source })?;
    }
    match start.as_slice() {
        b"GGUF" => Err(Failure::Usage(format!(
            "{} is a GGUF file, which would be overwritten; name another file",
            out.display()
        ))),
        _ => Ok(()),
    }
}

/// For `?` on writes to standard output.
fn output(source: io::Error) -> Failure {
    Failure::Stream { stream: "output", source }
}

/// Runs the program on the process's arguments, with the formats of `registry`.
pub fn cli(registry: Registry) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout with code 0, complaints to stderr with code 2; a reader may be gone either way.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let outcome = environment::threads().and_then(|threads| {
        log::start(environment::log_level()?);
        let validation = environment::validation()?;
        let without = environment::without()?;
        let context = Context { registry, threads, validation, without, validation_log: OnceCell::new() };
        match cli.command {
            _ if cli.help_env => environment::print(),
            Some(command) => context.run(command),
            None => Err(Failure::Usage("no command given".to_owned())),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            log::say(format_args!("error: {failure}"));
            ExitCode::from(if failure.is_usage() { 2 } else { 1 })
        }
    }
}

/// What every command gets.
struct Context {
    registry: Registry,
    threads: crate::reference::Threads,
    /// Whether devices are opened with the validation layer.
    validation: bool,
    /// What every device shall do without.
    without: Vec<options::Without>,
    /// What the layer said.
    validation_log: OnceCell<ValidationLog>,
}

impl Context {
    fn run(&self, command: Command) -> Result<(), Failure> {
        self.dispatch(command)?;
        match self.validation_log.get().map(ValidationLog::messages) {
            Some(messages) if !messages.is_empty() => Err(Failure::Validation { messages }),
            _ => Ok(()),
        }
    }

    fn dispatch(&self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Run(args) => run::run(self, &args),
            Command::Chat(args) => chat::chat(self, &args),
            Command::Bench(args) => bench::bench(self, &args),
            Command::Logits(args) => logits::logits(self, &args),
            Command::Tokenize(args) => tokenize::tokenize(self, &args),
            Command::Inspect(args) => inspect::inspect(self, &args),
            Command::Devices(args) => devices::devices(self, &args),
            Command::Kernels(args) => kernels::kernels(self, &args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn asking_for_a_device_that_there_is_not_is_bad_usage() {
        let unknown = RuntimeError::UnknownDevice { selector: "nope".into(), devices: String::new() };
        assert!(Failure::from(unknown).is_usage());
        let absent = RuntimeError::NoDriver { reason: String::new() };
        assert!(!Failure::from(absent).is_usage(), "a machine without a driver is no mistake of the command");
    }

    #[test]
    fn bad_usage_is_refused() {
        let check = |args: &str, good: bool| {
            let parsed = Cli::try_parse_from(args.split(' '));
            assert_eq!(parsed.is_ok(), good, "{args}");
        };
        check(
            "kiln run m.gguf -p hi --temp 0.5 --top-k 3 --top-p 0.9 --min-p 0.1 --seed 7 --ctx 128 -n 4",
            true,
        );
        check("kiln run m.gguf -p hi -f file", false);
        check("kiln run m.gguf --temp -1", false);
        check("kiln run m.gguf --temp nan", false);
        check("kiln run m.gguf --top-p 1.5", false);
        check("kiln run m.gguf --min-p -0.1", false);
        check("kiln run m.gguf --repeat-penalty 0", false);
        check("kiln run m.gguf --ctx 0", false);
        check("kiln run", false);
        check("kiln logits m.gguf --ids 1,2 --out f", true);
        check("kiln logits m.gguf --ids 1,x --out f", false);
        check("kiln logits m.gguf --ids 1,2", false);
        check("kiln logits m.gguf --out f", false);
        check("kiln logits m.gguf --ids 1 --ids-file g --out f", false);
        check("kiln bench m.gguf -p 512 -n 128 -d 4096 -r 5 -o json --device 0", true);
        check("kiln bench m.gguf -o yaml", false);
        check("kiln bench m.gguf -r 0", false);
        check("kiln tokenize m.gguf text --lines f", false);
        check("kiln devices --json", true);
        check("kiln devices --json --caps 0", false);
        check("kiln inspect m.gguf --plan --caps f.json --ctx 4096 --without f16,dot4", true);
        check("kiln kernels", false);
        check("kiln kernels list --role gemv --format Q8_0", true);
        check("kiln kernels emit", false);
        check("kiln kernels check --subgroup 64", true);
        check("kiln kernels check --subgroup 12", false);
        check("kiln kernels check --device 0 --subgroup 8", true);
        check("kiln juggle", false);
        check("kiln --help-env", true);
    }
}
