//! Matrices in memory: bounds, races and definedness of each element, and rows or columns at a stride.

use std::collections::HashMap;

use super::{
    super::memory::{self, Stop},
    Failed, Matrix, Together,
    elements::name,
    fault,
};
use crate::{
    matrix::{Lines, Shape, Source},
    program::Access,
    race::Visit,
    trap::{Fault, TrapKind},
};

/// Where a matrix begins: a byte of a binding's range, or a scalar of workgroup memory.
#[derive(Clone, Copy)]
pub(super) struct Base(pub(super) usize);

impl Together<'_, '_> {
    /// The place that the source's pointer means in every lane.
    pub(super) fn base(&self, source: &Source) -> Result<Base, Failed> {
        let access = &self.p.accesses[source.access as usize];
        for (index, s) in self.parties.iter().enumerate() {
            memory::offsets(&s.lanes, &self.m.memory, self.p, access).map_err(|f| (index, f.into()))?;
        }
        let dynamic = access.pointer.map(|slot| self.uniform(slot)).transpose()?;
        Ok(Base(dynamic.unwrap_or(0) as usize + access.offset as usize))
    }

    /// Refuses a pointer, or a distance of lines, that is no multiple of `align` bytes.
    pub(super) fn aligned(&self, what: &str, bytes: u64, align: u64) -> Result<(), Failed> {
        if bytes.is_multiple_of(align) {
            return Ok(());
        }
        let detail = format!("{what} at byte {bytes}, which has to be a multiple of {align}");
        Err(fault(TrapKind::Matrix, detail))
    }

    fn visit(&self, access: &Access, shape: &Shape, e: usize) -> Visit {
        Visit {
            invocation: self.toucher(shape, e),
            word: self.word,
            now: self.m.memory.now,
            private: access.private,
            available: access.available,
            visible: access.visible,
            atomic: false,
        }
    }

    fn past(&self, source: &Source, shape: &Shape, e: usize, at: u64) -> Failed {
        let access = &self.p.accesses[source.access as usize];
        let (end, place) = (at.saturating_add(access.bytes.into()), name(shape, e));
        let detail = if source.workgroup {
            format!("{place}: bytes {at}..{end} behind the pointer leave the workgroup variable")
        } else {
            let v = &self.m.memory.views[access.binding as usize];
            format!("{place}: bytes {at}..{end} of {}, whose range has {} bytes", v.name, v.bytes)
        };
        fault(TrapKind::OutOfBounds, detail)
    }

    /// Reads each element that has a place: bytes behind the base.
    pub(super) fn gather(
        &mut self,
        source: &Source,
        base: Base,
        shape: &Shape,
        places: impl Iterator<Item = (usize, u64)>,
        out: &mut Matrix,
    ) -> Result<(), Failed> {
        let access = self.p.accesses[source.access as usize];
        let size = access.bytes as usize;
        let mut count = 0;
        for (e, at) in places {
            count += 1;
            let (value, undefined) = if source.workgroup {
                self.read_workgroup(source, &access, base, shape, e, at)?
            } else {
                let v = &self.m.memory.views[access.binding as usize];
                let (first, end) = (base.0 as u64 + at, v.bytes as u64);
                if first + size as u64 > end {
                    return Err(self.past(source, shape, e, first));
                }
                let (index, first) = (v.buffer, v.start + first as usize);
                if self.m.memory.shadows[index].is_some() {
                    let visit = self.visit(&access, shape, e);
                    self.check(index, first, size, &visit, access.binding, false)?;
                }
                let buffer = &self.m.memory.buffers[index];
                let value = memory::scalar(&buffer.bytes, first, size).unwrap_or(0);
                (value, !buffer.defined(first, size))
            };
            out.set(e, value, undefined);
        }
        let traffic =
            if source.workgroup { &mut self.m.counters.workgroup } else { &mut self.m.counters.buffers };
        traffic.load(count, access.bytes);
        Ok(())
    }

    /// Checks one access to a buffer that the kernel stores to.
    fn check(
        &mut self,
        buffer: usize,
        first: usize,
        size: usize,
        visit: &Visit,
        binding: u32,
        stores: bool,
    ) -> Result<(), Failed> {
        let m = &mut self.m.memory;
        let clock = &m.buffer_clock;
        let Some(shadow) = &mut m.shadows[buffer] else { return Ok(()) };
        let seen = shadow.visit(first, size, |cell| {
            if stores { clock.store(cell, visit, false) } else { clock.load(cell, visit) }
        });
        let Err(c) = seen else { return Ok(()) };
        let stop = m.conflict(c, &m.buffer_clock, 0, &m.views[binding as usize].name).into();
        Err(self.raced(visit, stop))
    }

