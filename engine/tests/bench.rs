//! The bench and its parity gate on the Vulkan device that is here, over tiny models of every architecture.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod fetched;
mod tiny;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use kiln_abi::{Device as _, spirv::Capability};
use kiln_engine::bench::profile::{Profile, StepProfile, profile};
use kiln_engine::bench::{self, BenchError, BenchOptions, Falsify, Format, GateError, Report};
use kiln_engine::gguf::{Gguf, GgufWriter};
use kiln_engine::plan::{AccuracyClass, ContextWish, PlanError, PlanOptions};
use kiln_engine::session::{Error, ModelFile};
use kiln_engine::submit::{DeviceLoadError, DeviceModel};
use kiln_kernels::{Registry, kv_type::KvType};
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};

fn no_vulkan() -> bool {
    let skipped = std::env::var_os("KILN_NO_VULKAN").is_some();
    if skipped {
        println!("NOT RUN: KILN_NO_VULKAN is set, nothing was measured");
    }
    skipped
}

fn open() -> Gpu {
    let device = std::env::var("KILN_DEVICE").ok();
    Gpu::open(&RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() })
        .unwrap()
}

fn clean(gpu: &Gpu) {
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

const OPTIONS: BenchOptions = BenchOptions {
    n_prompt: 20,
    n_gen: 4,
    depth: 3,
    repeats: 2,
    kv_type: KvType::F16,
    run_ahead: 2,
    class: AccuracyClass::F16,
    whole_keys: false,
    profile: false,
    falsify: None,
};

fn bench(gpu: &Gpu, file: &ModelFile, options: BenchOptions) -> Result<Report, BenchError> {
    bench::run(file, &Registry::builtin(), gpu, &options, &|_, _, _| ())
}

/// The tiny models that the device path has kernels for: one of each architecture, with `KILN_LONG=1` all of them.
fn planned(gpu: &Gpu) -> Vec<(String, ModelFile)> {
    let mut planned = Vec::new();
    let long = std::env::var_os("KILN_LONG").is_some();
    for model in tiny::all().into_iter().filter(|model| long || !model.name.contains('-')) {
        let file = model.file();
        match load(gpu, &file) {
            Ok(_) => planned.push((model.name, file)),
            Err(DeviceLoadError::Plan(PlanError::Word { word })) => {
                println!("{}: no kernel for {word}", model.name)
            }
            Err(other) => panic!("{}: {other}", model.name),
        }
    }
    assert!(planned.iter().any(|(name, _)| name == "llama"));
    // One whose products leave blocks and sums, and take the scale of norms.
    let packed = tiny::all().into_iter().find(|tiny| tiny.name == "qwen2").unwrap().packed();
    let model = load(gpu, &packed).unwrap();
    let has = |form: &str| model.plan().kernels.keys().any(|name| name.contains(form));
    let packs = gpu.caps().capabilities.contains(&Capability::DotProductInput4x8BitPacked);
    for form in ["form: late", "late_norm", "form: sum", "silu+blocks"] {
        assert_eq!(has(form), packs, "{form}: {}", model.plan());
    }
    planned.push(("qwen2 of Q8_0".to_owned(), packed));
    planned
}

fn load(gpu: &Gpu, file: &ModelFile) -> Result<DeviceModel, DeviceLoadError> {
    let options = PlanOptions::new(ContextWish::Exactly(64));
    DeviceModel::load(gpu, &file.gguf, &file.model.graph, &Registry::builtin(), options, &|_, _| ())
}

#[test]
fn every_model_passes_the_gate_and_is_measured() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    for (name, file) in planned(&gpu) {
        let report = bench(&gpu, &file, OPTIONS).unwrap_or_else(|why| panic!("{name}: {why}"));
        println!("{name}: {:?}", report.parity);
        assert!(report.parity.kinds > 20 && report.parity.outputs > 20 * 50, "{name}: {:?}", report.parity);
        assert!(report.parity.rms_decode <= report.parity.bar && report.parity.worst <= 1.0);
        let tests: Vec<_> = report.tests.iter().map(|t| (t.name(), t.samples.len())).collect();
        assert_eq!(tests, [("pp20 @ d3".to_owned(), 2), ("tg4 @ d3".to_owned(), 2)]);
        assert!(report.tests.iter().all(|t| t.samples.iter().all(|s| s.is_finite() && *s > 0.0)));
    }
    clean(&gpu);
}

