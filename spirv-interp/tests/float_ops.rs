//! Float instructions against Rust's f32, and f16 against exact integer arithmetic.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, run_with};
use half::f16;
use kiln_spirv_interp::{Counters, InterpOptions, SUBGROUP_SIZES, TrapKind};

const EDGES: [f32; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    3.75,
    -7.25,
    65504.0,
    65520.0,
    -65536.0,
    6.1e-5,
    5.9e-8,
    1e-8,
    3.0e38,
    -1e-40,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// Runs `op` (`%0`, `%1`, `%2` are the operands) over lanes; `from` and `to` name scalar types.
fn evaluate(
    op: &str,
    from: &str,
    to: &str,
    rows: &[Vec<u32>],
    width: u32,
) -> Result<(Vec<u32>, Counters), TrapKind> {
    const NAMES: [&str; 8] = ["u32", "i32", "f32", "f16", "u16", "i16", "u8", "i8"];
    let known = |n: &str| NAMES.into_iter().find(|k| *k == n).unwrap_or("u32");
    let size = |n: &str| match known(n) {
        "f16" | "u16" | "i16" => 2,
        "u8" | "i8" => 1,
        _ => 4,
    };
    let n = rows[0].len().next_multiple_of(64);
    let mut body = String::new();
    for k in 0..rows.len() {
        body += &format!(
            "%p{k} = OpAccessChain %StorageBuffer_{from} %b{k} %u_0 %gx\n%v{k} = OpLoad %{from} %p{k}\n"
        );
    }
    let text = op.replace("%0", "%v0").replace("%1", "%v1").replace("%2", "%v2");
    let stored = known(to);
    body += &match to {
        "bool" => format!("%test = {text}\n%r = OpSelect %u32 %test %u_1 %u_0\n"),
        _ => format!("%r = {text}\n"),
    };
    body += &format!("%out = OpAccessChain %StorageBuffer_{stored} %y %u_0 %gx\nOpStore %out %r\n");
    let (mut f, mut contents) = (Fixture::new(64, &body), Vec::new());
    for (name, row) in ["b0", "b1", "b2"].into_iter().zip(rows) {
        f = f.buffer(name, known(from));
        let bytes = row.iter().cycle().take(n).flat_map(|v| v.to_le_bytes()[..size(from)].to_vec());
        contents.push(Content::Bytes(bytes.collect()));
    }
    f = f.buffer("y", stored);
    contents.push(Content::Fresh(n * size(stored)));
    let options = InterpOptions { subgroup_size: width, ..InterpOptions::default() };
    let outcome =
        run_with(options, &f.kernel(), [(n / 64) as u32, 1, 1], &[], &contents).map_err(|t| t.kind)?;
    let out = outcome.buffers.last().unwrap().chunks(size(stored));
    let number = |c: &[u8]| c.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b));
    Ok((out.map(number).take(rows[0].len()).collect(), outcome.counters))
}

fn same32(a: u32, b: u32) -> bool {
    a == b || f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
}

fn same16(a: u32, b: u32) -> bool {
    a == b || a & 0x7fff > 0x7c00 && b & 0x7fff > 0x7c00
}

fn pairs(edges: &[u32]) -> [Vec<u32>; 2] {
    let (a, b) = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b))).unzip();
    [a, b]
}