    /// The failure of the subgroup whose invocation it was.
    fn raced(&self, visit: &Visit, mut stop: Stop) -> Failed {
        let owner = self.parties.iter().rposition(|s| s.first <= visit.invocation).unwrap_or(0);
        if let Stop::Race(r) = &mut stop {
            r.lane = visit.invocation.saturating_sub(self.parties[owner].first);
        }
        (owner, stop)
    }

    /// The scalars of workgroup memory that `size` bytes at byte `at` behind the base lie in, and the first one's byte.
    fn cells(
        &self,
        source: &Source,
        base: Base,
        shape: &Shape,
        e: usize,
        at: u64,
        size: u32,
    ) -> Result<(std::ops::Range<usize>, u32), Failed> {
        let s = u64::from(source.scalar_bytes);
        let (first, last) = (base.0 as u64 + at / s, base.0 as u64 + (at + u64::from(size) - 1) / s);
        if last >= u64::from(source.end) {
            return Err(self.past(source, shape, e, at));
        }
        Ok((first as usize..last as usize + 1, (at % s) as u32))
    }

    fn read_workgroup(
        &mut self,
        source: &Source,
        access: &Access,
        base: Base,
        shape: &Shape,
        e: usize,
        at: u64,
    ) -> Result<(u32, bool), Failed> {
        let (cells, skip) = self.cells(source, base, shape, e, at, access.bytes)?;
        let (visit, m) = (self.visit(access, shape, e), &mut self.m.memory);
        let (mut value, mut undefined, mut shift) = (0u64, false, 0);
        for i in cells {
            undefined |= !m.workgroup_clock.defined(&m.cells[i]);
            if let Err(c) = m.workgroup_clock.load(&mut m.cells[i], &visit) {
                let stop = m.conflict(c, &m.workgroup_clock, 0, "workgroup memory").into();
                return Err(self.raced(&visit, stop));
            }
            value |= u64::from(m.workgroup[i]) << shift;
            shift += 8 * source.scalar_bytes;
        }
        let mask = u64::MAX >> (64 - 8 * access.bytes);
        Ok(((value >> (8 * skip) & mask) as u32, undefined))
    }

    /// Writes each element that has a place: bytes behind the base.
    pub(super) fn scatter(
        &mut self,
        source: &Source,
        base: Base,
        shape: &Shape,
        places: impl Iterator<Item = (usize, u64)> + Clone,
        from: &Matrix,
    ) -> Result<(), Failed> {
        let access = self.p.accesses[source.access as usize];
        let size = access.bytes as usize;
        let scalars = if source.workgroup && access.bytes < source.scalar_bytes {
            self.scalars(source, base, shape, places.clone(), from)?
        } else {
            HashMap::new()
        };
        let mut count = 0;
        for (e, at) in places {
            count += 1;
            if source.workgroup {
                self.write_workgroup(source, &access, base, shape, (e, at), from, &scalars)?;
                continue;
            }
            let v = &self.m.memory.views[access.binding as usize];
            if from.unknown(e) {
                let detail = format!("{}: an uninitialized element is stored to {}", name(shape, e), v.name);
                return Err(fault(TrapKind::Uninitialized, detail));
            }
            let (first, end) = (base.0 as u64 + at, v.bytes as u64);
            if first + size as u64 > end {
                return Err(self.past(source, shape, e, first));
            }
            let (index, first) = (v.buffer, v.start + first as usize);
            let visit = self.visit(&access, shape, e);
            self.check(index, first, size, &visit, access.binding, true)?;
            let buffer = &mut self.m.memory.buffers[index];
            buffer.bytes[first..first + size].copy_from_slice(&from.bits[e].to_le_bytes()[..size]);
            buffer.define(first, size);
        }
        let traffic =
            if source.workgroup { &mut self.m.counters.workgroup } else { &mut self.m.counters.buffers };
        traffic.store(count, access.bytes);
        Ok(())
    }