/// Steps of a row, of a few and of many, with weights that are packed: those of a file that no width keeps from it.
#[test]
fn activations_of_a_byte_pass_the_gate() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    let file = tiny::all().into_iter().find(|tiny| tiny.name == "qwen2").unwrap().packed();
    let options = BenchOptions { class: AccuracyClass::Int8, ..OPTIONS };
    let report = bench(&gpu, &file, options).unwrap();
    println!("{:?}", report.parity);
    assert!(report.parity.kinds > 20 && report.parity.worst <= 1.0, "{:?}", report.parity);
    clean(&gpu);
}

#[test]
fn a_falsified_result_has_no_speed() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    let (_, file) = planned(&gpu).into_iter().find(|(name, _)| name == "llama").unwrap();
    let falsified = |what| bench(&gpu, &file, BenchOptions { falsify: Some(what), ..OPTIONS }).unwrap_err();
    let launch = falsified(Falsify::Launch);
    assert!(matches!(launch, BenchError::Gate(GateError::Output { .. })), "{launch}");
    let tokens = falsified(Falsify::Tokens);
    assert!(matches!(tokens, BenchError::Gate(GateError::Logits { .. })), "{tokens}");
    for kv_type in KvType::ALL {
        bench(&gpu, &file, BenchOptions { kv_type, ..OPTIONS }).unwrap();
    }
}

#[test]
fn reports_print_in_four_formats() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    let (_, file) = planned(&gpu).into_iter().find(|(name, _)| name == "llama").unwrap();
    let report = bench(&gpu, &file, BenchOptions { depth: 0, ..OPTIONS }).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.print(Format::Json)).unwrap();
    assert_eq!(json[1]["test"], "tg4");
    assert_eq!(json[1]["samples_ts"].as_array().unwrap().len(), 2);
    let parity = |key: &str| json[0]["parity"][key].as_f64().unwrap();
    assert!(parity("rms_decode") <= parity("rms_bar") && parity("rms_bar") < parity("logits_spread") / 100.0);
    assert_eq!(report.print(Format::Csv).lines().count(), 3);
    assert_eq!(report.print(Format::Md).lines().count(), 4);
    let text = report.print(Format::Text);
    assert!(text.contains("pp20 ") && text.contains(&gpu.caps().name), "{text}");
}

#[test]
fn a_profile_accounts_for_every_launch_of_a_step() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    let (_, file) = planned(&gpu).into_iter().find(|(name, _)| name == "llama").unwrap();
    let model = load(&gpu, &file).unwrap();
    let told = Mutex::new(Vec::new());
    let stage = |what, done, total| told.lock().unwrap().push((what, done, total));
    let rows_of = |profile: &Profile| profile.steps.iter().map(|s| (s.rows, s.position)).collect::<Vec<_>>();
    let few = profile(&gpu, &model, &file.model.graph, 40, 5, &|_, _, _| ()).unwrap();
    assert_eq!(rows_of(&few), [(1, 40), (5, 40)]);
    let one = profile(&gpu, &model, &file.model.graph, 40, 1, &|_, _, _| ()).unwrap();
    assert_eq!(rows_of(&one), [(1, 40)]);
    let profile = profile(&gpu, &model, &file.model.graph, 40, usize::MAX, &stage).unwrap();
    // One window before the steps, each of them and what only reads eight times.
    let told = told.into_inner().unwrap();
    let expected: Vec<_> = (0..=1 + 3 * 8).chain([25]).map(|done| ("profiling", done, 25)).collect();
    assert_eq!(told, expected);
    assert!(profile.read_bytes_per_second.unwrap() > 1e8);
    assert_eq!(rows_of(&profile), [(1, 40), (24, 40)]);
    let launches = model.plan().steps[0].launches.len();
    let step = &profile.steps[0];
    assert_eq!(step.census.values().sum::<usize>(), launches);
    assert_eq!(step.roles.iter().map(|role| role.launches).sum::<usize>(), launches);
    assert!(step.roles.iter().all(|role| role.ns > 0.0 && role.bytes > 0), "{profile}");
    // The device's clock and the host's agree: what the launches take and what they do not is the step.
    let sums = |step: &StepProfile| (step.ns() + step.outside_ns()) / step.host_ns();
    assert!(profile.steps.iter().all(|step| (sums(step) - 1.0).abs() <= 0.02), "{profile}");
    // Control: launches that take longer than the step are seen.
    let mut slow = step.clone();
    slow.roles[0].ns += 1.03 * step.outside_ns() + 0.03 * step.host_ns();
    assert!((sums(&slow) - 1.0).abs() > 0.02);
    let gemv = step.roles.iter().find(|role| role.role == "gemv").unwrap();
    let matrices: u64 = 4 * file.model.graph.tensors.iter().map(|t| t.n_elems() as u64).sum::<u64>();
    assert!(gemv.bytes > matrices / 2 && gemv.bytes < 2 * matrices, "{} of {matrices}", gemv.bytes);
    clean(&gpu);
}

