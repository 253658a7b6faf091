//! Subgroup operations. All but `Elect` need every lane of the subgroup; a partial last subgroup has the lanes it has.

use half::f16;
use kiln_abi::spirv::GroupOperation;

use super::lanes::{Lanes, MAX_LANES, bits};
use crate::{
    decode::width_mask,
    number::Number,
    options::ReduceOrder,
    program::{Bin, Exchange, Inst},
    trap::{Fault, TrapKind},
};

pub(crate) fn exchange(l: &mut Lanes, i: &Inst, what: Exchange, order: ReduceOrder) -> Result<(), Fault> {
    if what == Exchange::Elect {
        let (mut out, first) = ([0; MAX_LANES], l.active.trailing_zeros() as usize);
        out[first % MAX_LANES] = 1;
        l.put(i.dst, &out, 0, 0);
        return Ok(());
    }
    let absent = l.exist & !l.active;
    if absent != 0 {
        let (lane, n) = (absent.trailing_zeros(), absent.count_ones());
        let detail =
            format!("subgroup operation without lane {lane} ({n} of {} lanes absent)", l.exist.count_ones());
        return Err(Fault::new(TrapKind::Divergence, l.active.trailing_zeros(), detail));
    }
    match what {
        Exchange::Elect => {}
        Exchange::All => vote(l, i, |truth, all| truth == all),
        Exchange::Any => vote(l, i, |truth, _| truth != 0),
        Exchange::Ballot => {
            let (truth, undefined) = (l.truth(i.a) & l.exist, any(l, i.a));
            for (word, dst) in [truth as u32, (truth >> 32) as u32, 0, 0].into_iter().zip(i.dst..) {
                l.put(dst, &[word; MAX_LANES], undefined, 0);
            }
        }
        Exchange::BroadcastFirst => {
            let first = l.exist.trailing_zeros();
            gather(l, i, |_| Ok(Some(first)))?;
        }
        Exchange::Broadcast => {
            index_is_known(l, i)?;
            let lanes = l.row(i.b).to_vec();
            let same = lanes[0];
            if let Some(k) = bits(l.exist).find(|&k| lanes[k] != same) {
                let detail =
                    format!("broadcast from lane {same} and lane {}: the lane has to be uniform", lanes[k]);
                return Err(Fault::new(TrapKind::Divergence, k as u32, detail));
            }
            gather(l, i, |_| Ok(Some(same)))?;
        }
        Exchange::Shuffle => shuffle(l, i, |_, n| Some(n))?,
        Exchange::ShuffleXor => shuffle(l, i, |k, n| Some(k ^ n))?,
        Exchange::ShuffleUp => shuffle(l, i, |k, n| k.checked_sub(n))?,
        Exchange::ShuffleDown => {
            let lanes = l.exist.count_ones();
            shuffle(l, i, |k, n| k.checked_add(n).filter(|&s| s < lanes))?;
        }
        Exchange::Combine(op, group) => combine(l, i, op, group, order),
    }
    Ok(())
}

/// All lanes when an existing one is undefined in `slot`.
fn any(l: &Lanes, slot: u32) -> u64 {
    if l.undefined[slot as usize] & l.exist != 0 { u64::MAX } else { 0 }
}

fn vote(l: &mut Lanes, i: &Inst, f: impl Fn(u64, u64) -> bool) {
    let result = f(l.truth(i.a) & l.exist, l.exist);
    l.put(i.dst, &[u32::from(result); MAX_LANES], any(l, i.a), 0);
}

fn index_is_known(l: &Lanes, i: &Inst) -> Result<(), Fault> {
    let unknown = l.undefined[i.b as usize] & l.exist;
    if unknown != 0 {
        let detail = "the lane to read from is an uninitialized value";
        return Err(Fault::new(TrapKind::Uninitialized, unknown.trailing_zeros(), detail));
    }
    Ok(())
}

/// `source(lane, operand)`; `None` gives an undefined value, as a relative shuffle past the end does.
fn shuffle(l: &mut Lanes, i: &Inst, source: impl Fn(u32, u32) -> Option<u32>) -> Result<(), Fault> {
    index_is_known(l, i)?;
    let operands = l.row(i.b).to_vec();
    gather(l, i, |k| Ok(source(k, operands[k as usize])))
}

