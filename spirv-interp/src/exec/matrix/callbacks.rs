//! Functions called for a matrix's elements: as many calls at a time as a subgroup has lanes, each in one lane.

use super::{
    super::{
        State,
        convert::float,
        lanes::{MAX_LANES, bits},
    },
    Failed, File, Matrix, Together, fault,
    lines::Base,
    tensor::Spot,
};
use crate::{
    matrix::{Callback, Decoder, Extra, Reduction, Reg, Shape},
    options::ReduceOrder,
    trap::TrapKind,
};

/// A value and whether nothing wrote it.
type Known = (u32, bool);

impl Together<'_, '_> {
    /// Calls a function `n` times. `param` gives component `c` of parameter `p` of call `k`; the results come call by
    /// call, each with all its components.
    fn each(
        &mut self,
        call: &Callback,
        n: usize,
        param: impl Fn(usize, usize, usize) -> Known,
    ) -> Result<Vec<Known>, Failed> {
        let mut out = Vec::with_capacity(n * call.result.len());
        let (mut done, mut party) = (0, 0);
        while done < n {
            let lanes = self.parties[party].lanes.exist.count_ones() as usize;
            let here = (n - done).min(lanes);
            let active = u64::MAX >> (MAX_LANES - here);
            let s = &mut self.parties[party];
            let kept = (s.at, s.state, s.lanes.active, s.back);
            s.lanes.active = active;
            for (p, slots) in call.params.iter().enumerate() {
                for (c, &slot) in slots.iter().enumerate() {
                    let (mut row, mut undefined) = ([0; MAX_LANES], 0);
                    for (k, v) in row.iter_mut().take(here).enumerate() {
                        let known = param(done + k, p, c);
                        *v = known.0;
                        undefined |= u64::from(known.1) << k;
                    }
                    s.lanes.put(slot, &row, undefined, 0);
                }
            }
            (s.at, s.state) = (call.entry, State::Running);
            let waiting = std::mem::take(&mut s.waiting);
            // After a fault nothing is put back, so that the place is the callee's.
            s.advance(self.m, u64::MAX).map_err(|stop| (party, stop))?;
            s.waiting = waiting;
            (s.at, s.state, s.lanes.active, s.back) = kept;
            for k in bits(active) {
                for &slot in &call.result {
                    out.push((s.lanes.row(slot)[k], s.lanes.undefined[slot as usize] >> k & 1 != 0));
                }
            }
            done += here;
            party = (party + 1) % self.parties.len();
        }
        self.m.counters.matrices.calls += n as u64;
        Ok(out)
    }

    /// Calls a decode function for each spot; spots that are nowhere must not be among them.
    pub(super) fn decode_spots(
        &mut self,
        base: Base,
        spots: &[Spot],
        decoder: &Decoder,
    ) -> Result<Vec<Known>, Failed> {
        let (size, base) = (u64::from(decoder.block_bytes), base.0 as u64);
        self.each(&decoder.call, spots.len(), |k, p, c| {
            let Spot::At { block, inside, index } = spots[k] else { return (0, true) };
            let value = match p {
                // The greatest number stands for any place past the end.
                0 => u32::try_from(base.saturating_add(index.saturating_mul(size))).unwrap_or(u32::MAX),
                1 => block[c],
                _ => inside[c],
            };
            (value, false)
        })
    }

    /// Decodes each element that has a place.
    pub(super) fn decode(
        &mut self,
        base: Base,
        spots: &[Spot],
        decoder: &Decoder,
        out: &mut Matrix,
    ) -> Result<(), Failed> {
        let there: Vec<usize> =
            spots.iter().enumerate().filter(|s| matches!(s.1, Spot::At { .. })).map(|s| s.0).collect();
        let wanted: Vec<Spot> = there.iter().map(|&e| spots[e]).collect();
        let found = self.decode_spots(base, &wanted, decoder)?;
        for (e, (value, undefined)) in there.into_iter().zip(found) {
            out.set(e, value, undefined);
        }
        Ok(())
    }

    pub(super) fn per_element(
        &mut self,
        file: &mut File,
        dst: Reg,
        src: Reg,
        call: &Callback,
        extras: &[Extra],
    ) -> Result<(), Failed> {
        let shape = self.p.registers[dst as usize];
        let mut scalars = Vec::new();
        for extra in extras {
            match extra {
                Extra::Scalars(slots) => {
                    let row: Result<Vec<_>, _> = slots.iter().map(|&s| self.same(s)).collect();
                    scalars.push(row?);
                }
                Extra::Matrix(reg) => {
                    file.ready(self.p, *reg);
                    scalars.push(Vec::new());
                }
            }
        }
        file.ready(self.p, src);
        let (from, cols) = (file.at(src), shape.cols as usize);
        let known = |m: &Matrix, e: usize| (m.bits[e], m.unknown(e));
        let found = self.each(call, shape.len(), |e, p, c| match p {
            0 => ((e / cols) as u32, false),
            1 => ((e % cols) as u32, false),
            2 => known(from, e),
            _ => match &extras[p - 3] {
                Extra::Scalars(_) => scalars[p - 3][c].map_or((0, true), |v| (v, false)),
                Extra::Matrix(reg) => known(file.at(*reg), e),
            },
        })?;
        file.put(dst, collect(&found));
        Ok(())
    }

