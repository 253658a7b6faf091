//! `kiln bench`: tokens per second, after the results were shown to be right.

use std::io::Write;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;

use super::options::Placement;
use super::progress::Stages;
use super::{Context, Failure, output};
use crate::bench::{self, BenchOptions, Falsify, Format};
use crate::session::ModelFile;
use crate::submit::{MAX_AHEAD, RUN_AHEAD};

/// Measure a model's speed on a Vulkan device.
///
/// Results come first: every kind of launch is compared with plain Rust on the model's own weights, and forced tokens
/// with the plain plan; a model that fails has no speed. Then the device warms up for half a second, the first
/// repetition is dropped, and the rest are reported. pp is a prompt fed at once, tg tokens generated one by one, each
/// on the host before it counts.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// Tokens of the prompt test; 0 for none
    #[arg(short, value_name = "N", default_value_t = 512)]
    p: usize,
    /// Tokens of the generation test; 0 for none
    #[arg(short, value_name = "N", default_value_t = 128)]
    n: usize,
    /// Positions that are filled before either starts
    #[arg(short, value_name = "DEPTH", default_value_t = 0)]
    d: usize,
    /// Repetitions that count
    #[arg(short, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    r: usize,
    /// Steps that run ahead of the token that the host has read, 0 to 3
    #[arg(long, value_name = "N", default_value_t = RUN_AHEAD, value_parser = RangedU64ValueParser::<usize>::new().range(0..=MAX_AHEAD as u64))]
    ahead: usize,
    /// Let attention of few rows go over all keys at once instead of in parts; results are the same, to the bit
    #[arg(long)]
    whole_keys: bool,
    /// text, md, json or csv
    #[arg(short, value_name = "FORMAT", default_value = "text")]
    o: Format,
    /// Afterward, show on standard error where the time of a step goes, and how often each kernel runs
    #[arg(long)]
    profile: bool,
    /// Get a result wrong on purpose, to see the comparison refuse it
    #[arg(long, value_name = "WHAT", hide = true, value_parser = falsify)]
    falsify: Option<Falsify>,
    #[command(flatten)]
    placement: Placement,
}

fn falsify(text: &str) -> Result<Falsify, String> {
    match text {
        "launch" => Ok(Falsify::Launch),
        "tokens" => Ok(Falsify::Tokens),
        _ => Err("expected launch or tokens".to_owned()),
    }
}

pub(super) fn bench(context: &Context, args: &Args) -> Result<(), Failure> {
    if args.p + args.n == 0 {
        return Err(Failure::Usage("-p 0 and -n 0 leave nothing to measure".to_owned()));
    }
    if args.placement.is_reference() {
        return Err(Failure::Usage(
            "bench measures Vulkan devices; the reference is for comparisons".to_owned(),
        ));
    }
    let file = ModelFile::open(&args.model, &context.registry)?;
    let plan = args.placement.plan_options(&file);
    let options = BenchOptions {
        n_prompt: args.p,
        n_gen: args.n,
        depth: args.d,
        repeats: args.r,
        kv_type: plan.kv_type,
        run_ahead: args.ahead,
        class: plan.class,
        whole_keys: args.whole_keys,
        profile: args.profile,
        falsify: args.falsify,
    };
    if let Some(ctx) = args.placement.asked_ctx().filter(|ctx| *ctx < options.n_ctx()) {
        let needed = options.n_ctx();
        return Err(Failure::Usage(format!(
            "--ctx {ctx} is less than the {needed} positions that -p, -n and -d need; bench takes these without it"
        )));
    }
    let gpu = args.placement.open(context)?;
    let stages = Stages::default();
    let report = bench::run(&file, &context.registry, &gpu, &options, &|what, done, total| {
        stages.report(what, done, total);
    });
    drop(stages);
    let report = report?;
    if let Some(profile) = &report.profile {
        super::log::say(format_args!("profile\n{}", profile.to_string().trim_end()));
    }
    std::io::stdout().lock().write_all(report.print(args.o).as_bytes()).map_err(output)
}