    /// The scalars of workgroup memory that narrower elements go into, each with whether it is undefined afterwards: an
    /// element is, or a part that nothing wrote stays.
    fn scalars(
        &self,
        source: &Source,
        base: Base,
        shape: &Shape,
        places: impl Iterator<Item = (usize, u64)>,
        from: &Matrix,
    ) -> Result<HashMap<usize, bool>, Failed> {
        let (mut parts, size): (HashMap<usize, (u32, bool)>, _) = (HashMap::new(), shape.elem.bytes());
        for (e, at) in places {
            let (cells, _) = self.cells(source, base, shape, e, at, size)?;
            for i in cells {
                let (bytes, unknown) = parts.entry(i).or_default();
                *bytes += size;
                *unknown |= from.unknown(e);
            }
        }
        let m = &self.m.memory;
        let known = |i: usize| m.workgroup_clock.defined(&m.cells[i]);
        let after = |(i, (bytes, unknown))| (i, unknown || bytes < source.scalar_bytes && !known(i));
        Ok(parts.into_iter().map(after).collect())
    }

    #[allow(clippy::too_many_arguments)]
    fn write_workgroup(
        &mut self,
        source: &Source,
        access: &Access,
        base: Base,
        shape: &Shape,
        (e, at): (usize, u64),
        from: &Matrix,
        scalars: &HashMap<usize, bool>,
    ) -> Result<(), Failed> {
        let (cells, skip) = self.cells(source, base, shape, e, at, access.bytes)?;
        // Elements that share a scalar are one invocation's, or they would race with each other.
        let who = if access.bytes < source.scalar_bytes { cells.start } else { e };
        let visit = self.visit(access, shape, who);
        let m = &mut self.m.memory;
        let mut rest = u64::from(from.bits[e]) << (8 * skip);
        let mut mask = (u64::MAX >> (64 - 8 * access.bytes)) << (8 * skip);
        let whole = u64::MAX >> (64 - 8 * source.scalar_bytes);
        for i in cells {
            let undefined = scalars.get(&i).copied().unwrap_or(from.unknown(e));
            if let Err(c) = m.workgroup_clock.store(&mut m.cells[i], &visit, undefined) {
                let stop = m.conflict(c, &m.workgroup_clock, 0, "workgroup memory").into();
                return Err(self.raced(&visit, stop));
            }
            let kept = u64::from(m.workgroup[i]) & !mask;
            m.workgroup[i] = (kept | rest & mask & whole) as u32;
            rest >>= 8 * source.scalar_bytes;
            mask >>= 8 * source.scalar_bytes;
        }
        Ok(())
    }

    /// Bytes between lines, after the checks on pointer and stride.
    fn pitch(&self, shape: &Shape, source: &Source, base: Base, lines: &Lines) -> Result<u64, Failed> {
        let (pitch, size) = (
            u64::from(self.uniform(lines.stride)?) * u64::from(lines.step_bytes),
            u64::from(shape.elem.bytes()),
        );
        let line = u64::from(if lines.column_major { shape.rows } else { shape.cols }) * size;
        let align = 16.min(line);
        self.aligned("the lines of a matrix begin a stride apart,", pitch, align)?;
        if !source.workgroup {
            self.aligned("a matrix begins", base.0 as u64, align)?;
        }
        Ok(pitch)
    }

    fn places(
        shape: &Shape,
        lines: &Lines,
        pitch: u64,
    ) -> impl Iterator<Item = (usize, u64)> + Clone + use<> {
        let (size, cols, column_major) =
            (u64::from(shape.elem.bytes()), shape.cols as usize, lines.column_major);
        (0..shape.len()).map(move |e| {
            let (row, col) = ((e / cols) as u64, (e % cols) as u64);
            let (line, i) = if column_major { (col, row) } else { (row, col) };
            (e, line * pitch + i * size)
        })
    }

    pub(super) fn load_lines(
        &mut self,
        shape: Shape,
        from: &Source,
        lines: &Lines,
    ) -> Result<Matrix, Failed> {
        let base = self.base(from)?;
        let pitch = self.pitch(&shape, from, base, lines)?;
        let mut out = Matrix::splat(shape.len(), Some(0));
        self.gather(from, base, &shape, Self::places(&shape, lines, pitch), &mut out)?;
        Ok(out)
    }

    pub(super) fn store_lines(
        &mut self,
        shape: Shape,
        to: &Source,
        lines: &Lines,
        from: &Matrix,
    ) -> Result<(), Failed> {
        let base = self.base(to)?;
        let pitch = self.pitch(&shape, to, base, lines)?;
        if pitch == 0 {
            let detail = "a matrix is stored with a stride of 0".to_owned();
            return Err((0, Fault::new(TrapKind::Matrix, 0, detail).into()));
        }
        self.scatter(to, base, &shape, Self::places(&shape, lines, pitch), from)
    }
}
