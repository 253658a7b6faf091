//! Every architecture and variant on the Vulkan device that is here, held against the f32 reference and against the
//! logits from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod tiny;

use kiln_abi::Device as _;
use kiln_engine::forward::Backend;
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::submit::DeviceModel;
use kiln_kernels::Registry;
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};

use tiny::{Tiny, all, logits};

/// Root mean square of the difference to the reference's logits, whose own is about 1: the class of f16 keys and values.
const RMS_BAR: f64 = 0.002;
const OPTIONS: PlanOptions = PlanOptions::new(ContextWish::Exactly(64));

fn no_vulkan() -> bool {
    let skipped = std::env::var_os("KILN_NO_VULKAN").is_some();
    if skipped {
        println!("NOT RUN: KILN_NO_VULKAN is set, no model ran through Vulkan");
    }
    skipped
}

fn gpu() -> Gpu {
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    Gpu::open(&options).unwrap()
}

fn on(gpu: &Gpu, tiny: &Tiny) -> DeviceModel {
    let file = tiny.file();
    let (registry, graph) = (Registry::builtin(), &file.model.graph);
    let loaded = DeviceModel::load(gpu, &file.gguf, graph, &registry, OPTIONS, &|_, _| ());
    loaded.unwrap_or_else(|error| panic!("{}: {error}", tiny.name))
}

fn rms(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    (found.iter().zip(expected).map(square).sum::<f64>() / found.len() as f64).sqrt()
}

#[test]
fn logits_are_within_the_bar_of_the_reference() {
    if no_vulkan() {
        return;
    }
    let gpu = gpu();
    for tiny in all() {
        let device = on(&gpu, &tiny);
        let window = logits(&device, &tiny.ids, false);
        let expected = logits(tiny.reference().as_ref(), &tiny.ids, false);
        let off = rms(&window, &expected);
        let outside = rms(&tiny.recorded(&window, 0), &tiny.numpy.concat());
        println!("{} on {}: rms {off:.1e}, {outside:.1e} from NumPy", tiny.name, gpu.caps().name);
        assert!(off <= RMS_BAR && outside <= RMS_BAR, "{}: rms {off} and {outside}", tiny.name);
        // Feeds of more than 16 ids may be multiplied on matrices; token by token is then as near, else the same bits.
        let single = logits(&device, &tiny.ids, true);
        let alone = rms(&single, &expected);
        assert!(alone <= RMS_BAR, "{}: token by token is {alone} away", tiny.name);
        assert!(device.plan().matrices || window == single, "{}: without matrices", tiny.name);
        let mut sequence = device.sequence(tiny.ids.len()).unwrap();
        let short = tiny.ids.chunks(10).flat_map(|ids| sequence.feed(ids, 0..ids.len()).unwrap());
        assert!(short.eq(single), "{}: short steps are the same to the bit", tiny.name);

        // The controls: one position off, and each variant left out, is far outside the bar.
        let n_vocab = expected.len() / tiny.ids.len();
        let shifted = rms(&window[n_vocab..], &expected[..expected.len() - n_vocab]);
        assert!(shifted > 20.0 * RMS_BAR, "{}: one step off is only {shifted} away", tiny.name);
        for (key, value) in &tiny.controls {
            let other = logits(tiny.with(key, value).reference().as_ref(), &tiny.ids, false);
            let difference = rms(&window, &other);
            assert!(difference > 2.0 * RMS_BAR, "{} with {key} = {value}: only {difference}", tiny.name);
        }
    }
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}
