//! Float operations. f32 is computed as such; f16 is computed in f32 and rounded to nearest even.
//!
//! Sums, products, quotients and roots of f16 rounded twice that way equal the ones rounded once. A fused multiply-add
//! does not, so it goes through f64 with the lost bits kept in the last place. `FMin` and `FMax` return the other
//! operand when one is NaN; `FClamp` is the two in turn.

use half::f16;

use super::lanes::{Lanes, MAX_LANES};
use crate::{
    number::Number,
    program::{Bin, Inst, Tri, Un},
};

#[inline(always)]
fn wide(v: u32) -> f32 {
    f16::from_bits(v as u16).to_f32()
}

#[inline(always)]
fn narrow(v: f32) -> u32 {
    f16::from_f32(v).to_bits().into()
}

/// The f16 nearest to `v`: through an f32 whose last bit keeps what rounding lost, so that it is rounded once.
pub(crate) fn narrow_f64(v: f64) -> u32 {
    let near = v as f32;
    if f64::from(near) == v || !near.is_finite() || near.to_bits() & 1 == 1 {
        return narrow(near);
    }
    let away = f64::from(near).abs() < v.abs();
    let bits = near.to_bits();
    narrow(f32::from_bits(if away { bits + 1 } else { bits.saturating_sub(1) }))
}

/// The f16 nearest to a × b + c. The product is exact in f64; what the sum loses goes into its last bit.
fn fma16(a: f32, b: f32, c: f32) -> u32 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = p + c;
    let back = sum - p;
    let lost = (p - (sum - back)) + (c - back);
    if lost == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return narrow_f64(sum);
    }
    let outward = (lost > 0.0) == (sum > 0.0);
    let bits = sum.to_bits();
    narrow_f64(f64::from_bits(if outward { bits + 1 } else { bits.saturating_sub(1) }))
}

/// Counts active lanes with an infinite f16 result although all operands are finite.
fn count_overflows(l: &Lanes, out: &[u32; MAX_LANES], finite: impl Fn(usize) -> bool, overflows: &mut u64) {
    for (k, v) in out.iter().enumerate().take(l.width()) {
        if v & 0x7fff == 0x7c00 && l.active >> k & 1 != 0 && finite(k) {
            *overflows += 1;
        }
    }
}

#[inline(always)]
fn is_finite16(v: u32) -> bool {
    v & 0x7c00 != 0x7c00
}

#[inline(always)]
fn float1(l: &mut Lanes, i: &Inst, overflows: &mut u64, f: impl Fn(f32) -> f32) {
    if i.ty != Number::F16 {
        return l.map1(i, false, |a| f(f32::from_bits(a)).to_bits());
    }
    let mut out = [0; MAX_LANES];
    let a = l.row(i.a);
    for (o, &a) in out.iter_mut().zip(a) {
        *o = narrow(f(wide(a)));
    }
    count_overflows(l, &out, |k| is_finite16(a[k]), overflows);
    l.put(i.dst, &out, l.undefined[i.a as usize], 0);
}

#[inline(always)]
fn float2(l: &mut Lanes, i: &Inst, overflows: &mut u64, f: impl Fn(f32, f32) -> f32) {
    if i.ty != Number::F16 {
        return l.map2(i, 0, |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits());
    }
    let mut out = [0; MAX_LANES];
    let (a, b) = (l.row(i.a), l.row(i.b));
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = narrow(f(wide(a), wide(b)));
    }
    count_overflows(l, &out, |k| is_finite16(a[k]) && is_finite16(b[k]), overflows);
    l.put(i.dst, &out, l.undefined[i.a as usize] | l.undefined[i.b as usize], 0);
}

#[inline(always)]
fn compare(l: &mut Lanes, i: &Inst, f: impl Fn(f32, f32) -> bool) {
    if i.ty == Number::F16 {
        l.map2(i, 0, |a, b| u32::from(f(wide(a), wide(b))));
    } else {
        l.map2(i, 0, |a, b| u32::from(f(f32::from_bits(a), f32::from_bits(b))));
    }
}

