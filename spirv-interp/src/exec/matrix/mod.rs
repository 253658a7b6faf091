//! Matrix instructions: who executes them together, what their operands are, and which lane holds which element.
//!
//! A matrix is one dense array for the whole scope. A lane's own elements are those that a permutation, drawn from the
//! run's seed and the matrix type, deals to it, but for fragments, whose order a kernel may count on; nothing but element
//! access looks at it.

mod callbacks;
mod elements;
pub(crate) mod fragment;
mod lines;
mod product;
mod tensor;

use std::{collections::HashMap, rc::Rc};

use super::{
    Machine, Subgroup,
    lanes::bits,
    memory::{self, Stop},
};
use crate::{
    matrix::{MatrixInst, MatrixOp, Place, Reg, Shape, Sharing},
    options::Chance,
    program::{Inst, Program, Slot},
    trap::{Fault, TrapKind},
};

/// A matrix's elements, row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    pub(crate) bits: Vec<u32>,
    /// Elements that nothing wrote; empty where everything is written.
    pub(crate) undefined: Vec<bool>,
}

impl Matrix {
    fn undefined(n: usize) -> Self {
        Matrix { bits: vec![0; n], undefined: vec![true; n] }
    }

    pub(crate) fn splat(n: usize, value: Option<u32>) -> Self {
        value.map_or_else(|| Self::undefined(n), |v| Matrix { bits: vec![v; n], undefined: Vec::new() })
    }

    fn unknown(&self, e: usize) -> bool {
        self.undefined.get(e).is_some_and(|&u| u)
    }

    fn set(&mut self, e: usize, value: u32, undefined: bool) {
        self.bits[e] = value;
        if undefined && self.undefined.is_empty() {
            self.undefined = vec![false; self.bits.len()];
        }
        if let Some(u) = self.undefined.get_mut(e) {
            *u = undefined;
        }
    }
}

/// The matrix registers of one scope instance.
#[derive(Debug, Default)]
pub(crate) struct File(Vec<Matrix>);

impl File {
    pub(crate) fn new(p: &Program, sharing: Sharing) -> Self {
        let mut file = File(vec![Matrix::default(); p.registers.len()]);
        for &(reg, value) in &p.matrix_constants {
            let shape = p.registers[reg as usize];
            if shape.sharing == sharing {
                file.0[reg as usize] = Matrix::splat(shape.len(), value);
            }
        }
        file
    }

    /// Registers `first..first + n` lose their content.
    pub(crate) fn undefine(&mut self, first: Reg, n: u32) {
        for m in &mut self.0[first as usize..(first + n) as usize] {
            *m = Matrix::default();
        }
    }

    /// Register `reg`, which holds undefined elements if nothing wrote it yet.
    fn ready(&mut self, p: &Program, reg: Reg) -> &mut Matrix {
        let (m, n) = (&mut self.0[reg as usize], p.registers[reg as usize].len());
        if m.bits.len() != n {
            *m = Matrix::undefined(n);
        }
        m
    }

    /// Register `reg` after [`Self::ready`].
    fn at(&self, reg: Reg) -> &Matrix {
        &self.0[reg as usize]
    }

    fn put(&mut self, reg: Reg, m: Matrix) {
        self.0[reg as usize] = m;
    }
}

/// Which element of a matrix each lane's elements are.
#[derive(Debug)]
pub(crate) struct Mappings {
    seed: u64,
    /// Whether the kernel counts on the order of fragments; one that does not never meets it.
    fragments: bool,
    known: HashMap<(Shape, u32), Rc<[u32]>>,
}

impl Mappings {
    pub(crate) fn new(seed: u64, fragments: bool) -> Self {
        Mappings { seed, fragments, known: HashMap::new() }
    }

    /// For `n` invocations: element i of invocation k is entry `k + i × n`, if there is such an entry.
    fn of(&mut self, shape: Shape, n: u32) -> Rc<[u32]> {
        let (seed, fragments) = (self.seed, self.fragments);
        Rc::clone(self.known.entry((shape, n)).or_insert_with(|| {
            if let Some(order) = fragment::order(&shape, n).filter(|_| fragments) {
                return order.into();
            }
            let mut chance = drawn(seed, &shape, n);
            let mut order: Vec<u32> = (0..shape.len() as u32).collect();
            for k in (1..order.len()).rev() {
                order.swap(k, chance.below(k as u64 + 1) as usize);
            }
            order.into()
        }))
    }
}

/// A stop with the subgroup, among those that execute together, in which it happened.
pub(crate) type Failed = (usize, Stop);

fn fault(kind: TrapKind, detail: String) -> Failed {
    (0, Fault::new(kind, 0, detail).into())
}

/// An instruction that a whole scope executes.
struct Together<'t, 'a> {
    parties: &'t mut [Subgroup],
    m: &'t mut Machine<'a>,
    p: &'a Program,
    word: u32,
}

