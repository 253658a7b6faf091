//! Readable snapshots of some kernels, a hash of all, the same words on every thread.

use std::{collections::BTreeSet, fs, path::Path, thread};

use kiln_abi::StagedKernel;
use kiln_golden::{
    fixtures,
    record::{RecordError, check_lines, manifest},
};
use kiln_spirv_emit::disasm::disassemble;

/// Kernels whose text is kept for people to review; the manifest has all.
const READABLE: &[&str] = &["add", "q8_gemv", "branches", "loops", "workgroup_sum", "read_write", "locals"];

fn kernels() -> Vec<StagedKernel> {
    fixtures::compile_all().unwrap_or_else(|e| panic!("{e}"))
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn readable_kernels_are_as_reviewed() {
    let kernels = kernels();
    for name in READABLE {
        let kernel = kernels.iter().find(|k| k.name == *name).unwrap();
        insta::assert_snapshot!(*name, disassemble(&kernel.words).unwrap());
    }
}

#[test]
fn every_snapshot_has_its_kernel() {
    let files = fs::read_dir(folder().join("tests/snapshots")).unwrap();
    let files: BTreeSet<String> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .filter_map(|f| Some(f.strip_prefix("goldens__")?.strip_suffix(".snap")?.to_owned()))
        .collect();
    assert_eq!(files, READABLE.iter().map(|n| (*n).to_owned()).collect());
}

#[test]
fn every_kernel_has_its_recorded_hash() {
    check_lines(&folder().join("manifest.txt"), manifest(&kernels())).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_changed_word_is_no_longer_the_recorded_kernel() {
    let mut kernels = kernels();
    kernels[0].words[3] += 1;
    let e = check_lines(&folder().join("manifest.txt"), manifest(&kernels));
    match e {
        Err(RecordError::Differs { gone, new, .. }) => assert_eq!((gone.len(), new.len()), (1, 1)),
        // Recording was asked for; put the right lines back.
        Ok(()) => {
            check_lines(&folder().join("manifest.txt"), manifest(&fixtures::compile_all().unwrap())).unwrap()
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn words_are_the_same_from_one_thread_and_from_two() {
    let alone = kernels();
    let both = thread::scope(|s| [s.spawn(kernels), s.spawn(kernels)].map(|t| t.join().unwrap()));
    for kernels in both {
        assert_eq!(kernels, alone);
    }
}
