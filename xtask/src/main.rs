//! Repository commands: `cargo xtask <command>`. What a person types and what CI runs are the same code.

#![forbid(unsafe_code)]

mod bench;
mod cache;
mod cargo;
mod ci;
mod demo;
mod dump_diff;
mod golden;
mod lavapipe;
mod names;
mod new_format;
mod new_kernel;
mod pip;
mod process;
mod setup;
mod stages;

use std::process::ExitCode;

use ci::Kernels;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo                 set up what is needed, build kiln, ask SmolLM2 for the capital of France
  ci [--only STAGE]    everything CI runs, in its order; STAGE is a stage or a budget group
  ci --list            the stages, their groups and their budgets

  setup [NAME...]      fetch into the cache: model, spirv, vocab, driver (all by default)
  env                  print the variables under which tests find the cache, for `eval`
  fmt                  format the workspace
  lint                 clippy, warnings are errors
  docs                 rustdoc, warnings are errors
  test [ARGS...]       every test stage, or `cargo test ARGS...` with the cache's variables set
  conformance [--all | NAME]
                       every kernel on the interpreter and the CPU driver: a cover chosen by KILN_SEED (the commit's
                       hash by default), or everything, long cases too, and on the GPU if there is one, or those with
                       NAME in their name or of the format NAME, on the driver where the interpreter finds no fault;
                       KILN_RECORD=FILE (target/conformance.jsonl for everything) takes a line for each variant and
                       goes on where a run was cut off, FILE.summary.json sums it up
  new-format NAME      a quantization format's file and rows, to be filled in
  golden               accept the snapshots of tests/golden and show what changed
  bench peer MODEL     another engine ($KILN_PEER) and kiln in turn, appended to bench/records; as for `kiln bench`
                       -p -n -d -r, and --rounds N, --no-rms; $KILN_BIN is a kiln that is built already
  dump-diff REV [NAME] what the kernels' words are now against what they were at a revision; in full, of those with
                       NAME in their name
  new-kernel NAME      a kernel that runs, its reference and their rows, to start from

The cache is $KILN_CACHE, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["demo"] => demo::demo(),
        ["ci"] => return status(ci::ci(None)),
        ["ci", "--only", stage] => return status(ci::ci(Some(stage))),
        ["ci", "--list"] => ci::list(),
        ["setup", names @ ..] => setup::command(names),
        ["env"] => setup::print_env(),
        ["fmt"] => cargo::run(&["fmt", "--all"], &[]),
        ["lint"] => cargo::run(stages::CLIPPY, &[]),
        ["docs"] => cargo::run(stages::DOC, stages::DOC_ENV),
        ["test", args @ ..] => return status(ci::test(args)),
        ["bench", "peer", args @ ..] => bench::peer(args),
        ["dump-diff", rev] => dump_diff::dump_diff(rev, None),
        ["dump-diff", rev, name] => dump_diff::dump_diff(rev, Some(name)),
        ["conformance"] => return status(ci::conformance(&Kernels::Cover)),
        ["conformance", "--all"] => return status(ci::conformance(&Kernels::All)),
        ["conformance", name] if !name.starts_with('-') => {
            return status(ci::conformance(&Kernels::Named(name)));
        }
        ["new-format", name] => new_format::new_format(name),
        ["golden"] => golden::accept(),
        ["new-kernel", name] => new_kernel::new_kernel(name),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    status(done.map(|()| ExitCode::SUCCESS))
}

fn status(done: process::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|why| {
        eprintln!("xtask: {why}");
        ExitCode::FAILURE
    })
}
