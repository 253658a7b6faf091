//! One subgroup's execution: the instruction loop, the active lanes, and where the other lanes wait.
//!
//! Lanes that leave the common path wait at a position. Of all positions the smallest runs first; since code is laid
//! out in structured order, lanes meet again at the merge block of the construct that parted them, and a loop's lanes
//! wait behind it for the last one.

mod atomic;
pub(crate) mod convert;
pub(crate) mod exchange;
pub(crate) mod float;
pub(crate) mod int;
pub(crate) mod lanes;
pub(crate) mod matrix;
pub(crate) mod memory;
mod print;

use kiln_abi::spirv::Scope;

use self::{
    lanes::{Lanes, MAX_LANES},
    matrix::{File, Mappings},
    memory::{Memory, Stop, counted_bytes},
};
use crate::{
    counters::Counters,
    matrix::Sharing,
    options::ReduceOrder,
    program::{Bin, Exchange, Inst, Kind, Program, Tri, Un},
    trap::{Fault, TrapKind},
};

/// Where a subgroup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// At the workgroup barrier at this position.
    AtBarrier(u32),
    /// At the matrix instruction at this position, which the workgroup executes together.
    Together(u32),
    Done,
}

/// One subgroup of the current workgroup.
#[derive(Debug)]
pub(crate) struct Subgroup {
    /// Its index in the workgroup.
    pub(crate) index: usize,
    /// Flat index of its first invocation.
    pub(crate) first: u32,
    pub(crate) lanes: Lanes,
    pub(crate) state: State,
    pub(crate) at: u32,
    /// Positions where lanes wait.
    waiting: Vec<(u32, u64)>,
    pub(crate) fuel: u64,
    /// Target of the last backward jump.
    back: Option<u32>,
    /// Matrices that the subgroup shares.
    pub(crate) matrices: File,
}

/// What all subgroups of a dispatch share.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program,
    pub(crate) memory: Memory<'a>,
    pub(crate) counters: Counters,
    pub(crate) order: ReduceOrder,
    /// The workgroup that runs.
    pub(crate) workgroup: [u32; 3],
    /// Lines, in the order they were come by.
    pub(crate) printed: Vec<String>,
    /// Matrices that the workgroup shares.
    pub(crate) matrices: File,
    pub(crate) mappings: Mappings,
}

impl Subgroup {
    pub(crate) fn new(index: usize, first: u32, lanes: Lanes, matrices: File) -> Self {
        let state = State::Running;
        Subgroup { index, first, lanes, state, at: 0, waiting: Vec::new(), fuel: 0, back: None, matrices }
    }

    /// Back to the entry point with every lane.
    pub(crate) fn restart(&mut self, fuel: u64) {
        self.lanes.active = self.lanes.exist;
        (self.state, self.at, self.fuel, self.back) = (State::Running, 0, fuel, None);
        self.waiting.clear();
    }

    /// The instruction about to run, for a message.
    pub(crate) fn word(&self, p: &Program) -> u32 {
        p.code.get(self.at as usize).map_or(0, |i| i.word)
    }

