//! Memory as a dispatch sees it: bound ranges, workgroup memory, push constants, and the checks on each access.

use super::lanes::{Lanes, MAX_LANES, bits};
use crate::{
    buffers::Buffer,
    counters::Counters,
    number::Number,
    program::{Access, Chain, Dim, Inst, Len, Program},
    race::{Cell, Clock, Conflict, Shadow, Visit},
    trap::{Fault, TrapKind},
};

/// A bound range.
#[derive(Debug)]
pub(crate) struct View {
    /// Index into [`Memory::buffers`].
    pub(crate) buffer: usize,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// How a message names the binding.
    pub(crate) name: String,
}

/// The memory of one dispatch.
#[derive(Debug)]
pub(crate) struct Memory<'a> {
    pub(crate) buffers: Vec<Buffer>,
    /// One per buffer that the kernel stores to.
    pub(crate) shadows: Vec<Option<Shadow>>,
    /// One per binding of the program.
    pub(crate) views: Vec<View>,
    pub(crate) push: &'a [u8],
    pub(crate) workgroup: Vec<u32>,
    pub(crate) cells: Vec<Cell>,
    /// Order among accesses to buffers.
    pub(crate) buffer_clock: Clock,
    /// Order among accesses to workgroup memory.
    pub(crate) workgroup_clock: Clock,
    pub(crate) now: u32,
}

/// The offsets of the active lanes' accesses.
pub(crate) enum Offsets<'a> {
    Same(u32),
    Each(&'a [u32], u32),
}

impl Offsets<'_> {
    #[inline(always)]
    pub(super) fn at(&self, lane: usize) -> usize {
        match self {
            Offsets::Same(o) => *o as usize,
            Offsets::Each(row, o) => row[lane] as usize + *o as usize,
        }
    }
}

/// Reads a little-endian scalar of 1, 2 or 4 bytes.
#[inline(always)]
pub(crate) fn scalar(bytes: &[u8], at: usize, n: usize) -> Option<u32> {
    match n {
        4 => bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes),
        2 => bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map(|b| u16::from_le_bytes(b).into()),
        _ => bytes.get(at).map(|&b| b.into()),
    }
}

/// dst ← the offset of a chain; a lane with an index past its array's length gets the greatest number.
pub(crate) fn chain(l: &mut Lanes, m: &Memory<'_>, p: &Program, i: &Inst) {
    let chain = &p.chains[i.a as usize];
    let mut out = [0; MAX_LANES];
    let (mut undefined, mut wrapped) = (0, 0);
    if let Some(base) = chain.base {
        out[..l.width()].copy_from_slice(l.row(base));
        (undefined, wrapped) = (l.undefined[base as usize], l.wrapped[base as usize]);
    }
    for d in &chain.dims {
        let len = length(m, d);
        undefined |= l.undefined[d.index as usize];
        wrapped |= l.wrapped[d.index as usize];
        for (o, &index) in out.iter_mut().zip(l.row(d.index)) {
            let index = ((index << d.sign_shift) as i32 >> d.sign_shift) as u32;
            let sum = o.wrapping_add(index.wrapping_mul(d.stride));
            *o = if index < len && *o != u32::MAX { sum } else { u32::MAX };
        }
    }
    l.put(i.dst, &out, undefined, wrapped);
}

/// Elements of the array that `d` indexes; of a runtime array as many as begin inside the range.
fn length(m: &Memory<'_>, d: &Dim) -> u32 {
    match d.len {
        Len::Fixed(n) => n,
        Len::Runtime { binding, offset } => {
            let room = m.views[binding as usize].bytes.saturating_sub(offset as usize);
            room.div_ceil(d.stride as usize) as u32
        }
    }
}