pub(crate) fn unary(l: &mut Lanes, i: &Inst, op: Un, overflows: &mut u64) {
    let f16_bits = i.ty == Number::F16;
    let (sign, infinite) = if f16_bits { (0x8000, 0x7c00) } else { (1 << 31, 0x7f80_0000) };
    match op {
        Un::FNegate => l.map1(i, false, |a| a ^ sign),
        Un::FAbs => l.map1(i, false, |a| a & !sign),
        Un::IsNan => l.map1(i, false, |a| u32::from(a & !sign > infinite)),
        Un::IsInf => l.map1(i, false, |a| u32::from(a & !sign == infinite)),
        Un::FSign => float1(l, i, overflows, |a| match a.partial_cmp(&0.0) {
            Some(std::cmp::Ordering::Greater) => 1.0,
            Some(std::cmp::Ordering::Less) => -1.0,
            _ => a,
        }),
        Un::RoundEven => float1(l, i, overflows, f32::round_ties_even),
        Un::Trunc => float1(l, i, overflows, f32::trunc),
        Un::Floor => float1(l, i, overflows, f32::floor),
        Un::Ceil => float1(l, i, overflows, f32::ceil),
        Un::Fract => float1(l, i, overflows, |a| a - a.floor()),
        Un::Sin => float1(l, i, overflows, f32::sin),
        Un::Cos => float1(l, i, overflows, f32::cos),
        Un::Tanh => float1(l, i, overflows, f32::tanh),
        Un::Exp => float1(l, i, overflows, f32::exp),
        Un::Log => float1(l, i, overflows, f32::ln),
        Un::Exp2 => float1(l, i, overflows, f32::exp2),
        Un::Log2 => float1(l, i, overflows, f32::log2),
        Un::Sqrt => float1(l, i, overflows, f32::sqrt),
        Un::InverseSqrt => float1(l, i, overflows, |a| (1.0 / f64::from(a).sqrt()) as f32),
        Un::UnpackLow => l.map1(i, false, |a| wide(a & 0xffff).to_bits()),
        _ => l.map1(i, false, |a| wide(a >> 16).to_bits()),
    }
}

pub(crate) fn binary(l: &mut Lanes, i: &Inst, op: Bin, overflows: &mut u64) {
    match op {
        Bin::FAdd => float2(l, i, overflows, |a, b| a + b),
        Bin::FSub => float2(l, i, overflows, |a, b| a - b),
        Bin::FMul => float2(l, i, overflows, |a, b| a * b),
        Bin::FDiv => float2(l, i, overflows, |a, b| a / b),
        Bin::FRem => float2(l, i, overflows, |a, b| a % b),
        Bin::FMin => float2(l, i, overflows, f32::min),
        Bin::FMax => float2(l, i, overflows, f32::max),
        Bin::Pow => float2(l, i, overflows, f32::powf),
        Bin::FEqual => compare(l, i, |a, b| a == b),
        Bin::FNotEqual => compare(l, i, |a, b| a != b),
        Bin::FLess => compare(l, i, |a, b| a < b),
        Bin::FGreater => compare(l, i, |a, b| a > b),
        Bin::FLessEqual => compare(l, i, |a, b| a <= b),
        Bin::FGreaterEqual => compare(l, i, |a, b| a >= b),
        _ => {
            let mut out = [0; MAX_LANES];
            for ((o, &a), &b) in out.iter_mut().zip(l.row(i.a)).zip(l.row(i.b)) {
                *o = narrow(f32::from_bits(a)) | narrow(f32::from_bits(b)) << 16;
            }
            l.put(i.dst, &out, l.undefined[i.a as usize] | l.undefined[i.b as usize], 0);
        }
    }
}

pub(crate) fn ternary(l: &mut Lanes, i: &Inst, op: Tri, overflows: &mut u64) {
    let f = f32::from_bits;
    if i.ty != Number::F16 {
        return match op {
            Tri::Fma => l.map3(i, 0, |a, b, c| f(a).mul_add(f(b), f(c)).to_bits()),
            _ => l.map3(i, 0, |x, low, high| f(x).max(f(low)).min(f(high)).to_bits()),
        };
    }
    let mut out = [0; MAX_LANES];
    let (a, b, c) = (l.row(i.a), l.row(i.b), l.row(i.c));
    for (k, o) in out.iter_mut().enumerate().take(l.width()) {
        let (x, y, z) = (wide(a[k]), wide(b[k]), wide(c[k]));
        *o = match op {
            Tri::Fma => fma16(x, y, z),
            _ => narrow(x.max(y).min(z)),
        };
    }
    count_overflows(l, &out, |k| [a[k], b[k], c[k]].into_iter().all(is_finite16), overflows);
    let [a, b, c] = [i.a, i.b, i.c].map(|s| l.undefined[s as usize]);
    l.put(i.dst, &out, a | b | c, 0);
}
