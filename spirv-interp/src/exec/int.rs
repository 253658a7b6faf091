//! Integer and logic operations at widths 8, 16 and 32. Lanes hold zero-extended values.

use super::lanes::{Lanes, MAX_LANES};
use crate::{
    decode::width_mask,
    number::Number,
    program::{Bin, Inst, Tri, Un},
    trap::{Fault, TrapKind},
};

/// Bits to shift a value left, and arithmetically right again, to extend its sign.
const fn spare(ty: Number) -> u32 {
    match ty.bytes() {
        1 => 24,
        2 => 16,
        _ => 0,
    }
}

#[inline(always)]
const fn signed(v: u32, spare: u32) -> i32 {
    ((v << spare) as i32) >> spare
}

pub(crate) fn unary(l: &mut Lanes, i: &Inst, op: Un) {
    let (m, s) = (width_mask(i.ty), spare(i.ty));
    match op {
        Un::SNegate => l.map1(i, true, |a| a.wrapping_neg() & m),
        Un::Not => l.map1(i, false, |a| !a & m),
        Un::LogicalNot => l.map1(i, false, |a| a ^ 1),
        Un::BitReverse => l.map1(i, false, |a| a.reverse_bits() >> s),
        Un::BitCount => l.map1(i, false, |a| a.count_ones()),
        Un::FindILsb => l.map1(i, false, |a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        Un::FindUMsb => l.map1(i, false, |a| if a == 0 { u32::MAX } else { 31 - a.leading_zeros() }),
        _ => l.map1(i, true, |a| signed(a, s).wrapping_abs() as u32 & m),
    }
}

pub(crate) fn binary(l: &mut Lanes, i: &Inst, op: Bin) -> Result<(), Fault> {
    let (m, s) = (width_mask(i.ty), spare(i.ty));
    let below = |a: u32, b: u32| signed(a, s) < signed(b, s);
    let kept = l.wrapped2(i);
    match op {
        Bin::IAdd | Bin::ISub | Bin::IMul => {
            let kept = kept | wraps(l, i, op);
            match op {
                Bin::IAdd => l.map2(i, kept, |a, b| a.wrapping_add(b) & m),
                Bin::ISub => l.map2(i, kept, |a, b| a.wrapping_sub(b) & m),
                _ => l.map2(i, kept, |a, b| a.wrapping_mul(b) & m),
            }
        }
        Bin::MulLow => l.map2(i, 0, |a, b| a.wrapping_mul(b) & m),
        Bin::MulHigh => l.map2(i, 0, |a, b| ((u64::from(a) * u64::from(b)) >> (32 - s)) as u32 & m),
        Bin::UDiv | Bin::SDiv | Bin::UMod | Bin::SRem => divide(l, i, op)?,
        Bin::UMin => l.map2(i, kept, u32::min),
        Bin::UMax => l.map2(i, kept, u32::max),
        Bin::SMin => l.map2(i, kept, |a, b| if below(b, a) { b } else { a }),
        Bin::SMax => l.map2(i, kept, |a, b| if below(a, b) { b } else { a }),
        Bin::And => l.map2(i, 0, |a, b| a & b),
        Bin::Or => l.map2(i, 0, |a, b| a | b),
        Bin::Xor => l.map2(i, 0, |a, b| a ^ b),
        Bin::ShiftLeft | Bin::ShiftRight | Bin::ShiftRightSigned => shift(l, i, op)?,
        Bin::IEqual => l.map2(i, 0, |a, b| u32::from(a == b)),
        Bin::INotEqual => l.map2(i, 0, |a, b| u32::from(a != b)),
        Bin::UGreater => l.map2(i, 0, |a, b| u32::from(a > b)),
        Bin::UGreaterEqual => l.map2(i, 0, |a, b| u32::from(a >= b)),
        Bin::ULess => l.map2(i, 0, |a, b| u32::from(a < b)),
        Bin::ULessEqual => l.map2(i, 0, |a, b| u32::from(a <= b)),
        Bin::SGreater => l.map2(i, 0, |a, b| u32::from(below(b, a))),
        Bin::SGreaterEqual => l.map2(i, 0, |a, b| u32::from(!below(a, b))),
        Bin::SLess => l.map2(i, 0, |a, b| u32::from(below(a, b))),
        Bin::SLessEqual => l.map2(i, 0, |a, b| u32::from(!below(b, a))),
        Bin::SDot => l.map2(i, 0, |a, b| dot(a, b, |x| i32::from(x as i8), |x| i32::from(x as i8))),
        Bin::UDot => l.map2(i, 0, |a, b| dot(a, b, i32::from, i32::from)),
        _ => l.map2(i, 0, |a, b| dot(a, b, |x| i32::from(x as i8), i32::from)),
    }
    Ok(())
}

pub(crate) fn clamp(l: &mut Lanes, i: &Inst, op: Tri) {
    let s = spare(i.ty);
    let kept = l.wrapped2(i) | l.wrapped[i.c as usize];
    match op {
        Tri::UClamp => l.map3(i, kept, |x, low, high| x.max(low).min(high)),
        _ => l.map3(i, kept, |x, low, high| {
            let (wide, low_wide, high_wide) = (signed(x, s), signed(low, s), signed(high, s));
            let (x, wide) = if wide < low_wide { (low, low_wide) } else { (x, wide) };
            if wide > high_wide { high } else { x }
        }),
    }
}

/// dst ← a ? b : c; what is known of the result is what is known of the operand taken.
pub(crate) fn select(l: &mut Lanes, i: &Inst) {
    let mut out = [0; MAX_LANES];
    let rows = l.row(i.a).iter().zip(l.row(i.b)).zip(l.row(i.c));
    for (o, ((&a, &b), &c)) in out.iter_mut().zip(rows) {
        *o = if a != 0 { b } else { c };
    }
    let yes = l.truth(i.a);
    let taken = |bits: &[u64]| bits[i.b as usize] & yes | bits[i.c as usize] & !yes;
    let (undefined, wrapped) = (taken(&l.undefined) | l.undefined[i.a as usize], taken(&l.wrapped));
    l.put(i.dst, &out, undefined, wrapped);
}

fn dot(a: u32, b: u32, x: impl Fn(u8) -> i32, y: impl Fn(u8) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    let sum = (0..4).fold(0i32, |sum, k| sum.wrapping_add(x(a[k]).wrapping_mul(y(b[k]))));
    sum as u32
}

/// The lanes in which the exact result does not fit the type.
fn wraps(l: &Lanes, i: &Inst, op: Bin) -> u64 {
    let (m, s) = (width_mask(i.ty), spare(i.ty));
    match (op, i.ty.is_signed()) {
        (Bin::IAdd, false) => l.which(i.a, i.b, |a, b| {
            let sum = a.wrapping_add(b);
            (sum < a) | (sum > m)
        }),
        (Bin::ISub, false) => l.which(i.a, i.b, |a, b| a < b),
        (_, false) => l.which(i.a, i.b, |a, b| u64::from(a) * u64::from(b) > u64::from(m)),
        (Bin::IAdd, true) => l.which(i.a, i.b, |a, b| {
            let sum = a.wrapping_add(b);
            ((a ^ sum) & (b ^ sum)) << s >> 31 != 0
        }),
        (Bin::ISub, true) => l.which(i.a, i.b, |a, b| ((a ^ b) & (a ^ a.wrapping_sub(b))) << s >> 31 != 0),
        (_, true) => l.which(i.a, i.b, |a, b| {
            let product = i64::from(signed(a, s)) * i64::from(signed(b, s));
            product != i64::from(signed(product as u32, s))
        }),
    }
}

fn divide(l: &mut Lanes, i: &Inst, op: Bin) -> Result<(), Fault> {
    let (m, s) = (width_mask(i.ty), spare(i.ty));
    let of_signed = matches!(op, Bin::SDiv | Bin::SRem);
    let known = l.active & !l.undefined[i.a as usize] & !l.undefined[i.b as usize];
    let zero = l.which(i.b, i.b, |b, _| b == 0) & known;
    if zero != 0 {
        let lane = zero.trailing_zeros();
        let detail = format!("{} divided by zero", l.row(i.a)[lane as usize]);
        return Err(Fault::new(TrapKind::Integer, lane, detail));
    }
    let lowest = 1 << (31 - s);
    let over = if of_signed { l.which(i.a, i.b, |a, b| a == lowest && b == m) & known } else { 0 };
    if over != 0 {
        let detail = format!("{} divided by -1 does not fit {}", signed(lowest, s), i.ty);
        return Err(Fault::new(TrapKind::Integer, over.trailing_zeros(), detail));
    }
    let kept = l.wrapped2(i);
    let quotient = |a, b| signed(a, s).checked_div(signed(b, s)).unwrap_or(0) as u32 & m;
    let remainder = |a, b| signed(a, s).checked_rem(signed(b, s)).unwrap_or(0) as u32 & m;
    match op {
        Bin::UDiv => l.map2(i, kept, |a, b| a.checked_div(b).unwrap_or(0)),
        Bin::UMod => l.map2(i, kept, |a, b| a.checked_rem(b).unwrap_or(0)),
        Bin::SDiv => l.map2(i, kept, quotient),
        _ => l.map2(i, kept, remainder),
    }
    Ok(())
}

fn shift(l: &mut Lanes, i: &Inst, op: Bin) -> Result<(), Fault> {
    let (m, s) = (width_mask(i.ty), spare(i.ty));
    let known = l.active & !l.undefined[i.b as usize];
    let past = l.which(i.b, i.b, |b, _| b >= 32 - s) & known;
    if past != 0 {
        let lane = past.trailing_zeros();
        let detail = format!("shift by {} of a value of {} bits", l.row(i.b)[lane as usize], 32 - s);
        return Err(Fault::new(TrapKind::Integer, lane, detail));
    }
    match op {
        Bin::ShiftLeft => l.map2(i, 0, |a, b| (a << (b & 31)) & m),
        Bin::ShiftRight => l.map2(i, 0, |a, b| a >> (b & 31)),
        _ => l.map2(i, 0, |a, b| (signed(a, s) >> (b & 31)) as u32 & m),
    }
    Ok(())
}