#[test]
fn two_operands_in_f32() {
    type Two = fn(f32, f32) -> f32;
    let cases: [(&str, Two); 8] = [
        ("OpFAdd %f32 %0 %1", |a, b| a + b),
        ("OpFSub %f32 %0 %1", |a, b| a - b),
        ("OpFMul %f32 %0 %1", |a, b| a * b),
        ("OpFDiv %f32 %0 %1", |a, b| a / b),
        ("OpFRem %f32 %0 %1", |a, b| a % b),
        ("OpExtInst %f32 %glsl FMin %0 %1", f32::min),
        ("OpExtInst %f32 %glsl FMax %0 %1", f32::max),
        ("OpExtInst %f32 %glsl Pow %0 %1", f32::powf),
    ];
    let rows = pairs(&EDGES.map(f32::to_bits));
    for (op, f) in cases {
        for width in SUBGROUP_SIZES {
            let (got, _) = evaluate(op, "f32", "f32", &rows, width).unwrap();
            for k in 0..got.len() {
                let (a, b) = (f32::from_bits(rows[0][k]), f32::from_bits(rows[1][k]));
                // Either zero is a right minimum of the two.
                let zeros = a == 0.0 && b == 0.0 && op.contains("glsl FM");
                assert!(zeros || same32(got[k], f(a, b).to_bits()), "{op} {a} {b} at {width}: {:#x}", got[k]);
            }
            let number = got.iter().copied().find(|v| !f32::from_bits(*v).is_nan()).unwrap();
            assert!(!same32(number, number ^ 1), "the comparison has to notice one wrong bit");
        }
    }
}

#[test]
fn comparisons_with_nan() {
    type Two = fn(f32, f32) -> bool;
    let cases: [(&str, Two); 6] = [
        ("OpFOrdEqual", |a, b| a == b),
        ("OpFUnordNotEqual", |a, b| a != b),
        ("OpFOrdLessThan", |a, b| a < b),
        ("OpFOrdGreaterThan", |a, b| a > b),
        ("OpFOrdLessThanEqual", |a, b| a <= b),
        ("OpFOrdGreaterThanEqual", |a, b| a >= b),
    ];
    for (op, f) in cases {
        let text = format!("{op} %bool %0 %1");
        for width in SUBGROUP_SIZES {
            let rows = pairs(&EDGES.map(f32::to_bits));
            let (got, _) = evaluate(&text, "f32", "bool", &rows, width).unwrap();
            let halves = pairs(&EDGES.map(|v| u32::from(f16::from_f32(v).to_bits())));
            let (got16, _) = evaluate(&text, "f16", "bool", &halves, width).unwrap();
            for k in 0..got.len() {
                let [a, b] = [rows[0][k], rows[1][k]].map(f32::from_bits);
                assert_eq!(got[k] != 0, f(a, b), "{op} {a} {b} at {width}");
                let [a, b] = [halves[0][k], halves[1][k]].map(|v| f16::from_bits(v as u16).to_f32());
                assert_eq!(got16[k] != 0, f(a, b), "{op} {a} {b} of f16 at {width}");
            }
        }
    }
}

#[test]
fn one_operand_in_f32() {
    type One = fn(f32) -> f32;
    let cases: [(&str, One); 16] = [
        ("OpFNegate %f32 %0", |a| -a),
        ("OpExtInst %f32 %glsl FAbs %0", f32::abs),
        ("OpExtInst %f32 %glsl FSign %0", |a| if a == 0.0 || a.is_nan() { a } else { a.signum() }),
        ("OpExtInst %f32 %glsl RoundEven %0", f32::round_ties_even),
        ("OpExtInst %f32 %glsl Trunc %0", f32::trunc),
        ("OpExtInst %f32 %glsl Floor %0", f32::floor),
        ("OpExtInst %f32 %glsl Ceil %0", f32::ceil),
        ("OpExtInst %f32 %glsl Fract %0", |a| a - a.floor()),
        ("OpExtInst %f32 %glsl Sin %0", f32::sin),
        ("OpExtInst %f32 %glsl Cos %0", f32::cos),
        ("OpExtInst %f32 %glsl Tanh %0", f32::tanh),
        ("OpExtInst %f32 %glsl Exp %0", f32::exp),
        ("OpExtInst %f32 %glsl Log %0", f32::ln),
        ("OpExtInst %f32 %glsl Exp2 %0", f32::exp2),
        ("OpExtInst %f32 %glsl Log2 %0", f32::log2),
        ("OpExtInst %f32 %glsl Sqrt %0", f32::sqrt),
    ];
    let row = EDGES.map(f32::to_bits).to_vec();
    for (op, f) in cases {
        for width in SUBGROUP_SIZES {
            let (got, _) = evaluate(op, "f32", "f32", std::slice::from_ref(&row), width).unwrap();
            for (&got, a) in got.iter().zip(EDGES) {
                assert!(same32(got, f(a).to_bits()), "{op} {a} at {width}: {}", f32::from_bits(got));
            }
        }
    }
    let (got, _) =
        evaluate("OpExtInst %f32 %glsl InverseSqrt %0", "f32", "f32", std::slice::from_ref(&row), 32)
            .unwrap();
    for (&got, a) in got.iter().zip(EDGES).filter(|(_, a)| *a > 0.0) {
        let (got, expected) = (f32::from_bits(got), 1.0 / f64::from(a).sqrt());
        assert!((f64::from(got) - expected).abs() <= expected * 1e-7, "1/sqrt({a}) is {got}");
    }
    for (op, f) in [("OpIsNan", f32::is_nan as fn(f32) -> bool), ("OpIsInf", f32::is_infinite)] {
        let (got, _) =
            evaluate(&format!("{op} %bool %0"), "f32", "bool", std::slice::from_ref(&row), 8).unwrap();
        assert!(got.iter().zip(EDGES).all(|(&g, a)| (g != 0) == f(a)), "{op}");
    }
}