/// Refuses addresses that are undefined, wrapped, or past an array's end.
#[inline]
pub(crate) fn address(
    l: &Lanes,
    m: &Memory<'_>,
    p: &Program,
    pointer: u32,
    at: Option<u32>,
) -> Result<(), Fault> {
    let (undefined, wrapped) =
        (l.undefined[pointer as usize] & l.active, l.wrapped[pointer as usize] & l.active);
    if undefined != 0 {
        let detail = "the address comes from an uninitialized value";
        return Err(Fault::new(TrapKind::Uninitialized, undefined.trailing_zeros(), detail));
    }
    if wrapped != 0 {
        let lane = wrapped.trailing_zeros();
        let indices = at.map_or(String::new(), |c| indices(l, &p.chains[c as usize], lane));
        let detail = format!("the address comes from 32-bit arithmetic that wrapped{indices}");
        return Err(Fault::new(TrapKind::IndexWrap, lane, detail));
    }
    let past = l.which(pointer, pointer, |o, _| o == u32::MAX) & l.active;
    if past != 0 {
        let lane = past.trailing_zeros();
        return Err(Fault::new(TrapKind::OutOfBounds, lane, past_end(l, m, p, at, lane)));
    }
    Ok(())
}

fn indices(l: &Lanes, chain: &Chain, lane: u32) -> String {
    let list = chain.dims.iter().map(|d| format!(" {}", l.row(d.index)[lane as usize]));
    format!(", index{}", list.collect::<String>())
}

fn past_end(l: &Lanes, m: &Memory<'_>, p: &Program, at: Option<u32>, lane: u32) -> String {
    let dims = at.map(|c| p.chains[c as usize].dims.as_slice()).unwrap_or_default();
    let over = dims.iter().find(|d| l.row(d.index)[lane as usize] >= length(m, d));
    match over {
        Some(d) => format!("index {} of an array of {}", l.row(d.index)[lane as usize], length(m, d)),
        None => "an index is past the end of its array".to_owned(),
    }
}

pub(crate) fn offsets<'l>(
    l: &'l Lanes,
    m: &Memory<'_>,
    p: &Program,
    a: &Access,
) -> Result<Offsets<'l>, Fault> {
    match a.pointer {
        Some(pointer) => {
            address(l, m, p, pointer, a.chain)?;
            Ok(Offsets::Each(l.row(pointer), a.offset))
        }
        None => Ok(Offsets::Same(a.offset)),
    }
}

pub(super) fn visit(a: &Access, invocation: u32, word: u32, now: u32) -> Visit {
    let (private, available, visible) = (a.private, a.available, a.visible);
    Visit { invocation, word, now, private, available, visible, atomic: false }
}

