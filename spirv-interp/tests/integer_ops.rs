//! Integer and logic instructions against Rust's own, on all pairs of edge values, at every subgroup size.
// Test code outside the test functions themselves may stop a test too.
#![allow(clippy::panic, clippy::unwrap_used)]

mod asm;

use asm::{Content, Fixture, run_with};
use kiln_spirv_interp::{InterpOptions, SUBGROUP_SIZES, TrapKind};

/// A scalar integer type by its name in a fixture.
#[derive(Clone, Copy)]
struct Int {
    name: &'static str,
    bits: u32,
}

const TYPES: [Int; 6] = [
    Int { name: "u32", bits: 32 },
    Int { name: "i32", bits: 32 },
    Int { name: "u16", bits: 16 },
    Int { name: "i16", bits: 16 },
    Int { name: "u8", bits: 8 },
    Int { name: "i8", bits: 8 },
];

impl Int {
    fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn signed(self, v: u64) -> i64 {
        (v << (64 - self.bits)) as i64 >> (64 - self.bits)
    }

    fn edges(self) -> Vec<u64> {
        let (top, m) = (1u64 << (self.bits - 1), self.mask());
        let mut all = vec![0, 1, 2, 3, 7, 8, 15, 31, 0x5a, top - 1, top, top + 1, m - 1, m, 0x1234_5678 & m];
        all.sort_unstable();
        all.dedup();
        all
    }

    fn bytes(self, values: &[u64]) -> Content {
        let n = self.bits as usize / 8;
        Content::Bytes(values.iter().flat_map(|v| v.to_le_bytes()[..n].to_vec()).collect())
    }
}

/// Runs `op` on lanes of `rows` and returns the results, one per lane.
fn evaluate(op: &str, ty: Int, result: &str, rows: &[Vec<u64>], width: u32) -> Result<Vec<u64>, TrapKind> {
    let n = rows[0].len().next_multiple_of(64);
    let mut body = String::new();
    for (k, name) in ["a", "b", "c"].iter().enumerate().take(rows.len()) {
        body += &format!("%p{k} = OpAccessChain %StorageBuffer_{0} %{name} %u_0 %gx\n", ty.name);
        body += &format!("%v{k} = OpLoad %{} %p{k}\n", ty.name);
    }
    let operands: String = (0..rows.len()).map(|k| format!(" %v{k}")).collect();
    let (name, tail) = op.split_once(' ').unwrap_or((op, ""));
    let operands = if tail.is_empty() { operands } else { format!(" {tail}{operands}") };
    let value = if result == "bool" {
        body += &format!("%test = {name} %bool{operands}\n%r = OpSelect %u32 %test %u_1 %u_0\n");
        "u32"
    } else {
        body += &format!("%r = {name} %{result}{operands}\n");
        result
    };
    body += &format!("%out = OpAccessChain %StorageBuffer_{value} %y %u_0 %gx\nOpStore %out %r\n");
    let mut f = Fixture::new(64, &body);
    let mut contents = Vec::new();
    for (name, row) in ["a", "b", "c"].into_iter().zip(rows) {
        f = f.buffer(name, ty.name);
        let padded: Vec<u64> = row.iter().copied().cycle().take(n).collect();
        contents.push(ty.bytes(&padded));
    }
    let bytes = TYPES.iter().find(|t| t.name == value).unwrap().bits as usize / 8;
    f = f.buffer("y", TYPES.iter().find(|t| t.name == value).unwrap().name);
    contents.push(Content::Fresh(n * bytes));
    let options = InterpOptions { subgroup_size: width, ..InterpOptions::default() };
    let outcome =
        run_with(options, &f.kernel(), [(n / 64) as u32, 1, 1], &[], &contents).map_err(|t| t.kind)?;
    let out = outcome.buffers.last().unwrap().chunks(bytes);
    let number = |c: &[u8]| c.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b));
    Ok(out.map(number).take(rows[0].len()).collect())
}

fn pairs(ty: Int) -> (Vec<u64>, Vec<u64>) {
    let edges = ty.edges();
    let all = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b)));
    all.unzip()
}

type Reference = fn(Int, u64, u64) -> Option<i64>;

