//! `cargo xtask ci`: runs the stages, holds them to their budgets, and closes with one line of counts.

use std::ffi::OsString;
use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cargo::{self, Binary, Counts};
use crate::process::{Result, capture};
use crate::setup::{self, Artefact, Driver};
use crate::stages::{
    Action, DEVICE_PACKAGES, Group, KERNEL_SUITES, KERNELS_SECONDS, LAVAPIPE_8, MORE_SUITES, OVERRUN, Pick,
    STAGES, Stage, TOTAL_MINUTES, Where, picks,
};

/// cargo starts test programs through what this names.
const RUNNER: &str = if cfg!(target_arch = "aarch64") {
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
} else {
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
};

/// What a test printed is shown though it passed.
const SHOW_OUTPUT: &str = "--show-output";

/// The file that conformance leaves its lines in.
const RECORD: &str = "KILN_RECORD";

/// What a cover of the kernels' variants is chosen by.
const SEED: &str = "KILN_SEED";

/// What became of one stage.
enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

struct Record {
    stage: &'static Stage,
    took: Duration,
    counts: Counts,
    outcome: Outcome,
}

/// Runs every stage, or those of one name or group.
pub(crate) fn ci(only: Option<&str>) -> Result<ExitCode> {
    let chosen: Vec<&Stage> = STAGES
        .iter()
        .filter(|stage| only.is_none_or(|only| stage.name == only || stage.group.name() == only))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no stage or group `{}`; see `cargo xtask ci --list`", only.unwrap_or_default()));
    }
    Ok(finish(&run(&chosen)))
}

