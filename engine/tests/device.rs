//! SmolLM2-135M-Instruct on the Vulkan device that is here, held against the f32 reference in the same process.
//!
//! CI's device is slow, so it feeds the shorter prompts; `KILN_LONG=1` runs all of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fetched;

use std::sync::{Mutex, OnceLock};

use kiln_abi::{Device as _, DeviceError, LaunchError};
use kiln_engine::forward::{Backend, Choice, ForwardError, feed_windows};
use kiln_engine::plan::{AccuracyClass, ContextWish, Plan, PlanOptions, PlannedStep, Target};
use kiln_engine::record::{Pipelines, record};
use kiln_engine::reference::Threads;
use kiln_engine::session::{Device, Error, ModelFile};
use kiln_engine::submit::DeviceModel;
use kiln_kernels::Registry;
use kiln_runtime::{CacheDir, Faults, Gpu, RecordOptions, RuntimeOptions};
use serde::Deserialize;

/// Root mean square of the difference to the reference's logits: the f16 class of activations, weights and KV.
const RMS_BAR: f64 = 0.015;
/// Where the reference's two best logits are closer than this, either may win.
const DECIDED: f32 = 0.05;
const N_CTX: usize = 512;
const OPTIONS: PlanOptions = PlanOptions::new(ContextWish::Exactly(N_CTX));

fn no_vulkan() -> bool {
    let skipped = std::env::var_os("KILN_NO_VULKAN").is_some();
    if skipped {
        println!("NOT RUN: KILN_NO_VULKAN is set, no model ran through Vulkan");
    }
    skipped
}

fn long() -> bool {
    std::env::var_os("KILN_LONG").is_some()
}

fn open(faults: Faults, paranoid: bool) -> Gpu {
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions {
        device,
        validation: true,
        cache: CacheDir::Off,
        paranoid,
        faults,
        ..Default::default()
    };
    Gpu::open(&options).unwrap()
}

fn file() -> &'static ModelFile {
    static FILE: OnceLock<ModelFile> = OnceLock::new();
    FILE.get_or_init(|| ModelFile::open(&fetched::model(), &Registry::builtin()).unwrap())
}

fn reference() -> &'static dyn Backend {
    static MODEL: OnceLock<Box<dyn Backend>> = OnceLock::new();
    let load = || {
        let device = Device::Reference { threads: Threads::new(None) };
        file().load(&Registry::builtin(), device, &|_, _| ()).unwrap()
    };
    MODEL.get_or_init(load).as_ref()
}

fn on(gpu: &Gpu) -> Result<Box<dyn Backend>, Error> {
    file().load(&Registry::builtin(), Device::Vulkan { gpu: gpu.clone(), options: OPTIONS }, &|_, _| ())
}

fn model(gpu: &Gpu) -> DeviceModel {
    let (gguf, graph) = (&file().gguf, &file().model.graph);
    DeviceModel::load(gpu, gguf, graph, &Registry::builtin(), OPTIONS, &|_, _| ()).unwrap()
}

fn clean(gpu: &Gpu) {
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

#[derive(Deserialize)]
struct Vectors {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    ids: Vec<u32>,
}

fn prompts() -> Vec<Vec<u32>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/logits/smollm2-135m-q4_1.json");
    let vectors: Vectors = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let all: Vec<Vec<u32>> = vectors.prompts.into_iter().map(|p| p.ids).collect();
    let most = if long() { usize::MAX } else { 60 };
    all.into_iter().filter(|ids| ids.len() <= most).collect()
}

/// Logits after every id, fed in windows.
fn logits(backend: &dyn Backend, ids: &[u32]) -> Vec<f32> {
    let mut sequence = backend.sequence(N_CTX).unwrap();
    let mut all = Vec::new();
    let rows = |_, rows: Vec<f32>| {
        all.extend(rows);
        Ok::<_, ForwardError>(())
    };
    feed_windows(sequence.as_mut(), ids, 0..ids.len(), rows).unwrap();
    all
}

/// Logits after every id, fed so many at a time.
fn logits_by(backend: &dyn Backend, ids: &[u32], n: usize) -> Vec<f32> {
    let mut sequence = backend.sequence(N_CTX).unwrap();
    ids.chunks(n).flat_map(|ids| sequence.feed(ids, 0..ids.len()).unwrap()).collect()
}

fn rms(found: &[f32], expected: &[f32]) -> f64 {
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    (found.iter().zip(expected).map(square).sum::<f64>() / found.len() as f64).sqrt()
}

/// The best id, and how far the second is behind.
fn best(row: &[f32]) -> (usize, f32) {
    let best = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let second = (0..row.len()).filter(|i| *i != best).map(|i| row[i]).fold(f32::NEG_INFINITY, f32::max);
    (best, row[best] - second)
}