/// Compares `op` with `f` on every pair for which `f` has a value, and expects a trap on every other pair.
fn check(op: &str, result: Option<&str>, f: Reference) {
    for ty in TYPES {
        let (a, b) = pairs(ty);
        let (good, bad): (Vec<_>, Vec<_>) = a.into_iter().zip(b).partition(|&(a, b)| f(ty, a, b).is_some());
        let (a, b): (Vec<u64>, Vec<u64>) = good.into_iter().unzip();
        let result = result.unwrap_or(ty.name);
        let mask = TYPES.iter().find(|t| t.name == result).map_or(1, |t| t.mask());
        let expected: Vec<u64> =
            a.iter().zip(&b).map(|(&a, &b)| f(ty, a, b).unwrap() as u64 & mask).collect();
        for width in SUBGROUP_SIZES {
            let got = evaluate(op, ty, result, &[a.clone(), b.clone()], width).unwrap();
            assert_eq!(got, expected, "{op} on {} at width {width}", ty.name);
            let mut falsified = expected.clone();
            falsified[a.len() / 2] ^= 1;
            assert_ne!(got, falsified, "the comparison has to notice one wrong lane");
        }
        for (a, b) in bad {
            let got = evaluate(op, ty, result, &[vec![a], vec![b]], 8);
            assert_eq!(got, Err(TrapKind::Integer), "{op} on {} {a:#x} {b:#x}", ty.name);
        }
    }
}

#[test]
fn arithmetic() {
    check("OpIAdd", None, |_, a, b| Some((a + b) as i64));
    check("OpISub", None, |_, a, b| Some(a.wrapping_sub(b) as i64));
    check("OpIMul", None, |_, a, b| Some(a.wrapping_mul(b) as i64));
    check("OpUDiv", None, |_, a, b| a.checked_div(b).map(|v| v as i64));
    check("OpUMod", None, |_, a, b| a.checked_rem(b).map(|v| v as i64));
    fn fits(t: Int, v: i64) -> Option<i64> {
        (t.signed(v as u64 & t.mask()) == v).then_some(v)
    }
    check("OpSDiv", None, |t, a, b| fits(t, t.signed(a).checked_div(t.signed(b))?));
    check("OpSRem", None, |t, a, b| {
        fits(t, t.signed(a).checked_div(t.signed(b))?)?;
        t.signed(a).checked_rem(t.signed(b))
    });
}

#[test]
fn bits_and_shifts() {
    check("OpBitwiseAnd", None, |_, a, b| Some((a & b) as i64));
    check("OpBitwiseOr", None, |_, a, b| Some((a | b) as i64));
    check("OpBitwiseXor", None, |_, a, b| Some((a ^ b) as i64));
    check("OpShiftLeftLogical", None, |t, a, b| (b < t.bits.into()).then(|| (a << b) as i64));
    check("OpShiftRightLogical", None, |t, a, b| (b < t.bits.into()).then(|| (a >> b) as i64));
    check("OpShiftRightArithmetic", None, |t, a, b| (b < t.bits.into()).then(|| t.signed(a) >> b));
}

#[test]
fn comparisons() {
    check("OpIEqual", Some("bool"), |_, a, b| Some((a == b).into()));
    check("OpINotEqual", Some("bool"), |_, a, b| Some((a != b).into()));
    check("OpUGreaterThan", Some("bool"), |_, a, b| Some((a > b).into()));
    check("OpUGreaterThanEqual", Some("bool"), |_, a, b| Some((a >= b).into()));
    check("OpULessThan", Some("bool"), |_, a, b| Some((a < b).into()));
    check("OpULessThanEqual", Some("bool"), |_, a, b| Some((a <= b).into()));
    check("OpSGreaterThan", Some("bool"), |t, a, b| Some((t.signed(a) > t.signed(b)).into()));
    check("OpSGreaterThanEqual", Some("bool"), |t, a, b| Some((t.signed(a) >= t.signed(b)).into()));
    check("OpSLessThan", Some("bool"), |t, a, b| Some((t.signed(a) < t.signed(b)).into()));
    check("OpSLessThanEqual", Some("bool"), |t, a, b| Some((t.signed(a) <= t.signed(b)).into()));
}

#[test]
fn extended_instructions() {
    check("OpExtInst %glsl UMin", None, |_, a, b| Some(a.min(b) as i64));
    check("OpExtInst %glsl UMax", None, |_, a, b| Some(a.max(b) as i64));
    check("OpExtInst %glsl SMin", None, |t, a, b| Some(t.signed(a).min(t.signed(b))));
    check("OpExtInst %glsl SMax", None, |t, a, b| Some(t.signed(a).max(t.signed(b))));
}

