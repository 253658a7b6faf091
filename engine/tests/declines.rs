//! What is declined is logged once by each load, as often as there are reasons.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod events;
mod tiny;

use events::declines;
use kiln_abi::spirv::Capability;
use kiln_engine::gguf::GgufWriter;
use kiln_engine::plan::{ContextWish, PlanOptions, Target};
use kiln_engine::session::{Error, ModelFile};
use kiln_kernels::Registry;

fn target(name: &str) -> Target {
    let path = format!("{}/tests/caps/{name}.json", env!("CARGO_MANIFEST_DIR"));
    Target::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The tiny llama as a file, without some of its tensors.
fn llama(without: &[&str]) -> Vec<u8> {
    let tiny = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let (registry, whole) = (Registry::builtin(), tiny.file());
    let f32 = registry.format_named("F32").unwrap();
    let tensors = || tiny.tensors.iter().filter(|(name, _)| !without.contains(&name.as_str()));
    let mut writer = GgufWriter::new();
    writer.copy(whole.gguf.metadata(), |_| true).unwrap();
    tensors().for_each(|(name, shape)| writer.tensor(name, shape, f32).unwrap());
    let mut data = writer.start(Vec::new()).unwrap();
    tensors().for_each(|(name, _)| data.data(whole.gguf.tensor(name).unwrap().data).unwrap());
    data.finish().unwrap()
}

#[test]
fn inspect_prints_the_plan_for_a_described_device_and_what_it_declines() {
    let path = std::env::temp_dir().join(format!("kiln-planned-{}.gguf", std::process::id()));
    std::fs::write(&path, llama(&[])).unwrap();
    let inspect = |device: &str| {
        let caps = format!("{}/tests/caps/{device}.json", env!("CARGO_MANIFEST_DIR"));
        let args = ["inspect", path.to_str().unwrap(), "--plan", "--caps", &caps];
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kiln")).args(args).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (whole, without) = (inspect("h200"), inspect("phone-32kib"));
    std::fs::remove_file(&path).unwrap();
    for part in ["device   NVIDIA H200", "context  ", "memory   ", "kernels  ", "step     of up to 1 rows"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert!(!whole.contains("declined") && whole.contains("gemm_decoded"), "{whole}");
    assert_eq!(without.matches("declined prompts on matrices: ").count(), 1, "{without}");
    assert!(!without.contains("gemm_decoded"), "{without}");
}

#[test]
fn a_file_logs_each_of_its_reasons_once() {
    let path = std::env::temp_dir().join(format!("kiln-declines-{}.gguf", std::process::id()));
    let registry = Registry::builtin();
    let open = |without: &[&str]| {
        std::fs::write(&path, llama(without)).unwrap();
        let (opened, logged) = declines(|| ModelFile::open(&path, &registry));
        std::fs::remove_file(&path).unwrap();
        let reasons = match opened {
            Ok(_) => Vec::new(),
            Err(Error::Declined(declined)) => declined.reasons.iter().map(ToString::to_string).collect(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(logged, reasons);
        logged.len()
    };
    assert_eq!(open(&[]), 0, "the neighbor that is admitted says nothing");
    assert_eq!(open(&["output_norm.weight"]), 1);
    assert_eq!(open(&["output_norm.weight", "blk.0.attn_q.weight", "blk.1.ffn_up.weight"]), 3);
}

#[test]
fn a_plan_logs_each_of_its_reasons_once() {
    let tiny = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let (file, registry) = (tiny.file(), Registry::builtin());
    let plan = |target: &Target, n_ctx| {
        declines(|| file.plan(&registry, target, PlanOptions::new(ContextWish::Exactly(n_ctx))))
    };
    let mut device = target("h200");
    let (planned, logged) = plan(&device, 64);
    assert!(planned.unwrap().matrices && logged.is_empty(), "{logged:?}");
    // A way that is only faster is declined once, whatever the number of words that would take it.
    device.caps.capabilities.remove(&Capability::CooperativeMatrixKHR);
    let (planned, logged) = plan(&device, 64);
    let planned = planned.unwrap();
    assert_eq!((planned.matrices, logged.len()), (false, 1), "{logged:?}");
    assert!(logged[0].starts_with("prompts on matrices: "), "{logged:?}");
    assert!(planned.to_string().lines().any(|line| line == format!("declined {}", logged[0])), "{planned}");
    let (refused, logged) = plan(&device, 1 << 40);
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(logged.len() == 1 && refused.starts_with(&logged[0]), "{logged:?}");
}