#[test]
fn logits_are_within_the_bar_of_the_reference() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let device = on(&gpu).unwrap();
    let n_vocab = file().model.graph.n_vocab();
    for ids in prompts() {
        let expected = logits(reference(), &ids);
        let found = logits(device.as_ref(), &ids);
        let off = rms(&found, &expected);
        println!("{}: {} ids, rms {off:.4}", gpu.caps().name, ids.len());
        assert!(off <= RMS_BAR, "{} ids: rms {off}", ids.len());
        for (found, expected) in found.chunks_exact(n_vocab).zip(expected.chunks_exact(n_vocab)) {
            let (id, lead) = best(expected);
            assert!(lead <= DECIDED || best(found).0 == id, "the reference leads by {lead}");
        }
        // The control: logits of one position earlier are far outside the bar.
        if ids.len() > 1 {
            let shifted = rms(&found[n_vocab..], &expected[..expected.len() - n_vocab]);
            assert!(shifted > 10.0 * RMS_BAR, "one step off is only {shifted} away");
        }
    }
    clean(&gpu);
}

/// Ids of a prompt, and by how much llama.cpp 0.5.0's CPU backend, whose activations have eight bits, is off the
/// reference's logits on it.
const PEER_RMS: [(usize, f64); 4] = [(1, 0.160), (5, 0.575), (17, 0.220), (60, 0.198)];

#[test]
fn the_class_int8_is_as_near_as_a_peer_with_eight_bits() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let options = PlanOptions { class: AccuracyClass::Int8, ..OPTIONS };
    let device = Device::Vulkan { gpu: gpu.clone(), options };
    let device = file().load(&Registry::builtin(), device, &|_, _| ()).unwrap();
    let prompts = prompts();
    for (n, peer) in PEER_RMS {
        let ids = prompts.iter().find(|ids| ids.len() == n).unwrap();
        // Few rows a step, so that every product is one of bytes, wherever matrices would take more.
        let off = rms(&logits_by(device.as_ref(), ids, 10), &logits(reference(), ids));
        println!("{}: {n} ids, rms {off:.4}, the peer's {peer}", gpu.caps().name);
        assert!(off <= 1.25 * peer, "{n} ids: rms {off}");
        // The control: it is another class, whose bar it misses.
        assert!(off > RMS_BAR, "{n} ids: rms {off} is too good for bytes");
    }
    clean(&gpu);
}

#[test]
fn a_short_window_equals_token_by_token_and_barriers_change_no_bit() {
    if no_vulkan() {
        return;
    }
    let prompts = prompts();
    let ids = prompts.last().unwrap();
    let gpu = open(Faults::default(), false);
    let device = model(&gpu);
    let single = logits_by(&device, ids, 1);
    // One forced id after the other is as near to the reference as a window; the control is one step off.
    assert!(ids.len() >= 48, "{} forced ids", ids.len());
    let expected = logits(reference(), ids);
    let n_vocab = file().model.graph.n_vocab();
    let off = rms(&single, &expected);
    let shifted = rms(&single[n_vocab..], &expected[..expected.len() - n_vocab]);
    println!("{}: {} forced ids, rms {off:.4}, one step off {shifted:.1}", gpu.caps().name, ids.len());
    assert!(off <= RMS_BAR && shifted > 10.0 * RMS_BAR, "rms {off}, one step off {shifted}");
    let short = logits_by(&device, ids, 16);
    assert_eq!(short, single, "a row's result depends on its own sequence only");
    // Feeds of more than 16 ids may be multiplied as matrices of f16; elsewhere their bits are the same.
    let window = logits(&device, ids);
    let off = rms(&window, &single);
    assert!(off <= RMS_BAR, "one window: rms {off}");
    assert!(device.plan().matrices || window == single, "one window without matrices");
    let paranoid = open(Faults::default(), true);
    assert_eq!(logits(on(&paranoid).unwrap().as_ref(), ids), window, "barriers everywhere");
    clean(&gpu);
    clean(&paranoid);
}

#[test]
fn greedy_continues_as_the_reference_does() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let device = on(&gpu).unwrap();
    let texts: [&[u32]; 5] =
        [&[504, 3575, 282, 4649, 314], &[1, 2], &[28, 216, 33], &[6403, 655, 253, 1119], &[31, 198]];
    let (n_prompts, n_steps) = if long() { (5, 64) } else { (2, 8) };
    for prompt in &texts[..n_prompts] {
        let (mut ours, mut theirs) = (device.sequence(N_CTX).unwrap(), reference().sequence(N_CTX).unwrap());
        let mut next = prompt.to_vec();
        let mut parted = 0;
        for step in 0..n_steps {
            let expected = theirs.feed(&next, next.len() - 1..next.len()).unwrap();
            let (id, lead) = best(&expected);
            let Choice::Token(found) = ours.feed_greedy(&next).unwrap() else { panic!("no choice") };
            if found as usize != id {
                assert!(lead <= DECIDED, "step {step}: {found} for {id}, which leads by {lead}");
                parted += 1;
            }
            next = vec![u32::try_from(id).unwrap()];
        }
        println!("{}: {prompt:?} continued for {n_steps} ids, parted {parted} times", gpu.caps().name);
    }
    clean(&gpu);
}