#[test]
fn one_operand() {
    type One = fn(Int, u64) -> u64;
    let cases: [(&str, One); 6] = [
        ("OpSNegate", |_, a| a.wrapping_neg()),
        ("OpNot", |_, a| !a),
        ("OpBitReverse", |t, a| a.reverse_bits() >> (64 - t.bits)),
        ("OpBitCount", |_, a| a.count_ones().into()),
        ("OpExtInst %glsl SAbs", |t, a| t.signed(a).unsigned_abs()),
        ("OpSConvert", |_, a| a),
    ];
    for (op, f) in cases {
        for ty in TYPES {
            let a = ty.edges();
            let expected: Vec<u64> = a.iter().map(|&a| f(ty, a) & ty.mask()).collect();
            for width in SUBGROUP_SIZES {
                let got = evaluate(op, ty, ty.name, std::slice::from_ref(&a), width).unwrap();
                assert_eq!(got, expected, "{op} on {} at width {width}", ty.name);
            }
        }
    }
    for (op, f) in [
        (
            "OpExtInst %glsl FindILsb",
            (|a: u32| if a == 0 { -1 } else { a.trailing_zeros() as i32 }) as fn(u32) -> i32,
        ),
        ("OpExtInst %glsl FindUMsb", |a: u32| if a == 0 { -1 } else { 31 - a.leading_zeros() as i32 }),
    ] {
        let a = TYPES[0].edges();
        let expected: Vec<u64> = a.iter().map(|&a| u64::from(f(a as u32) as u32)).collect();
        assert_eq!(evaluate(op, TYPES[0], "u32", &[a], 16).unwrap(), expected, "{op}");
    }
}

#[test]
fn clamps_take_three_operands() {
    for ty in TYPES {
        let edges = ty.edges();
        let mut rows = [Vec::new(), Vec::new(), Vec::new()];
        for &x in &edges {
            for (&low, &high) in edges.iter().zip(edges.iter().rev()).filter(|(l, h)| l <= h) {
                rows[0].push(x);
                rows[1].push(low);
                rows[2].push(high);
            }
        }
        let expected: Vec<u64> =
            (0..rows[0].len()).map(|k| rows[0][k].clamp(rows[1][k], rows[2][k])).collect();
        for width in SUBGROUP_SIZES {
            assert_eq!(evaluate("OpExtInst %glsl UClamp", ty, ty.name, &rows, width).unwrap(), expected);
        }
        let order = |t: Int, a: u64, b: u64| if t.signed(a) <= t.signed(b) { (a, b) } else { (b, a) };
        for k in 0..rows[0].len() {
            (rows[1][k], rows[2][k]) = order(ty, rows[1][k], rows[2][k]);
        }
        let signed: Vec<u64> = (0..rows[0].len())
            .map(|k| {
                ty.signed(rows[0][k]).clamp(ty.signed(rows[1][k]), ty.signed(rows[2][k])) as u64 & ty.mask()
            })
            .collect();
        assert_eq!(evaluate("OpExtInst %glsl SClamp", ty, ty.name, &rows, 32).unwrap(), signed);
    }
}

#[test]
fn conversions_between_widths() {
    for from in TYPES {
        for to in TYPES {
            let a = from.edges();
            let zero: Vec<u64> = a.iter().map(|a| a & to.mask()).collect();
            let sign: Vec<u64> = a.iter().map(|&a| from.signed(a) as u64 & to.mask()).collect();
            for width in SUBGROUP_SIZES {
                assert_eq!(
                    evaluate("OpUConvert", from, to.name, std::slice::from_ref(&a), width).unwrap(),
                    zero
                );
                assert_eq!(
                    evaluate("OpSConvert", from, to.name, std::slice::from_ref(&a), width).unwrap(),
                    sign
                );
            }
        }
    }
}

#[test]
fn packed_dot_products_are_exact() {
    type Sign = fn(u8) -> i64;
    let byte = |v: u64, k: u32| (v >> (8 * k)) as u8;
    let values: Vec<u64> =
        [0u32, 1, 0x0102_0304, 0x7f7f_7f7f, 0x8080_8080, 0xffff_ffff, 0x80ff_7f01, 0xdead_beef]
            .map(u64::from)
            .to_vec();
    let (a, b): (Vec<u64>, Vec<u64>) =
        values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip();
    let signed = |v: u8| i64::from(v as i8);
    let cases: [(&str, Sign, Sign); 3] = [
        ("OpSDot", signed, signed),
        ("OpUDot", |v| v.into(), |v| v.into()),
        ("OpSUDot", signed, |v| v.into()),
    ];
    for (op, x, y) in cases {
        let expected: Vec<u64> = a
            .iter()
            .zip(&b)
            .map(|(&a, &b)| (0..4).map(|k| x(byte(a, k)) * y(byte(b, k))).sum::<i64>() as u32)
            .map(u64::from)
            .collect();
        // The packed format is a literal behind the operands.
        let body = format!(
            "%pa = OpAccessChain %StorageBuffer_u32 %a %u_0 %gx\n%va = OpLoad %u32 %pa\n\
             %pb = OpAccessChain %StorageBuffer_u32 %b %u_0 %gx\n%vb = OpLoad %u32 %pb\n\
             %r = {op} %u32 %va %vb 0\n\
             %out = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx\nOpStore %out %r\n"
        );
        let f = Fixture::new(64, &body).buffer("a", "u32").buffer("b", "u32").buffer("y", "u32");
        let contents = [TYPES[0].bytes(&a), TYPES[0].bytes(&b), Content::Fresh(256)];
        for width in SUBGROUP_SIZES {
            let got: Vec<u64> =
                asm::run(&f, width, &contents).unwrap().words(2).into_iter().map(u64::from).collect();
            assert_eq!(got, expected, "{op} at width {width}");
        }
    }
}