fn gather(l: &mut Lanes, i: &Inst, source: impl Fn(u32) -> Result<Option<u32>, Fault>) -> Result<(), Fault> {
    let (mut out, mut undefined, mut wrapped) = ([0; MAX_LANES], 0, 0);
    for k in bits(l.exist) {
        match source(k as u32)? {
            None => undefined |= 1 << k,
            Some(s) if s < 64 && l.exist >> s & 1 != 0 => {
                out[k] = l.row(i.a)[s as usize];
                undefined |= (l.undefined[i.a as usize] >> s & 1) << k;
                wrapped |= (l.wrapped[i.a as usize] >> s & 1) << k;
            }
            Some(s) => {
                let detail = format!("reads lane {s} of a subgroup of {} lanes", l.exist.count_ones());
                return Err(Fault::new(TrapKind::InactiveLane, k as u32, detail));
            }
        }
    }
    l.put(i.dst, &out, undefined, wrapped);
    Ok(())
}

fn combine(l: &mut Lanes, i: &Inst, op: Bin, group: GroupOperation, order: ReduceOrder) {
    let n = l.exist.count_ones() as usize;
    let values = l.row(i.a)[..n].to_vec();
    let fold = |values: &[u32]| match values {
        [] => identity(op, i.ty),
        _ => reduce(values, order, &|a, b| apply(op, i.ty, a, b)),
    };
    let unknown = l.undefined[i.a as usize];
    let (mut out, mut undefined) = ([0; MAX_LANES], 0);
    if group == GroupOperation::Reduce {
        (out, undefined) = ([fold(&values); MAX_LANES], any(l, i.a));
    } else {
        for (k, o) in out.iter_mut().enumerate().take(n) {
            let taken = if group == GroupOperation::InclusiveScan { k + 1 } else { k };
            *o = fold(&values[..taken]);
            if unknown & l.exist & ((1u64 << (taken % 64)).wrapping_sub(1)) != 0
                || taken == 64 && unknown != 0
            {
                undefined |= 1 << k;
            }
        }
    }
    l.put(i.dst, &out, undefined, 0);
}

/// Combines one value or more.
fn reduce(values: &[u32], order: ReduceOrder, f: &impl Fn(u32, u32) -> u32) -> u32 {
    match order {
        ReduceOrder::Forward => values.iter().copied().reduce(f).unwrap_or(0),
        ReduceOrder::Reverse => values.iter().rev().copied().reduce(f).unwrap_or(0),
        ReduceOrder::Tree => {
            let mut level = values.to_vec();
            while level.len() > 1 {
                level = level.chunks(2).map(|p| if let [a, b] = *p { f(a, b) } else { p[0] }).collect();
            }
            level.first().copied().unwrap_or(0)
        }
    }
}

pub(crate) fn apply(op: Bin, ty: Number, a: u32, b: u32) -> u32 {
    let m = width_mask(ty);
    let spare = m.leading_zeros();
    let signed = |v: u32| (v << spare) as i32;
    let float = |f: fn(f32, f32) -> f32| {
        if ty == Number::F16 {
            let [a, b] = [a, b].map(|v| f16::from_bits(v as u16).to_f32());
            f16::from_f32(f(a, b)).to_bits().into()
        } else {
            f(f32::from_bits(a), f32::from_bits(b)).to_bits()
        }
    };
    match op {
        Bin::IAdd => a.wrapping_add(b) & m,
        Bin::IMul => a.wrapping_mul(b) & m,
        Bin::UMin => a.min(b),
        Bin::UMax => a.max(b),
        Bin::SMin if signed(b) < signed(a) => b,
        Bin::SMax if signed(b) > signed(a) => b,
        Bin::And => a & b,
        Bin::Or => a | b,
        Bin::Xor => a ^ b,
        Bin::FAdd => float(|a, b| a + b),
        Bin::FMul => float(|a, b| a * b),
        Bin::FMin => float(f32::min),
        Bin::FMax => float(f32::max),
        _ => a,
    }
}

fn identity(op: Bin, ty: Number) -> u32 {
    let m = width_mask(ty);
    let float = |f32_bits, f16_bits| if ty == Number::F16 { f16_bits } else { f32_bits };
    match op {
        Bin::IMul => 1,
        Bin::UMin | Bin::And => m,
        Bin::SMin => m >> 1,
        Bin::SMax => m ^ (m >> 1),
        Bin::FMul => float(0x3f80_0000, 0x3c00),
        Bin::FMin => float(0x7f80_0000, 0x7c00),
        Bin::FMax => float(0xff80_0000, 0xfc00),
        _ => 0,
    }
}