#[test]
fn fused_multiply_add_rounds_once() {
    let rows = [vec![1.0f32 + f32::EPSILON; 1], vec![1.0 - f32::EPSILON / 2.0], vec![-1.0]];
    let bits = rows.clone().map(|r| r.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    let expected = rows[0][0].mul_add(rows[1][0], rows[2][0]);
    assert_ne!(expected, rows[0][0] * rows[1][0] + rows[2][0], "the case has to tell one rounding from two");
    let (got, _) = evaluate("OpExtInst %f32 %glsl Fma %0 %1 %2", "f32", "f32", &bits, 4).unwrap();
    assert_eq!(f32::from_bits(got[0]), expected);
    let clamp = [vec![7.0f32, -7.0, 0.25], vec![-1.0; 3], vec![1.0; 3]]
        .map(|r| r.iter().map(|v| v.to_bits()).collect());
    let (got, _) = evaluate("OpExtInst %f32 %glsl FClamp %0 %1 %2", "f32", "f32", &clamp, 4).unwrap();
    assert_eq!(got.into_iter().map(f32::from_bits).collect::<Vec<_>>(), [1.0, -1.0, 0.25]);
}

/// A finite f16 in units of 2^-24.
fn units(bits: u32) -> i128 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, i128::from(bits & 0x3ff));
    let magnitude = if exponent == 0 { fraction } else { (fraction + 1024) << (exponent - 1) };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The f16 nearest to `v` units of 2^-48, ties to even; exact.
fn nearest(v: i128) -> u32 {
    let (sign, magnitude) = (u32::from(v < 0) << 15, v.abs());
    let at = |b: u32| if b == 0x7c00 { 65_536i128 << 48 } else { units(b) << 24 };
    let above = (0..=0x7c00u32).collect::<Vec<_>>().partition_point(|&b| at(b) <= magnitude) as u32;
    let (low, high) = (above - 1, above.min(0x7c00));
    let (down, up) = (magnitude - at(low), at(high) - magnitude);
    sign | if down < up || down == up && low % 2 == 0 { low } else { high }
}

fn halves(seed: u64, n: usize) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u32
    };
    // Exponents close to one another make sums that need every bit.
    (0..n).map(|_| next()).map(|v| (v & 0x83ff) | ((8 + v % 14) << 10)).collect()
}