    /// Runs up to `budget` instructions, less when the subgroup ends or reaches a workgroup barrier.
    pub(crate) fn advance<'a>(&mut self, m: &mut Machine<'a>, budget: u64) -> Result<(), Stop> {
        let budget = budget.min(self.fuel);
        let (program, mut left) = (m.program, budget);
        while left > 0 && self.state == State::Running {
            left -= 1;
            let Some(i) = program.code.get(self.at as usize) else {
                return Err(Fault::new(TrapKind::Unreachable, 0, "control leaves the code").into());
            };
            m.counters.lane_operations += u64::from(self.lanes.active.count_ones());
            m.counters.divergent += u64::from(self.lanes.active != self.lanes.exist);
            self.step(m, program, i)?;
        }
        m.counters.instructions += budget - left;
        // What callbacks used is off already.
        self.fuel = self.fuel.saturating_sub(budget - left);
        if self.fuel == 0 && self.state == State::Running {
            return Err(self.out_of_fuel(program).into());
        }
        Ok(())
    }

    fn out_of_fuel(&self, p: &Program) -> Fault {
        let lane = self.lanes.active.trailing_zeros();
        let word = self.back.map(|b| p.loops.get(&b).copied().unwrap_or(p.code[b as usize].word));
        let what = if word.is_some() { "the loop does not end" } else { "the kernel does not end" };
        let detail = format!("{what} within the instructions one subgroup may execute");
        Fault { word, ..Fault::new(TrapKind::Fuel, lane, detail) }
    }

    #[inline]
    fn step<'a>(&mut self, m: &mut Machine<'a>, p: &'a Program, i: &Inst) -> Result<(), Stop> {
        let (l, n) = (&mut self.lanes, &mut m.counters);
        match i.kind {
            Kind::Mov => l.copy(i.dst, i.a),
            Kind::LoadSlot => {
                n.variables.load(l.active.count_ones(), counted_bytes(i.ty));
                l.copy(i.dst, i.a);
            }
            Kind::StoreSlot => {
                n.variables.store(l.active.count_ones(), counted_bytes(i.ty));
                l.copy(i.dst, i.a);
            }
            Kind::Undefine => l.undefine(i.dst, i.a),
            Kind::Chain => memory::chain(l, &m.memory, p, i),
            Kind::LoadIndexed => {
                n.variables.load(l.active.count_ones(), counted_bytes(i.ty));
                m.memory.load_indexed(l, p, i)?;
            }
            Kind::StoreIndexed => {
                n.variables.store(l.active.count_ones(), counted_bytes(i.ty));
                m.memory.store_indexed(l, p, i)?;
            }
            Kind::LoadBuffer => m.memory.load_buffer(l, p, i, self.first, n)?,
            Kind::StoreBuffer => m.memory.store_buffer(l, p, i, self.first, n)?,
            Kind::LoadWorkgroup => m.memory.load_workgroup(l, p, i, self.first, n)?,
            Kind::StoreWorkgroup => m.memory.store_workgroup(l, p, i, self.first, n)?,
            Kind::AtomicBuffer(what) => m.memory.atomic_buffer(l, p, i, what, (self.first, n))?,
            Kind::AtomicWorkgroup(what) => m.memory.atomic_workgroup(l, p, i, what, (self.first, n))?,
            Kind::LoadPush => m.memory.load_push(l, p, i, n)?,
            Kind::ArrayLength => m.memory.array_length(l, i),
            Kind::Un(_) | Kind::Bin(_) | Kind::Tri(_) | Kind::Convert(..) => arithmetic(l, i, n)?,
            Kind::Field => convert::field(l, i),
            Kind::Join => convert::join(l, i),
            Kind::Pick => pick(l, &p.picks[i.b as usize], i)?,
            Kind::Subgroup(what) => {
                n.subgroup_operations += u64::from(what != Exchange::Elect);
                exchange::exchange(l, i, what, m.order)?;
            }
            Kind::MemoryBarrier => {}
            Kind::Print => {
                print::print(l, &p.prints[i.a as usize], self.first, (m.workgroup, &mut m.printed));
            }
            Kind::Matrix => return self.matrix(m, p, i),
            Kind::ControlBarrier => return self.barrier(m, p, i),
            Kind::Jump => {
                self.go([(i.a, self.lanes.active), (0, 0)]);
                return Ok(());
            }
            Kind::Branch => {
                let unknown = l.undefined[i.a as usize] & l.active;
                if unknown != 0 {
                    let detail = "a branch depends on an uninitialized value";
                    return Err(Fault::new(TrapKind::Uninitialized, unknown.trailing_zeros(), detail).into());
                }
                let yes = l.truth(i.a) & l.active;
                let no = l.active & !yes;
                self.go([(i.b, yes), (i.c, no)]);
                return Ok(());
            }
            Kind::Return => {
                self.go([(0, 0); 2]);
                return Ok(());
            }
            Kind::Unreachable => {
                let lane = l.active.trailing_zeros();
                return Err(Fault::new(TrapKind::Unreachable, lane, "control reached OpUnreachable").into());
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Moves the active lanes to their targets and goes on with the lanes that are furthest behind.
    fn go(&mut self, targets: [(u32, u64); 2]) {
        let backward = |t: &&(u32, u64)| t.1 != 0 && t.0 <= self.at;
        if let Some(&(target, _)) = targets.iter().find(backward) {
            self.back = Some(target);
        }
        if self.waiting.is_empty() {
            // The common case: nobody waits and all lanes go the same way.
            for ((at, lanes), (_, others)) in [(targets[0], targets[1]), (targets[1], targets[0])] {
                if lanes != 0 && others == 0 {
                    self.at = at;
                    return;
                }
            }
        }
        for (at, lanes) in targets.into_iter().filter(|t| t.1 != 0) {
            match self.waiting.iter_mut().find(|w| w.0 == at) {
                Some(w) => w.1 |= lanes,
                None => self.waiting.push((at, lanes)),
            }
        }
        let next = (0..self.waiting.len()).min_by_key(|&k| self.waiting[k].0);
        match next.map(|k| self.waiting.swap_remove(k)) {
            Some((at, lanes)) => (self.at, self.lanes.active) = (at, lanes),
            None => (self.state, self.lanes.active) = (State::Done, 0),
        }
    }

    /// Refuses an instruction that not every lane has reached.
    fn all_here(&self, what: &str) -> Result<(), Fault> {
        let l = &self.lanes;
        let absent = l.exist & !l.active;
        if absent == 0 {
            return Ok(());
        }
        let (lane, count) = (absent.trailing_zeros(), absent.count_ones());
        let detail = format!("{what} without lane {lane} ({count} lanes of the subgroup elsewhere or gone)");
        Err(Fault::new(TrapKind::Divergence, l.active.trailing_zeros(), detail))
    }

    fn matrix<'a>(&mut self, m: &mut Machine<'a>, p: &'a Program, i: &Inst) -> Result<(), Stop> {
        let inst = &p.matrix_ops[i.a as usize];
        if inst.op.is_alone() {
            matrix::alone(self, m, p, i)?;
        } else {
            self.all_here("matrix operation")?;
            if inst.sharing == Sharing::Workgroup {
                self.state = State::Together(self.at);
                return Ok(());
            }
            matrix::execute(std::slice::from_mut(self), m, p, i).map_err(|(_, stop)| stop)?;
        }
        self.at += 1;
        Ok(())
    }

    fn barrier(&mut self, m: &mut Machine<'_>, p: &Program, i: &Inst) -> Result<(), Stop> {
        self.all_here("barrier")?;
        let b = &p.barriers[i.a as usize];
        if b.execution == Scope::Workgroup {
            self.state = State::AtBarrier(self.at);
            return Ok(());
        }
        m.order(b, Some(self.index), i.word);
        self.at += 1;
        Ok(())
    }
}

