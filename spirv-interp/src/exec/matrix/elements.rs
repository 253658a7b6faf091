//! Element by element: arithmetic and conversions, and each invocation's access to the elements it holds.

use super::{
    super::{
        Machine, Subgroup, arithmetic,
        lanes::{Lanes, MAX_LANES, bits},
        memory::{self, Stop},
    },
    Failed, File, Matrix, Together, fault, register,
};
use crate::{
    matrix::{MatrixOp, Place, Reg, Shape},
    number::Number,
    program::{Inst, Kind, Program, Slot},
    trap::{Fault, TrapKind},
};

/// Where element `index` of the invocation at `position` is, of `n` invocations.
fn own(order: &[u32], position: u32, n: u32, index: u32) -> Result<usize, String> {
    let at = u64::from(index) * u64::from(n) + u64::from(position);
    let found = order.get(usize::try_from(at).unwrap_or(usize::MAX)).map(|&e| e as usize);
    found.ok_or_else(|| {
        format!("element {index} of the {} that the invocation holds", held(order, position, n))
    })
}

fn held(order: &[u32], position: u32, n: u32) -> u32 {
    (order.len() as u32).saturating_sub(position).div_ceil(n)
}

/// Length, and element access through a pointer, for the active lanes of a subgroup; its first is at `first` of `n`.
pub(super) fn access(
    s: &mut Subgroup,
    m: &mut Machine<'_>,
    p: &Program,
    op: &MatrixOp,
    file: &mut File,
    n: u32,
    first: u32,
) -> Result<(), Stop> {
    let l = &mut s.lanes;
    match *op {
        MatrixOp::Length { dst, shape } => {
            let (order, mut out) = (m.mappings.of(shape, n), [0; MAX_LANES]);
            for k in bits(l.active) {
                out[k] = held(&order, first + k as u32, n);
            }
            l.put(dst, &out, 0, 0);
        }
        MatrixOp::LoadElement { dst, from, index } => {
            let (mut out, mut undefined) = ([0; MAX_LANES], 0);
            m.counters.variables.load(l.active.count_ones(), element_bytes(p, &from));
            for k in bits(l.active) {
                let (reg, e) = locate(l, m, p, &from, index, k, n, first)?;
                let matrix = file.ready(p, reg);
                out[k] = matrix.bits[e];
                undefined |= u64::from(matrix.unknown(e)) << k;
            }
            l.put(dst, &out, undefined, 0);
        }
        MatrixOp::StoreElement { to, index, value } => {
            m.counters.variables.store(l.active.count_ones(), element_bytes(p, &to));
            for k in bits(l.active) {
                let (reg, e) = locate(l, m, p, &to, index, k, n, first)?;
                file.ready(p, reg).set(e, l.row(value)[k], l.undefined[value as usize] >> k & 1 != 0);
            }
        }
        _ => {}
    }
    Ok(())
}

fn element_bytes(p: &Program, place: &Place) -> u32 {
    p.registers[place.first as usize].elem.bytes()
}

/// The register and element that lane `k` means.
#[allow(clippy::too_many_arguments)]
fn locate(
    l: &Lanes,
    m: &mut Machine<'_>,
    p: &Program,
    place: &Place,
    index: Slot,
    k: usize,
    n: u32,
    first: u32,
) -> Result<(Reg, usize), Fault> {
    let lane = k as u32;
    let reg = match place.dynamic {
        None => place.first,
        Some(slot) => {
            memory::address(l, &m.memory, p, slot, place.chain)?;
            register(p, place, l.row(slot)[k]).map_err(|f| Fault { lane, ..f })?
        }
    };
    if l.undefined[index as usize] >> k & 1 != 0 {
        let detail = "the index of a matrix element comes from an uninitialized value";
        return Err(Fault::new(TrapKind::Uninitialized, lane, detail));
    }
    let order = m.mappings.of(p.registers[reg as usize], n);
    let e = own(&order, first + lane, n, l.row(index)[k]);
    Ok((reg, e.map_err(|detail| Fault::new(TrapKind::OutOfBounds, lane, detail))?))
}

/// How a message names element `e`.
pub(super) fn name(shape: &Shape, e: usize) -> String {
    format!("row {}, column {}", e / shape.cols as usize, e % shape.cols as usize)
}

impl Together<'_, '_> {
    pub(super) fn extract(&mut self, file: &mut File, dst: Slot, src: Reg, index: u32) -> Result<(), Failed> {
        let (shape, n) = (self.p.registers[src as usize], self.invocations());
        let (order, matrix) = (self.m.mappings.of(shape, n), file.ready(self.p, src));
        for party in 0..self.parties.len() {
            let first = self.first_position(party);
            let (l, mut out, mut undefined) = (&mut self.parties[party].lanes, [0; MAX_LANES], 0);
            for k in bits(l.exist) {
                let e = own(&order, first + k as u32, n, index);
                let e = e.map_err(|d| (party, Fault::new(TrapKind::OutOfBounds, k as u32, d).into()))?;
                out[k] = matrix.bits[e];
                undefined |= u64::from(matrix.unknown(e)) << k;
            }
            l.put(dst, &out, undefined, 0);
        }
        Ok(())
    }

