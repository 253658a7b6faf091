//! Conversions between scalar types, and bits taken apart or put together.

use half::{bf16, f16};

use super::{
    float::narrow_f64,
    lanes::{Lanes, MAX_LANES},
};
use crate::{
    decode::width_mask,
    number::Number,
    program::{Conv, Inst},
    trap::{Fault, TrapKind},
};

fn sign_extend(v: u32, ty: Number) -> i32 {
    let spare = 32 - 8 * ty.bytes().max(1);
    ((v << spare) as i32) >> spare
}

/// dst ← a, from `i.ty` to `to`.
pub(crate) fn convert(
    l: &mut Lanes,
    i: &Inst,
    conv: Conv,
    to: Number,
    overflows: &mut u64,
) -> Result<(), Fault> {
    let (from, m) = (i.ty, width_mask(to));
    match conv {
        Conv::UToU => l.map1(i, true, |a| a & m),
        Conv::SToS => l.map1(i, true, |a| sign_extend(a, from) as u32 & m),
        Conv::UToF => match to {
            Number::F16 => to_f16(l, i, overflows, |a| narrow_f64(f64::from(a))),
            Number::BF16 => l.map1(i, false, |a| bf16::from_f64(f64::from(a)).to_bits().into()),
            _ => l.map1(i, false, |a| (a as f32).to_bits()),
        },
        Conv::SToF => {
            let number = |a| sign_extend(a, from);
            match to {
                Number::F16 => to_f16(l, i, overflows, |a| narrow_f64(f64::from(number(a)))),
                Number::BF16 => l.map1(i, false, |a| bf16::from_f64(f64::from(number(a))).to_bits().into()),
                _ => l.map1(i, false, |a| (number(a) as f32).to_bits()),
            }
        }
        Conv::FToF if from == to => l.map1(i, false, |a| a),
        Conv::FToF => match to {
            // An infinity that was one before does not count as an overflow, nor does a NaN.
            Number::F16 => to_f16(l, i, overflows, |a| f16::from_f32(float(a, from)).to_bits().into()),
            Number::BF16 => l.map1(i, false, |a| bf16::from_f32(float(a, from)).to_bits().into()),
            _ => l.map1(i, false, |a| float(a, from).to_bits()),
        },
        Conv::FToU | Conv::FToS => return to_int(l, i, conv, to),
    }
    Ok(())
}

/// The number that a float's bits mean.
pub(crate) fn float(v: u32, ty: Number) -> f32 {
    match ty {
        Number::F16 => f16::from_bits(v as u16).to_f32(),
        Number::BF16 => f32::from_bits(v << 16),
        _ => f32::from_bits(v),
    }
}

fn to_f16(l: &mut Lanes, i: &Inst, overflows: &mut u64, f: impl Fn(u32) -> u32) {
    let mut out = [0; MAX_LANES];
    let a = l.row(i.a);
    for (k, (o, &a)) in out.iter_mut().zip(a).enumerate() {
        *o = f(a);
        let finite = i.ty.is_int() || float(a, i.ty).is_finite();
        if *o & 0x7fff == 0x7c00 && finite && l.active >> k & 1 != 0 {
            *overflows += 1;
        }
    }
    l.put(i.dst, &out, l.undefined[i.a as usize], 0);
}

fn to_int(l: &mut Lanes, i: &Inst, conv: Conv, to: Number) -> Result<(), Fault> {
    let bits = 8 * to.bytes();
    let (low, high) = match conv {
        Conv::FToS => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        _ => (0, (1i64 << bits) - 1),
    };
    let fits = |a: u32| {
        let v = f64::from(float(a, i.ty)).trunc();
        v >= low as f64 && v <= high as f64
    };
    let known = l.active & !l.undefined[i.a as usize];
    let out_of_range = l.which(i.a, i.a, |a, _| !fits(a)) & known;
    if out_of_range != 0 {
        let lane = out_of_range.trailing_zeros();
        let v = float(l.row(i.a)[lane as usize], i.ty);
        let detail = format!("{v} converted to an integer of {low} to {high}");
        return Err(Fault::new(TrapKind::Integer, lane, detail));
    }
    let (ty, m) = (i.ty, width_mask(to));
    l.map1(i, false, |a| (float(a, ty) as i64) as u32 & m);
    Ok(())
}

/// dst ← the bits of a from bit b on, under mask c.
pub(crate) fn field(l: &mut Lanes, i: &Inst) {
    let (shift, m) = (i.b, i.c);
    l.map1(i, false, |a| a >> shift & m);
}

/// dst ← a | b << c.
pub(crate) fn join(l: &mut Lanes, i: &Inst) {
    let shift = i.c;
    l.map2(i, 0, |a, b| a | b << shift);
}