#[test]
fn wide_product_has_both_halves() {
    let (a, b) = pairs(TYPES[0]);
    let n = a.len().next_multiple_of(64);
    let pad = |v: &[u64]| v.iter().copied().cycle().take(n).collect::<Vec<_>>();
    let body = "
%pa = OpAccessChain %StorageBuffer_u32 %a %u_0 %gx
%va = OpLoad %u32 %pa
%pb = OpAccessChain %StorageBuffer_u32 %b %u_0 %gx
%vb = OpLoad %u32 %pb
%r = OpUMulExtended %pair %va %vb
%low = OpCompositeExtract %u32 %r 0
%high = OpCompositeExtract %u32 %r 1
%pl = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx
OpStore %pl %low
%ph = OpAccessChain %StorageBuffer_u32 %z %u_0 %gx
OpStore %ph %high
";
    let mut f = Fixture::new(64, body);
    f.declare = "%pair = OpTypeStruct %u32 %u32".to_owned();
    let f = f.buffer("a", "u32").buffer("b", "u32").buffer("y", "u32").buffer("z", "u32");
    let contents =
        [TYPES[0].bytes(&pad(&a)), TYPES[0].bytes(&pad(&b)), Content::Fresh(n * 4), Content::Fresh(n * 4)];
    let options = InterpOptions::default();
    let got = run_with(options, &f.kernel(), [(n / 64) as u32, 1, 1], &[], &contents).unwrap();
    for k in 0..a.len() {
        let product = a[k] * b[k];
        assert_eq!([got.words(2)[k], got.words(3)[k]], [product as u32, (product >> 32) as u32]);
    }
}

#[test]
fn truth_values() {
    type Logic = fn(bool, bool) -> bool;
    let cases: [(&str, Logic); 4] = [
        ("OpLogicalAnd", |a, b| a && b),
        ("OpLogicalOr", |a, b| a || b),
        ("OpLogicalEqual", |a, b| a == b),
        ("OpLogicalNotEqual", |a, b| a != b),
    ];
    for (op, f) in cases {
        let body = format!(
            "%bit = OpBitwiseAnd %u32 %gx %u_1\n%a = OpINotEqual %bool %bit %u_0\n\
             %two = OpBitwiseAnd %u32 %gx %u_2\n%b = OpINotEqual %bool %two %u_0\n\
             %r = {op} %bool %a %b\n%n = OpLogicalNot %bool %r\n\
             %v = OpSelect %u32 %n %u_0 %u_1\n\
             %pair = OpCompositeConstruct %v2bool %a %b\n%any = OpAny %bool %pair\n%all = OpAll %bool %pair\n\
             %w = OpSelect %u32 %any %u_2 %u_0\n%x = OpSelect %u32 %all %u_4 %u_0\n\
             %vw = OpBitwiseOr %u32 %v %w\n%vwx = OpBitwiseOr %u32 %vw %x\n\
             %out = OpAccessChain %StorageBuffer_u32 %y %u_0 %gx\nOpStore %out %vwx\n"
        );
        let fixture = Fixture::new(64, &body).buffer("y", "u32");
        for width in SUBGROUP_SIZES {
            let got = asm::run(&fixture, width, &[Content::Fresh(256)]).unwrap().words(0);
            let expected: Vec<u32> = (0..64u32)
                .map(|k| (k & 1 != 0, k & 2 != 0))
                .map(|(a, b)| u32::from(f(a, b)) | u32::from(a | b) << 1 | u32::from(a & b) << 2)
                .collect();
            assert_eq!(got, expected, "{op} at width {width}");
        }
    }
}