    pub(super) fn insert(
        &mut self,
        file: &mut File,
        dst: Reg,
        src: Reg,
        object: Slot,
        index: u32,
    ) -> Result<(), Failed> {
        let (shape, n) = (self.p.registers[src as usize], self.invocations());
        let (order, mut matrix) = (self.m.mappings.of(shape, n), file.ready(self.p, src).clone());
        for (party, s) in self.parties.iter().enumerate() {
            let (l, first) = (&s.lanes, self.first_position(party));
            for k in bits(l.exist) {
                let e = own(&order, first + k as u32, n, index);
                let e = e.map_err(|d| (party, Fault::new(TrapKind::OutOfBounds, k as u32, d).into()))?;
                matrix.set(e, l.row(object)[k], l.undefined[object as usize] >> k & 1 != 0);
            }
        }
        file.put(dst, matrix);
        Ok(())
    }

    pub(super) fn elementwise(
        &mut self,
        file: &mut File,
        dst: Reg,
        kind: Kind,
        ty: Number,
        a: Reg,
        b: Option<Reg>,
    ) -> Result<(), Failed> {
        file.ready(self.p, a);
        if let Some(b) = b {
            file.ready(self.p, b);
        }
        let out = self.sweep(file.at(a), dst, kind, ty, |l, e, n| {
            if let Some(b) = b {
                fill(l, 1, file.at(b), e, n);
            }
        })?;
        file.put(dst, out);
        Ok(())
    }

    pub(super) fn scale(
        &mut self,
        file: &mut File,
        dst: Reg,
        kind: Kind,
        ty: Number,
        a: Reg,
        factor: Slot,
    ) -> Result<(), Failed> {
        let factor = self.same(factor)?;
        let undefined = if factor.is_none() { u64::MAX } else { 0 };
        let row = [factor.unwrap_or(0); MAX_LANES];
        file.ready(self.p, a);
        let out = self.sweep(file.at(a), dst, kind, ty, |l, _, _| l.put(1, &row, undefined, 0))?;
        file.put(dst, out);
        Ok(())
    }

    /// Runs `kind` over the elements of `a`, as many at a time as a row of lanes has; `second` sets the other operand.
    fn sweep(
        &mut self,
        a: &Matrix,
        dst: Reg,
        kind: Kind,
        ty: Number,
        second: impl Fn(&mut Lanes, usize, usize),
    ) -> Result<Matrix, Failed> {
        let (shape, len) = (self.p.registers[dst as usize], a.bits.len());
        let mut l = Lanes::new(MAX_LANES, 3, u64::MAX);
        let mut out = Matrix { bits: Vec::with_capacity(len), undefined: Vec::new() };
        let inst = Inst { kind, ty, dst: 2, a: 0, b: 1, c: 0, word: self.word };
        for e in (0..len).step_by(MAX_LANES) {
            let n = (len - e).min(MAX_LANES);
            l.active = u64::MAX >> (MAX_LANES - n);
            fill(&mut l, 0, a, e, n);
            second(&mut l, e, n);
            arithmetic(&mut l, &inst, &mut self.m.counters).map_err(|f| {
                let place = name(&shape, e + f.lane as usize);
                fault(f.kind, format!("{place}: {}", f.detail))
            })?;
            out.bits.extend_from_slice(&l.row(2)[..n]);
            let undefined = l.undefined[2] & l.active;
            if undefined != 0 && out.undefined.is_empty() {
                out.undefined = vec![false; len];
            }
            bits(undefined).for_each(|k| out.undefined[e + k] = true);
        }
        self.m.counters.lane_operations += len as u64;
        Ok(out)
    }

    pub(super) fn transpose(&mut self, file: &mut File, dst: Reg, src: Reg) {
        let shape = self.p.registers[src as usize];
        let (rows, cols) = (shape.rows as usize, shape.cols as usize);
        let from = file.ready(self.p, src);
        let turned = (0..cols).flat_map(|c| (0..rows).map(move |r| r * cols + c));
        let out = Matrix {
            bits: turned.clone().map(|e| from.bits[e]).collect(),
            undefined: if from.undefined.is_empty() {
                Vec::new()
            } else {
                turned.map(|e| from.undefined[e]).collect()
            },
        };
        file.put(dst, out);
    }
}

/// Puts elements `e..e + n` of `m` into a slot's lanes.
fn fill(l: &mut Lanes, slot: Slot, m: &Matrix, e: usize, n: usize) {
    let (mut row, mut undefined) = ([0; MAX_LANES], 0);
    row[..n].copy_from_slice(&m.bits[e..e + n]);
    if !m.undefined.is_empty() {
        undefined = (0..n).fold(0, |u, k| u | u64::from(m.undefined[e + k]) << k);
    }
    l.put(slot, &row, undefined, 0);
}