#[test]
fn f16_is_rounded_once() {
    let (mut a, mut b, mut c) = (halves(1, 4096), halves(2, 4096), halves(3, 4096));
    // A product half way between two f16, and a last bit that f32 loses: (1 + 2^-6)(1 + 2^-5) + 2^-24.
    (a[0], b[0], c[0]) = (0x3c10, 0x3c20, 1);
    let mut differs_from_two_roundings = 0;
    for width in [8, 64] {
        let run = |op: &str, rows: &[Vec<u32>]| evaluate(op, "f16", "f16", rows, width).unwrap().0;
        let two = [a.clone(), b.clone()];
        let sum = run("OpFAdd %f16 %0 %1", &two);
        let product = run("OpFMul %f16 %0 %1", &two);
        let fused = run("OpExtInst %f16 %glsl Fma %0 %1 %2", &[a.clone(), b.clone(), c.clone()]);
        for k in 0..a.len() {
            let [x, y, z] = [a[k], b[k], c[k]].map(units);
            let exact = |v: i128, got: u32, what: &str| {
                let expected = nearest(v);
                let zero = expected & 0x7fff == 0 && got & 0x7fff == 0;
                assert!(zero || got == expected, "{what} of {:#x} {:#x} {:#x}: {got:#x}", a[k], b[k], c[k]);
            };
            exact((x + y) << 24, sum[k], "sum");
            exact(x * y, product[k], "product");
            exact(x * y + (z << 24), fused[k], "fused");
            let [fx, fy, fz] = [a[k], b[k], c[k]].map(|v| f16::from_bits(v as u16).to_f32());
            differs_from_two_roundings +=
                u32::from(u32::from(f16::from_f32(fx.mul_add(fy, fz)).to_bits()) != fused[k]);
        }
    }
    assert!(differs_from_two_roundings > 0, "no case that tells one rounding from two");
}