impl Memory<'_> {
    pub(super) fn range_fault(&self, a: &Access, lane: usize, at: usize) -> Fault {
        let (v, end) = (&self.views[a.binding as usize], at + a.bytes as usize);
        let detail = format!("bytes {at}..{end} of {}, whose range has {} bytes", v.name, v.bytes);
        Fault::new(TrapKind::OutOfBounds, lane as u32, detail)
    }

    pub(crate) fn conflict(&self, c: Conflict, clock: &Clock, lane: usize, place: &str) -> RaceReport {
        let weak = clock.ineffective.filter(|i| i.time >= c.other_time).map(|i| (i.word, i.why));
        RaceReport { conflict: c, lane: lane as u32, place: place.to_owned(), weak }
    }

    pub(crate) fn load_buffer(
        &mut self,
        l: &mut Lanes,
        p: &Program,
        i: &Inst,
        first: u32,
        n: &mut Counters,
    ) -> Result<(), Stop> {
        let a = &p.accesses[i.c as usize];
        let offsets = offsets(l, self, p, a)?;
        let v = &self.views[a.binding as usize];
        let buffer = &self.buffers[v.buffer];
        let (range, size) = (&buffer.bytes[v.start..v.start + v.bytes], a.bytes as usize);
        let (mut out, mut past) = ([0; MAX_LANES], 0);
        match &offsets {
            Offsets::Same(o) => match scalar(range, *o as usize, size) {
                Some(value) => out = [value; MAX_LANES],
                None => past = u64::MAX,
            },
            Offsets::Each(row, o) => {
                let read = |at| scalar(range, at, size);
                for (k, (out, &at)) in out.iter_mut().zip(*row).enumerate() {
                    match read(at as usize + *o as usize) {
                        Some(value) => *out = value,
                        None => past |= 1 << k,
                    }
                }
            }
        }
        if past & l.active != 0 {
            let lane = (past & l.active).trailing_zeros() as usize;
            return Err(self.range_fault(a, lane, offsets.at(lane)).into());
        }
        let mut undefined = 0;
        if !buffer.is_defined() {
            for k in bits(l.active) {
                undefined |= u64::from(!buffer.defined(v.start + offsets.at(k), size)) << k;
            }
        }
        if let Some(shadow) = &mut self.shadows[v.buffer] {
            for k in bits(l.active) {
                let (at, visit) = (v.start + offsets.at(k), visit(a, first + k as u32, i.word, self.now));
                let clock = &self.buffer_clock;
                if let Err(c) = shadow.visit(at, size, |cell| clock.load(cell, &visit)) {
                    return Err(self.conflict(c, clock, k, &v.name).into());
                }
            }
        }
        n.buffers.load(l.active.count_ones(), a.bytes);
        l.put(i.dst, &out, undefined, 0);
        Ok(())
    }

    pub(crate) fn store_buffer(
        &mut self,
        l: &Lanes,
        p: &Program,
        i: &Inst,
        first: u32,
        n: &mut Counters,
    ) -> Result<(), Stop> {
        let a = &p.accesses[i.c as usize];
        let offsets = offsets(l, self, p, a)?;
        let undefined = l.undefined[i.a as usize] & l.active;
        if undefined != 0 {
            let detail =
                format!("an uninitialized value is stored to {}", self.views[a.binding as usize].name);
            return Err(Fault::new(TrapKind::Uninitialized, undefined.trailing_zeros(), detail).into());
        }
        let (size, row) = (a.bytes as usize, l.row(i.a));
        for k in bits(l.active) {
            let (at, v) = (offsets.at(k), &self.views[a.binding as usize]);
            if at + size > v.bytes {
                return Err(self.range_fault(a, k, at).into());
            }
            let at = v.start + at;
            if let Some(shadow) = &mut self.shadows[v.buffer] {
                let (visit, clock) = (visit(a, first + k as u32, i.word, self.now), &self.buffer_clock);
                if let Err(c) = shadow.visit(at, size, |cell| clock.store(cell, &visit, false)) {
                    return Err(self.conflict(c, clock, k, &v.name).into());
                }
            }
            let buffer = &mut self.buffers[v.buffer];
            buffer.bytes[at..at + size].copy_from_slice(&row[k].to_le_bytes()[..size]);
            buffer.define(at, size);
        }
        n.buffers.store(l.active.count_ones(), a.bytes);
        Ok(())
    }

    pub(crate) fn load_workgroup(
        &mut self,
        l: &mut Lanes,
        p: &Program,
        i: &Inst,
        first: u32,
        n: &mut Counters,
    ) -> Result<(), Stop> {
        let a = &p.accesses[i.c as usize];
        let offsets = offsets(l, self, p, a)?;
        let (mut out, mut undefined, clock) = ([0; MAX_LANES], 0, &self.workgroup_clock);
        for k in bits(l.active) {
            let at = offsets.at(k);
            let Some(cell) = self.cells.get_mut(at) else { return Err(past_workgroup(k).into()) };
            undefined |= u64::from(!clock.defined(cell)) << k;
            if let Err(c) = clock.load(cell, &visit(a, first + k as u32, i.word, self.now)) {
                return Err(self.conflict(c, clock, k, "workgroup memory").into());
            }
            out[k] = self.workgroup[at];
        }
        n.workgroup.load(l.active.count_ones(), a.bytes);
        l.put(i.dst, &out, undefined, 0);
        Ok(())
    }

    pub(crate) fn store_workgroup(
        &mut self,
        l: &Lanes,
        p: &Program,
        i: &Inst,
        first: u32,
        n: &mut Counters,
    ) -> Result<(), Stop> {
        let a = &p.accesses[i.c as usize];
        let offsets = offsets(l, self, p, a)?;
        let (row, unknown, clock) = (l.row(i.a), l.undefined[i.a as usize], &self.workgroup_clock);
        for k in bits(l.active) {
            let at = offsets.at(k);
            let Some(cell) = self.cells.get_mut(at) else { return Err(past_workgroup(k).into()) };
            let visit = visit(a, first + k as u32, i.word, self.now);
            if let Err(c) = clock.store(cell, &visit, unknown >> k & 1 != 0) {
                return Err(self.conflict(c, clock, k, "workgroup memory").into());
            }
            self.workgroup[at] = row[k];
        }
        n.workgroup.store(l.active.count_ones(), a.bytes);
        Ok(())
    }

    pub(crate) fn load_push(
        &self,
        l: &mut Lanes,
        p: &Program,
        i: &Inst,
        n: &mut Counters,
    ) -> Result<(), Fault> {
        let a = &p.accesses[i.c as usize];
        let offsets = offsets(l, self, p, a)?;
        let mut out = [0; MAX_LANES];
        for k in bits(l.active) {
            let at = offsets.at(k);
            out[k] = scalar(self.push, at, a.bytes as usize).ok_or_else(|| {
                let (end, given) = (at + a.bytes as usize, self.push.len());
                let detail =
                    format!("bytes {at}..{end} of the push constants, of which {given} bytes were given");
                Fault::new(TrapKind::OutOfBounds, k as u32, detail)
            })?;
        }
        n.push.load(l.active.count_ones(), a.bytes);
        l.put(i.dst, &out, 0, 0);
        Ok(())
    }

    pub(crate) fn array_length(&self, l: &mut Lanes, i: &Inst) {
        let room = self.views[i.c as usize].bytes.saturating_sub(i.b as usize);
        l.put(i.dst, &[(room / i.a as usize) as u32; MAX_LANES], 0, 0);
    }

    /// dst ← slot a + offset b.
    pub(crate) fn load_indexed(&self, l: &mut Lanes, p: &Program, i: &Inst) -> Result<(), Fault> {
        address(l, self, p, i.b, Some(i.c))?;
        let (mut out, mut undefined, mut wrapped) = ([0; MAX_LANES], 0, 0);
        for k in bits(l.active) {
            let slot = i.a + l.row(i.b)[k];
            out[k] = l.row(slot)[k];
            undefined |= l.undefined[slot as usize] & 1 << k;
            wrapped |= l.wrapped[slot as usize] & 1 << k;
        }
        l.put(i.dst, &out, undefined, wrapped);
        Ok(())
    }

    /// slot dst + offset b ← a.
    pub(crate) fn store_indexed(&self, l: &mut Lanes, p: &Program, i: &Inst) -> Result<(), Fault> {
        address(l, self, p, i.b, Some(i.c))?;
        let (active, mut row) = (l.active, [0; MAX_LANES]);
        row[..l.width()].copy_from_slice(l.row(i.a));
        let (undefined, wrapped) = (l.undefined[i.a as usize], l.wrapped[i.a as usize]);
        for k in bits(active) {
            let slot = i.dst + l.row(i.b)[k];
            l.active = 1 << k;
            l.put(slot, &row, undefined, wrapped);
        }
        l.active = active;
        Ok(())
    }
}

pub(super) fn past_workgroup(lane: usize) -> Fault {
    Fault::new(TrapKind::OutOfBounds, lane as u32, "past the end of the workgroup memory")
}

/// Bytes a variable's scalar counts as.
pub(crate) fn counted_bytes(ty: Number) -> u32 {
    ty.bytes().max(1)
}

/// A race with what the message needs; the scheduler knows the source places and the workgroups' times.
#[derive(Debug)]
pub(crate) struct RaceReport {
    pub(crate) conflict: Conflict,
    pub(crate) lane: u32,
    pub(crate) place: String,
    /// A barrier since the other access that did not order the two: its word, and why not.
    pub(crate) weak: Option<(u32, &'static str)>,
}

/// Why a subgroup stops for good.
#[derive(Debug)]
pub(crate) enum Stop {
    Fault(Fault),
    Race(Box<RaceReport>),
}

impl From<Fault> for Stop {
    fn from(f: Fault) -> Self {
        Stop::Fault(f)
    }
}

impl From<RaceReport> for Stop {
    fn from(r: RaceReport) -> Self {
        Stop::Race(Box::new(r))
    }
}
