//! Matrix modules written by hand and assembled by SPIR-V's own tools: words that nothing of this repository made.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use std::{
    env,
    ffi::OsString,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use asm::{Content, Outcome, floats, run_with};
use half::f16;
use kiln_abi::{Access, BindingLayout, KernelLayout, SourceMap, StagedKernel};
use kiln_spirv_interp::{InterpOptions, SUBGROUP_SIZES, TrapKind};

/// `KILN_SPIRV_TOOLS`, else where `cargo xtask setup` installs the tools, else the search path.
fn tool(name: &str) -> OsString {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    if let Some(dir) = env::var_os("KILN_SPIRV_TOOLS") {
        return PathBuf::from(dir).join(name).into();
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    match cache.map(|c| c.join("kiln/tools/spirv/bin").join(&name)) {
        Some(installed) if installed.exists() => installed.into(),
        _ => name.into(),
    }
}

/// What a tool writes when it reads `input`.
fn piped(name: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(tool(name))
        .args(["--target-env", "vulkan1.3"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{name}: {e}; run `cargo xtask setup`, or set KILN_SPIRV_TOOLS"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A module whose bindings are `names`, assembled and found valid.
fn assembled(text: &str, names: [&str; 3], local: u32) -> StagedKernel {
    let bytes = piped("spirv-as", &["-", "-o", "-"], text.as_bytes());
    piped("spirv-val", &["-"], &bytes);
    let words = bytes.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let bindings = names.iter().zip(0..).map(|(name, index)| BindingLayout {
        name: (*name).to_owned(),
        index,
        elem: "f32".to_owned(),
        elem_bytes: 4,
        access: Access::ReadWrite,
    });
    let layout = KernelLayout {
        entry: "main".to_owned(),
        bindings: bindings.collect(),
        push: Vec::new(),
        local_size: [local, 1, 1],
        subgroup_size: None,
        workgroup_bytes: 0,
        capabilities: Vec::new(),
        products: Vec::new(),
        checked: true,
        fragments: false,
    };
    StagedKernel { name: "foreign".to_owned(), words, source: SourceMap::default(), layout }
}

fn each_width(kernel: &StagedKernel, contents: &[Content], check: impl Fn(&Outcome)) {
    for subgroup_size in SUBGROUP_SIZES {
        for seed in 0..3 {
            let options = InterpOptions { subgroup_size, seed, ..InterpOptions::default() };
            let run = run_with(options, kernel, [1, 1, 1], &[], contents);
            check(&run.unwrap_or_else(|t| panic!("width {subgroup_size}: {t}")));
        }
    }
}

fn halves(values: &[f32]) -> Content {
    Content::Bytes(values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect())
}

const GEMM: &str = include_str!("spvasm/khr_gemm.spvasm");

#[test]
fn a_gemm_staged_in_workgroup_memory() {
    let x: Vec<f32> = (0..16 * 64u32).map(|k| (k * 13 % 19) as f32 - 9.0).collect();
    let w: Vec<f32> = (0..64 * 16u32).map(|k| (k * 7 % 11) as f32 - 5.0).collect();
    let dot = |e: usize| (0..64).map(|k| x[e / 16 * 64 + k] * w[k * 16 + e % 16]).sum::<f32>();
    let want: Vec<f32> = (0..256).map(dot).collect();
    let contents = [halves(&x), halves(&w), Content::Fresh(1024)];
    each_width(&assembled(GEMM, ["x", "w", "y"], 4), &contents, |o| assert_eq!(o.floats(2), want));
    // A barrier dropped is a race, a loop cut short another result.
    let barrier = "               OpControlBarrier %u2 %u2 %ordered\n";
    let racy = assembled(&GEMM.replacen(barrier, "", 1), ["x", "w", "y"], 4);
    let trap = run_with(InterpOptions::default(), &racy, [1, 1, 1], &[], &contents).unwrap_err();
    assert_eq!(trap.kind, TrapKind::Race, "{trap}");
    let short = GEMM.replace("OpULessThan %bool %k %u64", "OpULessThan %bool %k %u16");
    let o =
        run_with(InterpOptions::default(), &assembled(&short, ["x", "w", "y"], 4), [1, 1, 1], &[], &contents);
    assert_ne!(o.unwrap().floats(2), want);
}

const SCORES: &str = include_str!("spvasm/cm2_attention_scores.spvasm");

#[test]
fn attention_scores_of_a_quantized_cache() {
    let q: Vec<f32> = (0..16 * 32u32).map(|k| ((k * 11 % 29) as f32 - 14.0) / 8.0).collect();
    let (mut bytes, mut keys) = (Vec::new(), Vec::new());
    for row in 0..32u32 {
        let d = f16::from_f32(0.01 + row as f32 / 512.0);
        bytes.extend(d.to_le_bytes());
        for k in 0..32u32 {
            let b = (row * 37 + k * 91) as u8;
            bytes.push(b);
            keys.push(f16::from_f32(d.to_f32() * f32::from(b as i8)).to_f32());
        }
    }
    let mut want = Vec::new();
    for (row, q) in q.chunks(32).enumerate() {
        let score = |(col, key): (usize, &[f32])| {
            let dot: f32 = q.iter().zip(key).map(|(q, k)| f16::from_f32(*q).to_f32() * k).sum();
            if col <= row + 16 { dot * 0.125 } else { -1e30 }
        };
        let scores: Vec<f32> = keys.chunks(32).enumerate().map(score).collect();
        let top = scores.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = scores.iter().map(|s| (s - top).exp()).sum();
        want.extend(scores.iter().map(|s| (s - top).exp() / sum));
    }
    let close = |got: &[f32]| got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs() + 1e-9);
    let contents = [floats(q), Content::Bytes(bytes), Content::Fresh(4 * 16 * 32)];
    each_width(&assembled(SCORES, ["q", "k", "y"], 64), &contents, |o| assert!(close(&o.floats(2))));
    // The decode function one element further on, and the factor taken without its turn.
    for (from, to) in [
        (
            "%pb = OpAccessChain %p_i8 %ref %u0 %u1 %i",
            "%j = OpBitwiseXor %u32 %i %u1\n%pb = OpAccessChain %p_i8 %ref %u0 %u1 %j",
        ),
        ("TensorView|DecodeFunc %view %decode", "DecodeFunc %decode"),
        ("Row %larger", "Column %larger"),
    ] {
        assert!(SCORES.contains(from), "{from}");
        let kernel = assembled(&SCORES.replace(from, to), ["q", "k", "y"], 64);
        let o = run_with(InterpOptions::default(), &kernel, [1, 1, 1], &[], &contents).unwrap();
        assert!(!close(&o.floats(2)), "{to} is not seen");
    }
}