/// `cargo xtask test`: the test stages, or a given `cargo test` with the cache's variables set.
pub(crate) fn test(args: &[&str]) -> Result<ExitCode> {
    if args.is_empty() {
        let tests: Vec<&Stage> = STAGES.iter().filter(|s| matches!(s.action, Action::Test(..))).collect();
        return Ok(finish(&run(&tests)));
    }
    let on_device = args.iter().any(|arg| DEVICE_PACKAGES.contains(arg));
    let place = if on_device { LAVAPIPE_8 } else { Where::Host };
    let driver = setup::find_driver()?;
    if let Some(why) = place.blocked(&driver) {
        return Err(why.to_string());
    }
    let mut env = test_env(place, &driver)?;
    env.extend(place.launcher(&driver).map(|run| (RUNNER, run.into())));
    let (counts, ended) = cargo::test(args, &env);
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which kernels `cargo xtask conformance` runs.
pub(crate) enum Kernels<'a> {
    /// A cover of all variants.
    Cover,
    /// Everything, on the GPU that is here too.
    All,
    /// Those with this text in their name, or made for the format of this name.
    Named(&'a str),
}

/// `cargo xtask conformance`: the kernels' suites alone. It compiles what they need and nothing else.
pub(crate) fn conformance(kernels: &Kernels<'_>) -> Result<ExitCode> {
    let driver = setup::find_driver()?;
    let more = if matches!(kernels, Kernels::All) { MORE_SUITES } else { &[] };
    let suites = || KERNEL_SUITES.iter().chain(more);
    let options = suites().flat_map(|((package, target), _)| ["--package", package, "--test", target]);
    let binaries = cargo::binaries_of(&options.collect::<Vec<_>>())?;
    let mut ended_well = true;
    let record = record_of_all()?;
    for (target, place) in suites() {
        if let Some(why) = place.blocked(&driver) {
            return Err(why.to_string());
        }
        let mut env = test_env(*place, &driver)?;
        let mut options = vec![SHOW_OUTPUT];
        match kernels {
            Kernels::Cover => {}
            Kernels::All => env.extend([("KILN_LONG", "1".into()), (RECORD, record.clone().into())]),
            Kernels::Named(name) => {
                env.push(("KILN_KERNEL", name.into()));
                options.push("kernels_equal_their_references");
            }
        }
        for binary in binaries.iter().filter(|b| (b.package.as_str(), b.target.as_str()) == *target) {
            let launcher = place.launcher(&driver);
            let out = &mut std::io::stdout().lock();
            let (counts, ended) = binary.test(launcher.as_deref(), &options, &env, out);
            println!("{} {place}: {} passed, {} failed", binary.target, counts.passed, counts.failed);
            // Counts do not say that a test program was killed, which then printed none.
            if let Err(why) = &ended {
                eprintln!("{} {place}: {why}", binary.target);
            }
            ended_well &= ended.is_ok();
        }
        // What is wrong on the interpreter is told best there; every device would fail on it in its minutes.
        if matches!((kernels, place), (Kernels::Named(_), Where::Host)) && !ended_well {
            break;
        }
    }
    if let Kernels::All = kernels {
        let mut beside = record.into_os_string();
        beside.push(".summary.json");
        let text = std::fs::read_to_string(&beside);
        println!("{}{}", text.map_err(|e| format!("{}: {e}", beside.display()))?, beside.display());
    }
    Ok(if ended_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file that keeps a line for each variant: `KILN_RECORD`, or one beside what cargo builds. Tests run elsewhere, so
/// that its path is whole.
fn record_of_all() -> Result<PathBuf> {
    let path = std::env::var_os(RECORD).map_or("target/conformance.jsonl".into(), PathBuf::from);
    let path = std::path::absolute(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.map_err(|e| format!("the folder of {}: {e}", path.display()))?;
    Ok(path)
}

/// `cargo xtask ci --list`.
pub(crate) fn list() -> Result<()> {
    for stage in STAGES {
        let budget = stage.group.budget_minutes().map_or("-".to_string(), |minutes| format!("{minutes}"));
        println!("{:<16} {:<12} {budget:>3} min", stage.name, stage.group.name());
    }
    Ok(())
}

fn run(stages: &[&'static Stage]) -> Vec<Record> {
    let mut records = Vec::new();
    for stage in stages {
        eprintln!("\n=== {} ===", stage.name);
        let start = Instant::now();
        let (counts, outcome) = match perform(&stage.action) {
            Ok((counts, outcome)) => (counts, outcome),
            Err(why) => (Counts::default(), Outcome::Failed(why)),
        };
        let took = start.elapsed();
        eprintln!("=== {}: {:.1} min ===", stage.name, minutes(took));
        // Nothing after these can say anything new once they fail.
        let stop =
            matches!(stage.action, Action::Setup | Action::Build) && matches!(outcome, Outcome::Failed(_));
        records.push(Record { stage, took, counts, outcome });
        if stop {
            break;
        }
    }
    records
}

fn perform(action: &Action) -> Result<(Counts, Outcome)> {
    match action {
        Action::Setup => setup::setup(&Artefact::ALL)?,
        Action::Build => build()?,
        Action::Cargo(args, env) => cargo::run(args, env)?,
        Action::DocTests => {
            let (counts, ended) =
                cargo::test(&["--workspace", "--doc"], &test_env(Where::Host, &setup::find_driver()?)?);
            return Ok((counts, ended.map_or_else(Outcome::Failed, |()| Outcome::Passed)));
        }
        Action::Test(chosen, place) => return run_tests(chosen, *place),
    }
    Ok((Counts::default(), Outcome::Passed))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_tests(chosen: &[Pick], place: Where) -> Result<(Counts, Outcome)> {
    let driver = setup::find_driver()?;
    if let Some(why) = place.blocked(&driver) {
        return Ok((Counts::default(), Outcome::NotRun(why.to_string())));
    }
    let mut env = test_env(place, &driver)?;
    let binaries = cargo::binaries()?;
    let unmet =
        |pick: &&Pick| !binaries.iter().any(|binary| picks(&[**pick], &binary.package, &binary.target));
    let mut failures: Vec<String> =
        chosen.iter().filter(unmet).map(|pick| format!("no tests: {pick}")).collect();
    // In the order of the stage's picks.
    let of = |pick| binaries.iter().filter(move |b| picks(&[pick], &b.package, &b.target));
    let mine: Vec<&Binary> = chosen.iter().copied().flat_map(of).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let lanes = if place.is_side_by_side() { threads.min(mine.len()).max(1) } else { 1 };
    if lanes > 1 {
        env.push(("RUST_TEST_THREADS", (threads / lanes).to_string().into()));
    }
    let launcher = place.launcher(&driver);
    let options: &[&str] = if place.is_device() { &[SHOW_OUTPUT] } else { &[] };
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(Counts::default()));
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(binary) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut said = Vec::new();
            let (more, ended) = if lanes == 1 {
                binary.test(launcher.as_deref(), options, &env, &mut std::io::stdout().lock())
            } else {
                binary.test(launcher.as_deref(), options, &env, &mut said)
            };
            // A closed stdout must not stop the tests.
            let _ = std::io::stdout().lock().write_all(&said);
            lock(&counts).add(more);
            if let Err(why) = ended {
                lock(&failed).push(format!("{} {}: {why}", binary.package, binary.target));
            }
        }
    };
    std::thread::scope(|scope| (0..lanes).for_each(|_| _ = scope.spawn(work)));
    failures.append(&mut lock(&failed));
    let counts = *lock(&counts);
    let passed = failures.is_empty();
    Ok((counts, if passed { Outcome::Passed } else { Outcome::Failed(failures.join(", ")) }))
}

/// Builds everything, and holds the kernels crate to its own limit.
fn build() -> Result<()> {
    let seconds = cargo::build_timed("kiln-kernels")?;
    check_all_picked()?;
    let Some(seconds) = seconds else {
        eprintln!("kiln-kernels was built before; its compile time is measured on a cold build only");
        return Ok(());
    };
    eprintln!("kiln-kernels compiled in {seconds:.1} s, beside other crates (limit {KERNELS_SECONDS} s)");
    if seconds <= KERNELS_SECONDS {
        return Ok(());
    }
    Err(format!("kiln-kernels took {seconds:.0} s to compile, limit {KERNELS_SECONDS} s"))
}

/// A test binary that no stage picks would never run.
fn check_all_picked() -> Result<()> {
    let picked = |binary: &cargo::Binary| {
        STAGES.iter().any(|stage| match &stage.action {
            Action::Test(chosen, _) => picks(chosen, &binary.package, &binary.target),
            _ => false,
        })
    };
    let binaries = cargo::binaries()?;
    let missed: Vec<&str> = binaries.iter().filter(|b| !picked(b)).map(|b| b.package.as_str()).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!("no stage runs the tests of {}; add a row to xtask/src/stages.rs", missed.join(", ")))
}

fn test_env(place: Where, driver: &Driver) -> Result<Vec<(&'static str, OsString)>> {
    let mut env = setup::test_env()?;
    env.push(("INSTA_UPDATE", "no".into()));
    if std::env::var_os(SEED).is_none() {
        // A tree without its history has one cover.
        let head = capture(Command::new("git").args(["rev-parse", "HEAD"])).unwrap_or_default();
        env.push((SEED, head.trim().into()));
    }
    if let Where::Gpu = place {
        env.push(("KILN_GPU", "1".into()));
    }
    if let Where::Lavapipe { vector_bits, optimized } = place {
        env.push(("LP_NATIVE_VECTOR_WIDTH", vector_bits.to_string().into()));
        let mut kind = vector_bits.to_string();
        if !optimized {
            env.push(("GALLIVM_PERF", "nopt".into()));
            kind += "-quick";
        }
        // A shader cache shared with other vector widths or other runs could hide a compile failure.
        let shaders = crate::cache::root()?.join("shaders").join(kind);
        env.push(("MESA_SHADER_CACHE_DIR", shaders.into()));
        if let Driver::System(manifest) = driver {
            env.push(("VK_DRIVER_FILES", manifest.into()));
        }
    }
    Ok(env)
}

/// Prints the table, what did not run, what failed, and the counts, in this order: the last line is the sum.
fn finish(records: &[Record]) -> ExitCode {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    eprintln!();
    for record in records {
        counts.add(record.counts);
        let word = match &record.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed(why) => {
                failures.push((record.stage.name, why.clone()));
                "FAILED"
            }
            Outcome::NotRun(_) => "NOT RUN",
        };
        eprintln!("{:<16} {:>6.1} min  {word}", record.stage.name, minutes(record.took));
    }
    eprintln!();
    for group in Group::ALL {
        let took: Duration = records.iter().filter(|r| r.stage.group == group).map(|r| r.took).sum();
        let Some(budget) = group.budget_minutes().filter(|_| !took.is_zero()) else { continue };
        let took = minutes(took);
        eprintln!("{:<16} {took:>6.1} min of {budget}", group.name());
        if took > budget * OVERRUN {
            failures.push((group.name(), format!("{took:.1} min passes the budget of {budget} by half")));
        }
    }
    let total = minutes(records.iter().map(|r| r.took).sum());
    let over = if total > TOTAL_MINUTES { "  OVER BUDGET" } else { "" };
    eprintln!("{:<16} {total:>6.1} min of {TOTAL_MINUTES}{over}", "total");

    for record in records {
        if let Outcome::NotRun(why) = &record.outcome {
            eprintln!("\nWARNING: the tests of stage {} DID NOT RUN: {why}", record.stage.name);
        }
    }
    if counts.ignored > 0 {
        eprintln!("\nWARNING: {} tests are marked ignored and did not run", counts.ignored);
    }
    for (name, why) in &failures {
        eprintln!("\nFAILED {name}: {why}");
    }
    let names: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
    let stages = if names.is_empty() { String::new() } else { format!("; FAILED: {}", names.join(", ")) };
    println!("\n{} passed, {} failed{stages}", counts.passed, counts.failed);
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn minutes(took: Duration) -> f64 {
    took.as_secs_f64() / 60.0
}