#[test]
fn a_rewound_sequence_continues_as_a_fresh_one() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let device = on(&gpu).unwrap();
    let mut sequence = device.sequence(N_CTX).unwrap();
    let mut other = device.sequence(N_CTX).unwrap();
    sequence.feed_greedy(&[504, 3575, 282, 4649]).unwrap();
    other.feed_greedy(&[9, 8, 7]).unwrap();
    sequence.rewind(2);
    let again = sequence.feed(&[77, 78], 1..2).unwrap();
    let mut fresh = device.sequence(N_CTX).unwrap();
    assert_eq!(fresh.feed(&[504, 3575, 77, 78], 3..4).unwrap(), again);
    clean(&gpu);
}

#[test]
fn the_recording_is_the_plans_list_of_launches() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let graph = &file().model.graph;
    let type_id =
        |t: kiln_engine::graph::TensorId| file().gguf.tensor(&graph.tensors[t.0].name).map(|t| t.type_id);
    let plan = Plan::new(graph, &type_id, &Registry::builtin(), &Target::of(&gpu), OPTIONS).unwrap();
    let buffers: Vec<_> = plan.buffers.iter().map(|b| gpu.allocate(b.bytes, &b.name).unwrap()).collect();
    let commands = |step: &PlannedStep| {
        let pipelines = &mut Pipelines::default();
        record(&gpu, &[(step, &buffers)], pipelines, RecordOptions::default()).unwrap().commands()
    };
    let mut step = plan.steps[0].clone();
    let whole = commands(&step);
    assert_eq!(whole, step.launches.len());
    step.launches.remove(whole / 2);
    assert_eq!(commands(&step), whole - 1);
}

#[test]
fn weights_are_on_the_device_once_for_all_sequences() {
    if no_vulkan() {
        return;
    }
    let gpu = open(Faults::default(), false);
    let used = || gpu.memory_use().buffer_bytes;
    let (gguf, graph) = (&file().gguf, &file().model.graph);
    let told = Mutex::new(Vec::new());
    let progress = |done, total| told.lock().unwrap().push((done, total));
    let device = DeviceModel::load(&gpu, gguf, graph, &Registry::builtin(), OPTIONS, &progress).unwrap();
    // What is told of the way grows to the whole, in small steps.
    let told = told.into_inner().unwrap();
    let (last, total) = *told.last().unwrap();
    assert!(last == total && told.len() > 100 && told.is_sorted(), "{:?}", &told[told.len() - 3..]);
    let loaded = used();
    let (weights, own) = device.plan().bytes();
    assert!(weights < gguf.file_bytes() + (4 << 20), "{weights} bytes for a file of {}", gguf.file_bytes());
    assert!(loaded >= weights + own && loaded < weights + own + (1 << 20), "{loaded} bytes are in use");
    let mut sequences: Vec<_> = (0..16).map(|_| device.sequence(N_CTX).unwrap()).collect();
    let none = device.sequence(N_CTX).err().unwrap();
    assert_eq!(none, ForwardError::NoSlot { n_slots: 16 });
    sequences.truncate(3);
    device.sequence(N_CTX).unwrap().feed_greedy(&[1]).unwrap();
    assert_eq!(used(), loaded, "a sequence brings pages that are there already");
    drop((sequences, device));
    assert_eq!(used(), 0, "nothing stays");
}

#[test]
fn failures_carry_names_and_the_process_lives() {
    if no_vulkan() {
        return;
    }
    let first_step = |faults: Faults| {
        let gpu = open(faults, false);
        let device = on(&gpu).map_err(|e| e.to_string())?;
        let mut sequence = device.sequence(N_CTX).map_err(|e| e.to_string())?;
        sequence.feed_greedy(&[1]).map(|_| ()).map_err(|e| e.to_string())
    };
    let check = |faults: Faults, expected: &str| {
        let error = first_step(faults).unwrap_err();
        assert!(error.contains(expected), "{error:?} does not name {expected:?}");
    };
    check(Faults { fail_pipeline: Some("sample_pick".into()), ..Faults::default() }, "sample_pick");
    check(Faults { fail_allocation: Some(3), ..Faults::default() }, ".weight");
    first_step(Faults::default()).unwrap();
}

#[test]
fn a_lost_device_stays_an_error() {
    if no_vulkan() {
        return;
    }
    // Where device memory is mapped the first submit is a step's; elsewhere the weights go up in some hundred before it.
    let found = (1..5000).step_by(N_CTX - 1).find_map(|n| {
        let gpu = open(Faults { lose_at_submit: Some(n), ..Faults::default() }, false);
        let device = on(&gpu).ok()?;
        let mut sequence = device.sequence(N_CTX).ok()?;
        let error = (1..N_CTX).find_map(|_| sequence.feed(&[1], 0..1).err());
        let again = sequence.feed(&[1], 0..1).err();
        Some((error, again))
    });
    let Some((Some(ForwardError::Device(LaunchError::Device(DeviceError::Lost { kernel }))), again)) = found
    else {
        panic!("expected a lost device, found {found:?}");
    };
    assert!(!kernel.is_empty());
    assert!(
        matches!(again, Some(ForwardError::Device(LaunchError::Device(DeviceError::Lost { .. })))),
        "{again:?}"
    );
}