    pub(super) fn reduce(
        &mut self,
        file: &mut File,
        dst: Reg,
        src: Reg,
        reduction: Reduction,
        combine: &Callback,
    ) -> Result<(), Failed> {
        let (from, to) = (self.p.registers[src as usize], self.p.registers[dst as usize]);
        let (rows, cols) = (from.rows as usize, from.cols as usize);
        let matrix = file.ready(self.p, src);
        let known = |e: usize| (matrix.bits[e], matrix.unknown(e));
        let groups: Vec<Vec<Known>> = match reduction {
            Reduction::Row => (0..rows).map(|r| (0..cols).map(|c| known(r * cols + c)).collect()).collect(),
            Reduction::Column => {
                (0..cols).map(|c| (0..rows).map(|r| known(r * cols + c)).collect()).collect()
            }
            Reduction::All => vec![(0..rows * cols).map(known).collect()],
            Reduction::Square => {
                let corner = |g: usize| g / (cols / 2) * 2 * cols + g % (cols / 2) * 2;
                let square = |g| [0, 1, cols, cols + 1].map(|i| known(corner(g) + i)).to_vec();
                (0..to.len()).map(square).collect()
            }
        };
        let totals = self.totals(groups, combine, &from)?;
        let width = to.cols as usize;
        let group = |e: usize| match reduction {
            Reduction::Row => e / width,
            Reduction::Column => e % width,
            Reduction::All => 0,
            Reduction::Square => e,
        };
        let all: Vec<Known> = (0..to.len()).map(|e| totals[group(e)]).collect();
        file.put(dst, collect(&all));
        Ok(())
    }

    /// One value of each group, all of which have one length. The run's order says what is combined with what.
    fn totals(
        &mut self,
        mut groups: Vec<Vec<Known>>,
        combine: &Callback,
        shape: &Shape,
    ) -> Result<Vec<Known>, Failed> {
        let order = self.m.order;
        if order == ReduceOrder::Reverse {
            groups.iter_mut().for_each(|g| g.reverse());
        }
        let mut first = true;
        while groups[0].len() > 1 {
            // Neighbors all at once, or the first two only.
            let pairs = if order == ReduceOrder::Tree { groups[0].len() / 2 } else { 1 };
            let all: Vec<[Known; 2]> =
                groups.iter().flat_map(|g| g.chunks_exact(2).take(pairs).map(|c| [c[0], c[1]])).collect();
            let found = self.each(combine, all.len(), |k, p, _| all[k][p])?;
            if first {
                self.commutes(&all, &found, combine, shape)?;
                first = false;
            }
            for (g, found) in groups.iter_mut().zip(found.chunks(pairs)) {
                g.splice(..2 * pairs, found.iter().copied());
            }
        }
        Ok(groups.into_iter().map(|g| g[0]).collect())
    }

    /// Calls the function again with its operands swapped: a device may do either.
    fn commutes(
        &mut self,
        pairs: &[[Known; 2]],
        found: &[Known],
        combine: &Callback,
        shape: &Shape,
    ) -> Result<(), Failed> {
        let swapped = self.each(combine, pairs.len(), |k, p, _| pairs[k][1 - p])?;
        let number =
            |v: u32| if shape.elem.is_real() { f64::from(float(v, shape.elem)) } else { f64::from(v) };
        for ((pair, a), b) in pairs.iter().zip(found).zip(&swapped) {
            let (x, y) = (number(a.0), number(b.0));
            if a.1 || b.1 || x == y || x.is_nan() && y.is_nan() {
                continue;
            }
            let [p, q] = pair.map(|k| number(k.0));
            let detail =
                format!("the function of a reduction yields {x} for ({p}, {q}) and {y} for ({q}, {p})");
            return Err(fault(TrapKind::Mismatch, detail));
        }
        Ok(())
    }
}

fn collect(found: &[Known]) -> Matrix {
    let undefined = if found.iter().any(|k| k.1) { found.iter().map(|k| k.1).collect() } else { Vec::new() };
    Matrix { bits: found.iter().map(|k| k.0).collect(), undefined }
}