/// Executes matrix instruction `i` in every subgroup of `parties`, which is the whole scope.
pub(crate) fn execute<'a>(
    parties: &mut [Subgroup],
    m: &mut Machine<'a>,
    p: &'a Program,
    i: &Inst,
) -> Result<(), Failed> {
    let inst: &'a MatrixInst = &p.matrix_ops[i.a as usize];
    m.counters.matrices.instructions += 1;
    let cost = cost(p, &inst.op);
    for (index, s) in parties.iter_mut().enumerate() {
        s.fuel = s.fuel.saturating_sub(cost);
        if s.fuel == 0 {
            return Err((index, s.out_of_fuel(p).into()));
        }
    }
    let mut file = std::mem::take(match inst.sharing {
        Sharing::Subgroup => &mut parties[0].matrices,
        Sharing::Workgroup => &mut m.matrices,
    });
    let result = Together { parties, m, p, word: i.word }.run(&inst.op, &mut file);
    *match inst.sharing {
        Sharing::Subgroup => &mut parties[0].matrices,
        Sharing::Workgroup => &mut m.matrices,
    } = file;
    result
}

/// What an instruction takes of the instructions that a subgroup may execute, beside its callbacks.
fn cost(p: &Program, op: &MatrixOp) -> u64 {
    let shape = |r: Reg| p.registers[r as usize];
    match *op {
        MatrixOp::MulAdd { dst, a, .. } => 1 + (shape(dst).len() as u64 * u64::from(shape(a).cols)) / 1024,
        MatrixOp::Undefine { .. } => 1,
        MatrixOp::StoreLines { src, .. }
        | MatrixOp::StoreTensor { src, .. }
        | MatrixOp::Store { src, .. }
        | MatrixOp::Extract { src, .. }
        | MatrixOp::Reduce { src, .. } => 1 + shape(src).len() as u64 / 64,
        MatrixOp::Fill { dst, .. }
        | MatrixOp::Copy { dst, .. }
        | MatrixOp::Select { dst, .. }
        | MatrixOp::Insert { dst, .. }
        | MatrixOp::Elementwise { dst, .. }
        | MatrixOp::Scale { dst, .. }
        | MatrixOp::Load { dst, .. }
        | MatrixOp::LoadTensor { dst, .. }
        | MatrixOp::PerElement { dst, .. }
        | MatrixOp::Transpose { dst, .. } => 1 + shape(dst).len() as u64 / 64,
        MatrixOp::Length { .. } | MatrixOp::LoadElement { .. } | MatrixOp::StoreElement { .. } => 0,
    }
}

impl Together<'_, '_> {
    fn run(&mut self, op: &MatrixOp, file: &mut File) -> Result<(), Failed> {
        match op {
            MatrixOp::Undefine { first, n } => file.undefine(*first, *n),
            MatrixOp::Fill { dst, value } => {
                let value = self.same(*value)?;
                file.put(*dst, Matrix::splat(self.p.registers[*dst as usize].len(), value));
            }
            MatrixOp::Copy { dst, from } => {
                let from = self.place(from)?;
                let copy = file.ready(self.p, from).clone();
                file.put(*dst, copy);
            }
            MatrixOp::Store { to, src } => {
                let (to, copy) = (self.place(to)?, file.ready(self.p, *src).clone());
                file.put(to, copy);
            }
            MatrixOp::Select { dst, condition, yes, no } => {
                let src = if self.uniform(*condition)? & 1 != 0 { *yes } else { *no };
                let copy = file.ready(self.p, src).clone();
                file.put(*dst, copy);
            }
            MatrixOp::Extract { dst, src, index } => self.extract(file, *dst, *src, *index)?,
            MatrixOp::Insert { dst, src, object, index } => {
                self.insert(file, *dst, *src, *object, *index)?;
            }
            MatrixOp::Elementwise { dst, kind, ty, a, b } => {
                self.elementwise(file, *dst, *kind, *ty, *a, *b)?;
            }
            MatrixOp::Scale { dst, kind, ty, a, factor } => {
                self.scale(file, *dst, *kind, *ty, *a, *factor)?;
            }
            MatrixOp::MulAdd { dst, a, b, c, signs } => {
                self.mul_add(file, *dst, [*a, *b, *c], *signs)?;
            }
            MatrixOp::Load { dst, from, lines } => {
                let loaded = self.load_lines(self.p.registers[*dst as usize], from, lines)?;
                file.put(*dst, loaded);
            }
            MatrixOp::StoreLines { to, lines, src } => {
                let shape = self.p.registers[*src as usize];
                self.store_lines(shape, to, lines, file.ready(self.p, *src))?;
            }
            MatrixOp::LoadTensor { dst, old, from, tensor, decode, decode_vector } => {
                let old = file.ready(self.p, *old).clone();
                let decoders = decode.as_ref().map(|d| (d, decode_vector.as_ref()));
                let shape = self.p.registers[*dst as usize];
                let loaded = self.load_tensor(shape, old, from, tensor, decoders)?;
                file.put(*dst, loaded);
            }
            MatrixOp::StoreTensor { to, tensor, src } => {
                let shape = self.p.registers[*src as usize];
                self.store_tensor(shape, to, tensor, file.ready(self.p, *src))?;
            }
            MatrixOp::Reduce { dst, src, reduction, combine } => {
                self.reduce(file, *dst, *src, *reduction, combine)?;
            }
            MatrixOp::PerElement { dst, src, call, extras } => {
                self.per_element(file, *dst, *src, call, extras)?;
            }
            MatrixOp::Transpose { dst, src } => self.transpose(file, *dst, *src),
            MatrixOp::Length { .. } | MatrixOp::LoadElement { .. } | MatrixOp::StoreElement { .. } => {}
        }
        Ok(())
    }