impl Machine<'_> {
    /// A barrier completes, for the workgroup or for one subgroup of it.
    pub(crate) fn order(&mut self, b: &crate::program::Barrier, subgroup: Option<usize>, word: u32) {
        let (m, vulkan) = (&mut self.memory, self.program.vulkan_model);
        m.now += 1;
        m.buffer_clock.barrier(b, subgroup, vulkan, m.now, word);
        m.workgroup_clock.barrier(b, subgroup, vulkan, m.now, word);
    }
}

/// dst ← what `i` computes from its operands.
#[inline]
pub(crate) fn arithmetic(l: &mut Lanes, i: &Inst, n: &mut Counters) -> Result<(), Fault> {
    match i.kind {
        Kind::Un(op) => unary(l, i, op, &mut n.f16_overflows),
        Kind::Bin(op) if is_float(op) => float::binary(l, i, op, &mut n.f16_overflows),
        Kind::Bin(op) => int::binary(l, i, op)?,
        Kind::Tri(Tri::Select) => int::select(l, i),
        Kind::Tri(op @ (Tri::UClamp | Tri::SClamp)) => int::clamp(l, i, op),
        Kind::Tri(op) => float::ternary(l, i, op, &mut n.f16_overflows),
        Kind::Convert(conv, to) => convert::convert(l, i, conv, to, &mut n.f16_overflows)?,
        _ => {}
    }
    Ok(())
}

fn unary(l: &mut Lanes, i: &Inst, op: Un, overflows: &mut u64) {
    match op {
        Un::SNegate
        | Un::Not
        | Un::LogicalNot
        | Un::BitReverse
        | Un::BitCount
        | Un::FindILsb
        | Un::FindUMsb
        | Un::SAbs => int::unary(l, i, op),
        _ => float::unary(l, i, op, overflows),
    }
}

const fn is_float(op: Bin) -> bool {
    matches!(
        op,
        Bin::FAdd
            | Bin::FSub
            | Bin::FMul
            | Bin::FDiv
            | Bin::FRem
            | Bin::FMin
            | Bin::FMax
            | Bin::Pow
            | Bin::FEqual
            | Bin::FNotEqual
            | Bin::FLess
            | Bin::FGreater
            | Bin::FLessEqual
            | Bin::FGreaterEqual
            | Bin::PackHalf
    )
}

/// dst ← the component of a vector that a's value names.
fn pick(l: &mut Lanes, slots: &[u32], i: &Inst) -> Result<(), Fault> {
    let (mut out, mut undefined, mut wrapped) = ([0; MAX_LANES], l.undefined[i.a as usize], 0);
    for k in lanes::bits(l.active & !l.undefined[i.a as usize]) {
        let index = l.row(i.a)[k];
        let Some(&slot) = slots.get(index as usize) else {
            let detail = format!("component {index} of a vector of {}", slots.len());
            return Err(Fault::new(TrapKind::OutOfBounds, k as u32, detail));
        };
        out[k] = l.row(slot)[k];
        undefined |= l.undefined[slot as usize] & 1 << k;
        wrapped |= l.wrapped[slot as usize] & 1 << k;
    }
    l.put(i.dst, &out, undefined, wrapped);
    Ok(())
}
