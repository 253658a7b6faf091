//! Atomic accesses: lane after lane, each one step.

use super::{
    exchange::apply,
    lanes::{Lanes, MAX_LANES, bits},
    memory::{Memory, Stop, offsets, past_workgroup, visit},
};
use crate::{
    counters::Counters,
    order::Spot,
    program::{Access, Atomic, Inst, Program},
    race::Visit,
    trap::{Fault, TrapKind},
};

/// What is there afterwards; `None` leaves it.
fn next(what: Atomic, i: &Inst, old: u32, [a, b]: [u32; 2]) -> Option<u32> {
    match what {
        Atomic::Load => None,
        Atomic::Store | Atomic::Exchange => Some(a),
        Atomic::CompareExchange => (old == b).then_some(a),
        Atomic::Combine(op) => Some(apply(op, i.ty, old, a)),
    }
}

fn known(l: &Lanes, i: &Inst, what: Atomic) -> Result<(), Fault> {
    let b = if what == Atomic::CompareExchange { l.undefined[i.b as usize] } else { 0 };
    let a = if what == Atomic::Load { 0 } else { l.undefined[i.a as usize] };
    let unknown = (a | b) & l.active;
    if unknown != 0 {
        let detail = "an atomic operation takes an uninitialized value";
        return Err(Fault::new(TrapKind::Uninitialized, unknown.trailing_zeros(), detail));
    }
    Ok(())
}

fn uninitialized(lane: usize, place: &str) -> Fault {
    let detail = format!("an atomic operation on uninitialized bytes of {place}");
    Fault::new(TrapKind::Uninitialized, lane as u32, detail)
}

fn operands(l: &Lanes, i: &Inst, lane: usize) -> [u32; 2] {
    [l.row(i.a)[lane], l.row(i.b)[lane]]
}

fn count(n: &mut crate::counters::Traffic, what: Atomic, lanes: u32, bytes: u32) {
    if what != Atomic::Store {
        n.load(lanes, bytes);
    }
    if what != Atomic::Load {
        n.store(lanes, bytes);
    }
}

impl Memory<'_> {
    /// What an atomic at `spot`, which has stored or not, orders beside itself.
    fn order_atomic(
        &mut self,
        p: &Program,
        a: &Access,
        (spot, what, stored): (Spot, Atomic, bool),
        visit: &Visit,
    ) {
        let (semantics, reads) = (a.orders[usize::from(!stored)], what != Atomic::Store);
        for clock in [&mut self.buffer_clock, &mut self.workgroup_clock] {
            if reads {
                clock.acquire(spot, semantics, p.vulkan_model, visit);
            }
            if stored {
                clock.release(spot, semantics, (p.vulkan_model, reads), visit);
            }
        }
        self.now += u32::from(stored && semantics.0 != 0);
    }

    pub(crate) fn atomic_buffer(
        &mut self,
        l: &mut Lanes,
        p: &Program,
        i: &Inst,
        what: Atomic,
        (first, n): (u32, &mut Counters),
    ) -> Result<(), Stop> {
        known(l, i, what)?;
        let (a, mut out) = (&p.accesses[i.c as usize], [0; MAX_LANES]);
        let offsets = offsets(l, self, p, a)?;
        for k in bits(l.active) {
            let (at, v) = (offsets.at(k), &self.views[a.binding as usize]);
            if at + 4 > v.bytes {
                return Err(self.range_fault(a, k, at).into());
            }
            let at = v.start + at;
            let visit = Visit { atomic: true, ..visit(a, first + k as u32, i.word, self.now) };
            let spot = Spot::Buffer(v.buffer, at);
            if let Some(shadow) = &mut self.shadows[v.buffer] {
                let clock = &self.buffer_clock;
                let seen = match what {
                    Atomic::Load => shadow.visit(at, 4, |cell| clock.load(cell, &visit)),
                    _ => shadow.visit(at, 4, |cell| clock.store(cell, &visit, false)),
                };
                if let Err(c) = seen {
                    return Err(self.conflict(c, clock, k, &v.name).into());
                }
            }
            let buffer = &mut self.buffers[v.buffer];
            if what != Atomic::Store && !buffer.is_defined() && !buffer.defined(at, 4) {
                return Err(uninitialized(k, &v.name).into());
            }
            let word = &mut buffer.bytes[at..at + 4];
            let old = word.iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte));
            out[k] = old;
            let new = next(what, i, old, operands(l, i, k));
            if let Some(new) = new {
                word.copy_from_slice(&new.to_le_bytes());
                buffer.define(at, 4);
            }
            self.order_atomic(p, a, (spot, what, new.is_some()), &visit);
        }
        count(&mut n.buffers, what, l.active.count_ones(), 4);
        l.put(i.dst, &out, 0, 0);
        Ok(())
    }

    pub(crate) fn atomic_workgroup(
        &mut self,
        l: &mut Lanes,
        p: &Program,
        i: &Inst,
        what: Atomic,
        (first, n): (u32, &mut Counters),
    ) -> Result<(), Stop> {
        known(l, i, what)?;
        let (a, mut out) = (&p.accesses[i.c as usize], [0; MAX_LANES]);
        let offsets = offsets(l, self, p, a)?;
        for k in bits(l.active) {
            let (at, clock) = (offsets.at(k), &self.workgroup_clock);
            let visit = Visit { atomic: true, ..visit(a, first + k as u32, i.word, self.now) };
            let spot = Spot::Workgroup(at);
            let Some(cell) = self.cells.get_mut(at) else { return Err(past_workgroup(k).into()) };
            if what != Atomic::Store && !clock.defined(cell) {
                return Err(uninitialized(k, "workgroup memory").into());
            }
            let seen = match what {
                Atomic::Load => clock.load(cell, &visit),
                _ => clock.store(cell, &visit, false),
            };
            if let Err(c) = seen {
                return Err(self.conflict(c, clock, k, "workgroup memory").into());
            }
            out[k] = self.workgroup[at];
            let new = next(what, i, out[k], operands(l, i, k));
            if let Some(new) = new {
                self.workgroup[at] = new;
            }
            self.order_atomic(p, a, (spot, what, new.is_some()), &visit);
        }
        count(&mut n.workgroup, what, l.active.count_ones(), 4);
        l.put(i.dst, &out, 0, 0);
        Ok(())
    }
}