#[test]
fn a_context_without_room_is_refused_before_anything_is_loaded() {
    if no_vulkan() {
        return;
    }
    let gpu = open();
    let (_, file) = planned(&gpu).into_iter().find(|(name, _)| name == "llama").unwrap();
    let refused = bench(&gpu, &file, BenchOptions { depth: 1 << 40, ..OPTIONS }).unwrap_err();
    assert!(matches!(refused, BenchError::Engine(Error::Device(DeviceLoadError::Plan(_)))), "{refused}");
    assert_eq!(gpu.memory_use().buffers, 0);
}

/// `kiln`, as this test runs: with the loader of the CPU driver where that brings its own.
fn kiln() -> Command {
    let program = env!("CARGO_BIN_EXE_kiln");
    let driver = std::env::var_os("VK_DRIVER_FILES").map(|path| PathBuf::from(path).with_file_name("run"));
    match driver.filter(|run| run.exists()) {
        Some(run) => {
            let mut command = Command::new(run);
            command.arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// A tiny model with a real tokenizer, as a file.
fn with_tokenizer(tiny: &tiny::Tiny) -> Vec<u8> {
    let registry = Registry::builtin();
    let f32 = registry.format_named("F32").unwrap();
    let (whole, real) = (tiny.file(), Gguf::open(&fetched::model(), &registry).unwrap());
    let n_vocab = real.tensor("token_embd.weight").unwrap().shape[0];
    let mut writer = GgufWriter::new();
    writer.copy(whole.gguf.metadata(), |_| true).unwrap();
    writer.copy(real.metadata(), |key| key.starts_with("tokenizer.ggml.")).unwrap();
    let is_of_ids = |name: &str| matches!(name, "token_embd.weight" | "output.weight");
    for (name, shape) in &tiny.tensors {
        let shape = if is_of_ids(name) { vec![n_vocab, shape[1]] } else { shape.clone() };
        writer.tensor(name, &shape, f32).unwrap();
    }
    let mut data = writer.start(Vec::new()).unwrap();
    for (name, shape) in &tiny.tensors {
        let values = whole.gguf.tensor(name).unwrap().data;
        let n = if is_of_ids(name) { 4 * (n_vocab * shape[1]) as usize } else { values.len() };
        data.data(&values.iter().copied().cycle().take(n).collect::<Vec<u8>>()).unwrap();
    }
    data.finish().unwrap()
}

/// Milliseconds of the step of one row, and those of its lines.
fn of_one_row(report: &str) -> (f64, Vec<f64>) {
    let ms = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("ms")).unwrap();
        words[at - 1].parse::<f64>().unwrap()
    };
    let mut lines = report.lines().skip_while(|line| !line.starts_with("step     of 1 rows"));
    let step = ms(lines.next().unwrap());
    (step, lines.take_while(|line| !line.trim_start().starts_with("launches:")).map(ms).collect())
}

#[test]
fn run_shows_where_the_time_of_a_step_goes() {
    if no_vulkan() {
        return;
    }
    let tiny = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let model = std::env::temp_dir().join(format!("kiln-profile-{}.gguf", std::process::id()));
    std::fs::write(&model, with_tokenizer(&tiny)).unwrap();
    let run = || {
        let mut command = kiln();
        command.args(["run", model.to_str().unwrap(), "--raw", "-p", "The sea", "-n", "2", "--temp", "0"]);
        command.args(["--ctx", "6", "--profile"]);
        command.args(std::env::var("KILN_DEVICE").iter().flat_map(|device| ["--device", device]));
        let output = command.output().unwrap();
        let report = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{report}");
        report
    };
    // A machine that does other things may wake the host late, never every time.
    let mut shares = Vec::new();
    while shares.len() < 5 && shares.last().is_none_or(|share| *share < 0.98) {
        let report = run();
        let (step, lines) = of_one_row(&report);
        let (outside, launches) = lines.split_last().unwrap();
        let inside: f64 = launches.iter().sum();
        assert!(launches.len() > 5, "{report}");
        assert!((inside + outside - step).abs() <= 0.02 * step, "{report}");
        // Control: a role left out is missed.
        assert!((inside - launches[0] + outside - step).abs() > 0.02 * step, "{report}");
        shares.push(inside / step);
    }
    std::fs::remove_file(&model).unwrap();
    println!("launches take {shares:.3?} of a step");
    assert!(shares.last().is_some_and(|share| *share >= 0.98), "{shares:?} of a step is in its launches");
}
