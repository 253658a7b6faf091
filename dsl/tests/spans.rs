//! Every construct's instructions carry the line and the column of the user's token.
//!
//! A line that ends in `//~ Op token, Op token` emits each `Op` at the column where `token` first stands in it.

use std::collections::BTreeSet;

use kiln_abi::{Kernel, spirv::Op};
use kiln_dsl::prelude::*;

/// Push constants.
#[derive(Push, Clone, Copy)]
pub struct Sizes {
    /// A count.
    pub n: u32,
    /// A factor.
    pub s: f32,
}

/// A block.
#[derive(Block)]
pub struct Pair {
    d: f16,
    q: [u16; 3],
}

#[device]
fn halve(v: f32, mut w: f32) -> f32 {
    w += v; //~ Load w, FAdd +=, Store w
    w / 2.0 //~ Load w, FDiv /
}

/// One of each.
#[kernel(local_size = 32, grid = p.n)]
#[rustfmt::skip]
pub fn one_of_each(
    x: &Buf<f32>, w: &Buf<Pair>, u: &Buf<u32>, y: &BufMut<f32>, z: &BufMut<u32>,
    #[push] p: Sizes, //~ Load p:
    #[comptime] rows: u32,
) {
    let i = global_id_x(); //~ CompositeExtract global_id_x
    let a = x[i] + p.s; //~ AccessChain x[i], Load x[i], FAdd +
    let b = -a * a - a; //~ FNegate -a, FMul *, FSub - a
    let k = u[i] % 7 / (i | 1); //~ Load u[i], UMod %, UDiv /, BitwiseOr |
    let k2 = (k << 3 >> 1 & 15) ^ !k; //~ ShiftLeftLogical <<, ShiftRightLogical >>, BitwiseAnd &, BitwiseXor ^, Not !k
    let c = a < b; //~ FOrdLessThan <
    let c2 = c && !(k == k2); //~ LogicalAnd &&, LogicalNot !, IEqual ==
    let c3 = c2 || x[k] >= b; //~ BranchConditional ||, Load x[k], FOrdGreaterThanEqual >=
    let mut v = if c3 { a } else { b }; //~ Select if, Store if c3
    if c { v = 1.0; } //~ BranchConditional if, Store v =
    v += x[0]; //~ Load v, Load x[0], FAdd +=, Store v
    let e = if k > k2 { x[k] } else { b }; //~ BranchConditional if, Load x[k], UGreaterThan >
    for j in 0..k { //~ Load for, ULessThan for, IAdd for
        if j != k2 { continue; } //~ INotEqual !=, Branch continue
        v *= e; //~ FMul *=
        break; //~ Branch break
    }
    while v <= e { v -= 1.0; } //~ FOrdLessThanEqual <=, FSub -=
    loop { if c { break; } v /= 2.0; } //~ LoopMerge loop, Branch break, FDiv /=
    let r = &w[k]; // Nothing is loaded yet.
    let d = r.d as f32 * (r.q[i] as i32 as f32); //~ Load r.d, FConvert as f32, Load r.q, ConvertSToF as f32)
    let q = [a, b]; //~ Store [a
    let h = halve(q[i & 1], d); //~ Load q[i
    let t = Shared::<f32>::new(rows);
    t[local_id()] = h; //~ Store t[
    barrier(); //~ ControlBarrier barrier
    let g = vec4(h, a, b, e).w().sqrt(); //~ ExtInst sqrt
    let s = max(subgroup::add(g), t[0]); //~ GroupNonUniformFAdd subgroup::add, ExtInst max, Load t[0]
    let m = dot4_i8(k, k2) as u32; //~ SDot dot4_i8, Bitcast as
    for f in comptime!(0..rows) {
        y[i + f] = s + v; //~ Store y[, IAdd + f, FAdd + v
    }
    z[i] = pack_half(vec2(s, v)) + m; //~ CompositeConstruct vec2, ExtInst pack_half, Store z[
    if i > 4 { return; } //~ Return return
    z[1] = bitcast::<u32, _>(v) + z.len(); //~ Bitcast bitcast, ArrayLength len
}

#[test]
fn instructions_carry_the_users_token() {
    let staged = OneOfEach::new(4).stage().unwrap();
    let emitted: BTreeSet<(String, u32, u32)> = staged
        .source
        .entries
        .iter()
        .map(|&(offset, at)| {
            let number = (staged.words[offset as usize] & 0xffff) as u16;
            assert!(at.file.ends_with("spans.rs"), "{at}");
            (Op::from_number(number).unwrap().name().to_owned(), at.line, at.column)
        })
        .collect();
    let source = include_str!("spans.rs");
    let (mut missing, mut expected) = (Vec::new(), 0);
    for (line, text) in (1u32..).zip(source.lines()) {
        let Some((code, marks)) = text.split_once("//~ ") else { continue };
        if code.trim().is_empty() || code.starts_with("//!") || code.contains('"') {
            continue;
        }
        for mark in marks.split(", ") {
            let (op, token) = mark.split_once(' ').unwrap();
            let column =
                code.find(token).unwrap_or_else(|| panic!("line {line} has no `{token}`")) as u32 + 1;
            expected += 1;
            if !emitted.contains(&(op.to_owned(), line, column)) {
                let there: Vec<_> = emitted.iter().filter(|e| e.1 == line).collect();
                missing.push(format!("{op} at {line}:{column}; that line has {there:?}"));
            }
        }
    }
    assert!(expected > 60, "{expected}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    // Nothing points at the attribute or at any line but those with code of the kernel or of what it calls.
    let attribute = source.lines().position(|l| l.starts_with("#[kernel")).unwrap() as u32 + 1;
    assert!(emitted.iter().all(|e| e.1 != attribute));
}