    /// The value that `slot` has in every lane, `None` if no lane's is defined.
    fn same(&self, slot: Slot) -> Result<Option<u32>, Failed> {
        let mut found = None;
        for (index, s) in self.parties.iter().enumerate() {
            let (l, row) = (&s.lanes, s.lanes.row(slot));
            for k in bits(l.exist) {
                let value = (l.undefined[slot as usize] >> k & 1 == 0).then_some(row[k]);
                match found {
                    None => found = Some(value),
                    Some(first) if first == value => {}
                    Some(first) => {
                        let show = |v: Option<u32>| v.map_or("undefined".to_owned(), |v| v.to_string());
                        let detail = format!(
                            "an operand is {} in one invocation and {} in another; the scope has to agree",
                            show(first),
                            show(value)
                        );
                        return Err((index, Fault::new(TrapKind::Divergence, k as u32, detail).into()));
                    }
                }
            }
        }
        Ok(found.flatten())
    }

    /// The defined value that `slot` has in every lane.
    fn uniform(&self, slot: Slot) -> Result<u32, Failed> {
        let detail = "an operand of a matrix instruction comes from an uninitialized value".to_owned();
        self.same(slot)?.ok_or_else(|| fault(TrapKind::Uninitialized, detail))
    }

    fn place(&self, place: &Place) -> Result<Reg, Failed> {
        let Some(slot) = place.dynamic else { return Ok(place.first) };
        for (index, s) in self.parties.iter().enumerate() {
            memory::address(&s.lanes, &self.m.memory, self.p, slot, place.chain)
                .map_err(|f| (index, f.into()))?;
        }
        register(self.p, place, self.uniform(slot)?).map_err(|f| (0, f.into()))
    }

    /// Invocations of the scope.
    fn invocations(&self) -> u32 {
        self.parties.iter().map(|s| s.lanes.exist.count_ones()).sum()
    }

    /// Position of a subgroup's first lane in the scope.
    fn first_position(&self, party: usize) -> u32 {
        self.parties[party].first - self.parties[0].first
    }

    /// The invocation that touches memory for element `e` of a matrix of this shape. It says nothing about who holds the
    /// element, but a matrix that is loaded, changed and stored in one place meets the same invocation twice.
    fn toucher(&self, shape: &Shape, e: usize) -> u32 {
        let mut chance = drawn(self.m.mappings.seed, shape, 0);
        chance.0 ^= e as u64;
        self.parties[0].first + chance.below(self.invocations().into()) as u32
    }
}

/// A generator that depends on the seed and the matrix type.
fn drawn(seed: u64, shape: &Shape, n: u32) -> Chance {
    let Shape { elem, sharing, rows, cols, usage } = *shape;
    let mut chance = Chance(seed);
    for part in [elem as u32, sharing as u32, rows, cols, usage as u32, n] {
        chance.0 = chance.next() ^ u64::from(part);
    }
    chance
}

/// The register `offset` behind a place, which has to be of the same shape.
fn register(p: &Program, place: &Place, offset: u32) -> Result<Reg, Fault> {
    let reg = place.first.checked_add(offset);
    let fits = reg.filter(|&r| p.registers.get(r as usize) == p.registers.get(place.first as usize));
    fits.ok_or_else(|| {
        Fault::new(TrapKind::OutOfBounds, 0, "an index is past the end of its array of matrices")
    })
}

/// Executes an instruction that each lane may execute for itself.
pub(crate) fn alone(s: &mut Subgroup, m: &mut Machine<'_>, p: &Program, i: &Inst) -> Result<(), Stop> {
    let inst = &p.matrix_ops[i.a as usize];
    let (n, first) = match inst.sharing {
        Sharing::Subgroup => (s.lanes.exist.count_ones(), 0),
        Sharing::Workgroup => (p.local_size.iter().product(), s.first),
    };
    let mut file = std::mem::take(match inst.sharing {
        Sharing::Subgroup => &mut s.matrices,
        Sharing::Workgroup => &mut m.matrices,
    });
    let result = elements::access(s, m, p, &inst.op, &mut file, n, first);
    *match inst.sharing {
        Sharing::Subgroup => &mut s.matrices,
        Sharing::Workgroup => &mut m.matrices,
    } = file;
    result
}