#[test]
fn conversions() {
    let ints =
        [0u32, 1, 2, 255, 2047, 2049, 2051, 65504, 65519, 65520, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    for width in SUBGROUP_SIZES {
        let run = |op: &str, from, to, row: &[u32]| evaluate(op, from, to, &[row.to_vec()], width).unwrap().0;
        let unsigned = run("OpConvertUToF %f32 %0", "u32", "f32", &ints);
        let signed = run("OpConvertSToF %f32 %0", "i32", "f32", &ints);
        let half = run("OpConvertUToF %f16 %0", "u32", "f16", &ints);
        let half_signed = run("OpConvertSToF %f16 %0", "i32", "f16", &ints);
        for (k, &v) in ints.iter().enumerate() {
            assert_eq!(f32::from_bits(unsigned[k]), v as f32);
            assert_eq!(f32::from_bits(signed[k]), v as i32 as f32);
            assert_eq!(half[k], nearest(i128::from(v) << 48), "{v} to f16");
            assert_eq!(half_signed[k], nearest(i128::from(v as i32) << 48), "{} to f16", v as i32);
        }
        let bytes = [0u32, 1, 127, 128, 255];
        let narrow = run("OpConvertSToF %f32 %0", "i8", "f32", &bytes);
        let expected: Vec<u32> = bytes.iter().map(|&v| f32::from(v as u8 as i8).to_bits()).collect();
        assert_eq!(narrow, expected);
        let edges = EDGES.map(f32::to_bits);
        let down = run("OpFConvert %f16 %0", "f32", "f16", &edges);
        let up = run("OpFConvert %f32 %0", "f16", "f32", &down);
        for (k, v) in EDGES.into_iter().enumerate() {
            assert!(same16(down[k], f16::from_f32(v).to_bits().into()), "{v} to f16");
            assert!(same32(up[k], f16::from_f32(v).to_f32().to_bits()), "{v} and back");
        }
        let floats = [0.0f32, -0.0, 0.99, 1.5, 255.9, 2147483520.0].map(f32::to_bits);
        let to_u = run("OpConvertFToU %u32 %0", "f32", "u32", &floats);
        assert_eq!(to_u, [0, 0, 0, 1, 255, 2147483520]);
        let floats = [-0.99f32, -1.5, -2147483648.0, 2147483520.0].map(f32::to_bits);
        let to_s = run("OpConvertFToS %i32 %0", "f32", "i32", &floats);
        assert_eq!(to_s, [0, u32::MAX, 0x8000_0000, 2147483520]);
        let to_byte = run("OpConvertFToS %i8 %0", "f32", "i8", &[(-128.9f32).to_bits(), 127.5f32.to_bits()]);
        assert_eq!(to_byte, [0x80, 0x7f]);
    }
}

#[test]
fn conversions_out_of_range_trap() {
    let cases = [
        ("OpConvertFToU %u32 %0", "u32", -1.0),
        ("OpConvertFToU %u32 %0", "u32", 4294967296.0),
        ("OpConvertFToS %i32 %0", "i32", 2147483648.0),
        ("OpConvertFToS %i32 %0", "i32", f32::NAN),
        ("OpConvertFToS %i8 %0", "i8", 128.0),
        ("OpConvertFToU %u16 %0", "u16", f32::INFINITY),
    ];
    for (op, to, v) in cases {
        let got = evaluate(op, "f32", to, &[vec![v.to_bits()]], 16);
        assert_eq!(got.err(), Some(TrapKind::Integer), "{op} of {v}");
    }
}

#[test]
fn pack_and_bitcast() {
    let body = "
%pa = OpAccessChain %StorageBuffer_u32 %a %u_0 %gx
%va = OpLoad %u32 %pa
%two = OpExtInst %v2f32 %glsl UnpackHalf2x16 %va
%back = OpExtInst %u32 %glsl PackHalf2x16 %two
%four = OpBitcast %v4u8 %va
%turned = OpVectorShuffle %v4u8 %four %four 3 2 5 4
%word = OpBitcast %u32 %turned
%pair = OpBitcast %v2f16 %va
%again = OpBitcast %v4u8 %pair
%low = OpCompositeExtract %u8 %again 1
%low32 = OpUConvert %u32 %low
%scaled = OpVectorTimesScalar %v2f32 %two %f_2
%dot = OpDot %f32 %two %scaled
%dotbits = OpBitcast %u32 %dot
%y0 = OpAccessChain %StorageBuffer_u32 %back_out %u_0 %gx
OpStore %y0 %back
%y1 = OpAccessChain %StorageBuffer_u32 %word_out %u_0 %gx
OpStore %y1 %word
%y2 = OpAccessChain %StorageBuffer_u32 %low_out %u_0 %gx
OpStore %y2 %low32
%y3 = OpAccessChain %StorageBuffer_u32 %dot_out %u_0 %gx
OpStore %y3 %dotbits
";
    let f = Fixture::new(64, body).buffer("a", "u32").buffer("back_out", "u32").buffer("word_out", "u32");
    let f = f.buffer("low_out", "u32").buffer("dot_out", "u32");
    let input: Vec<u32> = (0..64u32).map(|k| k.wrapping_mul(0x0123_4567) & 0x7bff_7bff).collect();
    let fresh = Content::Fresh(256);
    let contents = [asm::words(input.clone()), fresh.clone(), fresh.clone(), fresh.clone(), fresh];
    for width in SUBGROUP_SIZES {
        let out = asm::run(&f, width, &contents).unwrap();
        for (k, &v) in input.iter().enumerate() {
            let [lo, hi] = [v as u16, (v >> 16) as u16].map(|b| f16::from_bits(b).to_f32());
            assert_eq!(out.words(1)[k], v);
            assert_eq!(out.words(2)[k], v.swap_bytes());
            assert_eq!(out.words(3)[k], v >> 8 & 0xff);
            assert_eq!(out.floats(4)[k], lo * (2.0 * lo) + hi * (2.0 * hi));
        }
    }
}

#[test]
fn f16_overflows_are_counted() {
    let row = |v: f32| vec![u32::from(f16::from_f32(v).to_bits()); 64];
    let run = |op: &str, v: f32| evaluate(op, "f16", "f16", &[row(v), row(v)], 32).unwrap().1.f16_overflows;
    assert_eq!(run("OpFAdd %f16 %0 %1", 60000.0), 64);
    assert_eq!(run("OpFAdd %f16 %0 %1", 30000.0), 0);
    assert_eq!(
        run("OpFMul %f16 %0 %1", f32::INFINITY),
        0,
        "an infinity that was there before is no overflow"
    );
    let (_, counters) =
        evaluate("OpFConvert %f16 %0", "f32", "f16", &[vec![65520.0f32.to_bits()]], 32).unwrap();
    assert_eq!(counters.f16_overflows, 64);
}
