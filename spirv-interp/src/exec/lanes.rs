//! The registers of one subgroup: a row of lanes per scalar, and per row which lanes are undefined or wrapped.

use crate::program::{Inst, Slot};

/// Lanes of the widest subgroup.
pub(crate) const MAX_LANES: usize = 64;

/// Lane values of one row while it is computed; rows are `width` long, the rest is unused.
pub(crate) type Row = [u32; MAX_LANES];

/// A subgroup's register file.
#[derive(Debug)]
pub(crate) struct Lanes {
    width: usize,
    regs: Vec<u32>,
    /// Lanes whose value nothing wrote.
    pub(crate) undefined: Vec<u64>,
    /// Lanes whose value comes from 32-bit index arithmetic that wrapped.
    pub(crate) wrapped: Vec<u64>,
    /// Lanes that stand for an invocation; a last subgroup may be partial.
    pub(crate) exist: u64,
    /// Lanes that execute the current instruction.
    pub(crate) active: u64,
}

impl Lanes {
    pub(crate) fn new(width: usize, slots: usize, exist: u64) -> Self {
        Lanes {
            width,
            regs: vec![0; slots * width],
            undefined: vec![u64::MAX; slots],
            wrapped: vec![0; slots],
            exist,
            active: exist,
        }
    }

    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    #[inline]
    pub(crate) fn row(&self, slot: Slot) -> &[u32] {
        let at = slot as usize * self.width;
        &self.regs[at..at + self.width]
    }

    #[inline]
    fn row_mut(&mut self, slot: Slot) -> &mut [u32] {
        let at = slot as usize * self.width;
        &mut self.regs[at..at + self.width]
    }

    /// Writes the active lanes of `slot`.
    #[inline]
    pub(crate) fn put(&mut self, slot: Slot, values: &Row, undefined: u64, wrapped: u64) {
        let (active, full) = (self.active, self.active == self.exist);
        let row = self.row_mut(slot);
        if full {
            row.copy_from_slice(&values[..row.len()]);
        } else {
            for (k, (old, new)) in row.iter_mut().zip(values).enumerate() {
                if active >> k & 1 != 0 {
                    *old = *new;
                }
            }
        }
        self.note(slot, undefined, wrapped);
    }

    /// Sets what is known of the active lanes of `slot`.
    #[inline]
    fn note(&mut self, slot: Slot, undefined: u64, wrapped: u64) {
        let (s, active) = (slot as usize, self.active);
        self.undefined[s] = self.undefined[s] & !active | undefined & active;
        self.wrapped[s] = self.wrapped[s] & !active | wrapped & active;
    }

    /// The active lanes of `n` slots lose their content.
    pub(crate) fn undefine(&mut self, first: Slot, n: u32) {
        for slot in first..first + n {
            self.note(slot, u64::MAX, 0);
        }
    }

    /// Gives every lane of `slot` one value.
    pub(crate) fn fill(&mut self, slot: Slot, value: u32) {
        self.row_mut(slot).fill(value);
        self.undefined[slot as usize] = 0;
    }

    /// Gives lane k of `slot` the value `f(k)`.
    pub(crate) fn fill_with(&mut self, slot: Slot, f: impl Fn(u32) -> u32) {
        for (v, k) in self.row_mut(slot).iter_mut().zip(0..) {
            *v = f(k);
        }
        self.undefined[slot as usize] = 0;
    }

    /// dst ← a, what is known of it included.
    #[inline]
    pub(crate) fn copy(&mut self, dst: Slot, a: Slot) {
        if self.active == self.exist {
            let (from, to) = (a as usize * self.width, dst as usize * self.width);
            self.regs.copy_within(from..from + self.width, to);
            self.note(dst, self.undefined[a as usize], self.wrapped[a as usize]);
        } else {
            let mut row = [0; MAX_LANES];
            row[..self.width].copy_from_slice(self.row(a));
            self.put(dst, &row, self.undefined[a as usize], self.wrapped[a as usize]);
        }
    }

    /// dst ← f(a); the result counts as wrapped where `keep` is set and the operand is.
    #[inline(always)]
    pub(crate) fn map1(&mut self, i: &Inst, keep: bool, f: impl Fn(u32) -> u32) {
        let mut out = [0; MAX_LANES];
        for (o, &a) in out.iter_mut().zip(self.row(i.a)) {
            *o = f(a);
        }
        let wrapped = if keep { self.wrapped[i.a as usize] } else { 0 };
        self.put(i.dst, &out, self.undefined[i.a as usize], wrapped);
    }

    /// dst ← f(a, b); the result counts as wrapped where `wrapped` says so.
    #[inline(always)]
    pub(crate) fn map2(&mut self, i: &Inst, wrapped: u64, f: impl Fn(u32, u32) -> u32) {
        let mut out = [0; MAX_LANES];
        for ((o, &a), &b) in out.iter_mut().zip(self.row(i.a)).zip(self.row(i.b)) {
            *o = f(a, b);
        }
        let undefined = self.undefined[i.a as usize] | self.undefined[i.b as usize];
        self.put(i.dst, &out, undefined, wrapped);
    }

    /// dst ← f(a, b, c).
    #[inline(always)]
    pub(crate) fn map3(&mut self, i: &Inst, wrapped: u64, f: impl Fn(u32, u32, u32) -> u32) {
        let mut out = [0; MAX_LANES];
        let rows = self.row(i.a).iter().zip(self.row(i.b)).zip(self.row(i.c));
        for (o, ((&a, &b), &c)) in out.iter_mut().zip(rows) {
            *o = f(a, b, c);
        }
        let [a, b, c] = [i.a, i.b, i.c].map(|s| self.undefined[s as usize]);
        self.put(i.dst, &out, a | b | c, wrapped);
    }

    /// The lanes, whether active or not, for which `f(a, b)` holds.
    #[inline(always)]
    pub(crate) fn which(&self, a: Slot, b: Slot, f: impl Fn(u32, u32) -> bool) -> u64 {
        let (a, b) = (self.row(a), self.row(b));
        if !a.iter().zip(b).fold(false, |any, (&a, &b)| any | f(a, b)) {
            return 0;
        }
        a.iter().zip(b).enumerate().fold(0, |m, (k, (&a, &b))| m | u64::from(f(a, b)) << k)
    }

    /// The lanes of a truth value that are true.
    #[inline]
    pub(crate) fn truth(&self, slot: Slot) -> u64 {
        self.row(slot).iter().enumerate().fold(0, |m, (k, &v)| m | u64::from(v & 1) << k)
    }

    /// Wrapped lanes of either operand.
    #[inline]
    pub(crate) fn wrapped2(&self, i: &Inst) -> u64 {
        self.wrapped[i.a as usize] | self.wrapped[i.b as usize]
    }
}

/// The positions of the set bits of `mask`, ascending.
#[inline]
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let k = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (k < 64).then_some(k as usize)
    })
}
