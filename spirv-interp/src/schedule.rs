//! A dispatch: workgroups in a shuffled order, their subgroups interleaved by chance between barriers.

use kiln_abi::{Location, SourceMap, StagedKernel, spirv::BuiltIn};

use crate::{
    counters::Counters,
    exec::{
        Machine, State, Subgroup,
        lanes::Lanes,
        matrix::{self, File, Mappings},
        memory::{Memory, RaceReport, Stop},
    },
    matrix::Sharing,
    options::{Chance, InterpOptions},
    program::{Atomic, Kind, Program},
    trap::{Fault, TrapKind},
};

/// Instructions a subgroup may run before another one's turn.
const TURN: u64 = 1024;

/// A stopped run before the kernel's name is known.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) kind: TrapKind,
    pub(crate) word: u32,
    pub(crate) workgroup: [u32; 3],
    pub(crate) invocation: u32,
    pub(crate) detail: String,
}

/// A dispatch in progress.
pub(crate) struct Run<'a> {
    machine: Machine<'a>,
    subgroups: Vec<Subgroup>,
    grid: [u32; 3],
    source: &'a SourceMap,
    /// The time at which each workgroup began.
    begun: Vec<(u32, [u32; 3])>,
    chance: Chance,
    fuel: u64,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        program: &'a Program,
        memory: Memory<'a>,
        grid: [u32; 3],
        kernel: &'a StagedKernel,
        width: u32,
        options: &InterpOptions,
    ) -> Self {
        let invocations: u32 = program.local_size.iter().product();
        let subgroups = (0..invocations.div_ceil(width)).map(|s| {
            let first = s * width;
            let here = (invocations - first).min(width);
            let lanes = Lanes::new(width as usize, program.slots as usize, u64::MAX >> (64 - here));
            Subgroup::new(s as usize, first, lanes, File::new(program, Sharing::Subgroup))
        });
        let machine = Machine {
            program,
            memory,
            counters: Counters::default(),
            order: options.reduce_order,
            matrices: File::new(program, Sharing::Workgroup),
            mappings: Mappings::new(options.seed, kernel.layout.fragments),
            workgroup: [0; 3],
            printed: Vec::new(),
        };
        let mut run = Run {
            machine,
            subgroups: subgroups.collect(),
            grid,
            source: &kernel.source,
            begun: Vec::new(),
            chance: Chance(options.seed),
            fuel: options.fuel,
        };
        for s in &mut run.subgroups {
            for &(slot, value) in &program.constants {
                s.lanes.fill(slot, value);
            }
        }
        run
    }

    /// Runs every workgroup; the memory and what was printed come back either way.
    pub(crate) fn finish(mut self) -> (Memory<'a>, Vec<String>, Result<Counters, Stopped>) {
        let result = self.workgroups();
        (self.machine.memory, self.machine.printed, result.map(|()| self.machine.counters))
    }

    fn workgroups(&mut self) -> Result<(), Stopped> {
        let [x, y, z] = self.grid.map(u64::from);
        let n = x * y * z;
        // A step that shares no factor with n visits every workgroup once.
        let (start, mut step) = (self.chance.below(n), 1 + self.chance.below(n));
        while gcd(step, n) != 1 {
            step += 1;
        }
        for k in 0..n {
            let flat = ((u128::from(k) * u128::from(step) + u128::from(start)) % u128::from(n)) as u64;
            let id = [flat % x, flat / x % y, flat / (x * y)].map(|v| v as u32);
            self.workgroup(id)?;
        }
        Ok(())
    }

    fn workgroup(&mut self, id: [u32; 3]) -> Result<(), Stopped> {
        let m = &mut self.machine;
        m.counters.workgroups += 1;
        m.workgroup = id;
        m.memory.now += 1;
        m.memory.buffer_clock.begin(m.memory.now);
        m.memory.workgroup_clock.begin(m.memory.now);
        self.begun.push((m.memory.now, id));
        let total = self.subgroups.len() as u32;
        for s in &mut self.subgroups {
            s.restart(self.fuel);
            let (first, count) = m.program.private;
            s.lanes.undefine(first, count);
            for &(first, count) in &m.program.private_matrices {
                let file = match m.program.registers[first as usize].sharing {
                    Sharing::Subgroup => &mut s.matrices,
                    Sharing::Workgroup => &mut m.matrices,
                };
                file.undefine(first, count);
            }
            builtins(s, m.program, self.grid, id, total);
        }
        loop {
            self.until_barrier(id)?;
            if self.subgroups.iter().all(|s| s.state == State::Done) {
                return Ok(());
            }
            self.barrier(id)?;
        }
    }

    /// Runs all subgroups until each is at a barrier or done.
    fn until_barrier(&mut self, id: [u32; 3]) -> Result<(), Stopped> {
        let mut running: Vec<usize> =
            (0..self.subgroups.len()).filter(|&s| self.subgroups[s].state == State::Running).collect();
        while !running.is_empty() {
            let k = self.chance.below(running.len() as u64) as usize;
            let turn = if running.len() == 1 { TURN } else { 1 + self.chance.below(TURN) };
            let s = &mut self.subgroups[running[k]];
            if let Err(stop) = s.advance(&mut self.machine, turn) {
                return Err(self.stopped(running[k], id, stop));
            }
            if s.state != State::Running {
                running.swap_remove(k);
            }
        }
        Ok(())
    }

    /// All subgroups pass the barrier, or execute the matrix instruction, they are at, if it is one and the same.
    fn barrier(&mut self, id: [u32; 3]) -> Result<(), Stopped> {
        let waiting = self.subgroups.iter().position(|s| s.state != State::Done);
        let Some(here) = waiting else { return Ok(()) };
        let state = self.subgroups[here].state;
        if let Some(other) = self.subgroups.iter().find(|s| s.state != state) {
            let elsewhere = match other.state {
                State::AtBarrier(at) | State::Together(at) => {
                    format!("at {}", self.place(self.machine.program.code[at as usize].word))
                }
                _ => "gone".to_owned(),
            };
            let what = if matches!(state, State::Together(_)) { "matrix operation" } else { "barrier" };
            let detail = format!("{what} without subgroup {}, which is {elsewhere}", other.index);
            let fault = Fault::new(TrapKind::Divergence, 0, detail);
            return Err(self.stopped(here, id, fault.into()));
        }
        let inst = self.machine.program.code[self.subgroups[here].at as usize];
        if inst.kind == Kind::Matrix {
            let program = self.machine.program;
            matrix::execute(&mut self.subgroups, &mut self.machine, program, &inst)
                .map_err(|(subgroup, stop)| self.stopped(subgroup, id, stop))?;
        } else {
            let barrier = self.machine.program.barriers[inst.a as usize];
            self.machine.order(&barrier, None, inst.word);
            self.machine.counters.barriers += 1;
        }
        for s in &mut self.subgroups {
            (s.state, s.at) = (State::Running, s.at + 1);
        }
        Ok(())
    }

    fn place(&self, word: u32) -> String {
        match self.source.at(word) {
            Some(at) => Location::to_string(&at),
            None => format!("word {word}"),
        }
    }

    fn stopped(&self, subgroup: usize, workgroup: [u32; 3], stop: Stop) -> Stopped {
        let s = &self.subgroups[subgroup];
        let here = s.word(self.machine.program);
        let invocation = |lane: u32| s.first + lane.min(63);
        match stop {
            Stop::Fault(f) => Stopped {
                kind: f.kind,
                word: f.word.unwrap_or(here),
                workgroup,
                invocation: invocation(f.lane),
                detail: f.detail,
            },
            Stop::Race(r) => Stopped {
                kind: TrapKind::Race,
                word: here,
                workgroup,
                invocation: invocation(r.lane),
                detail: self.race(&r, here, workgroup),
            },
        }
    }

    fn race(&self, r: &RaceReport, here: u32, workgroup: [u32; 3]) -> String {
        let c = &r.conflict;
        let p = self.machine.program;
        let stores = p.code.iter().any(|i| {
            i.word == here
                && (i.kind.stores() || i.kind == Kind::Matrix && p.matrix_ops[i.a as usize].op.stores())
        });
        let did = |stores| if stores { "store" } else { "load" };
        let owner =
            self.begun.partition_point(|b| b.0 <= c.other_time).checked_sub(1).map(|k| self.begun[k].1);
        let other = match owner {
            Some([x, y, z]) if [x, y, z] != workgroup => format!(" of workgroup ({x}, {y}, {z})"),
            _ => String::new(),
        };
        let weak = match r.weak {
            Some((word, why)) => format!("; what orders at {} {why}", self.place(word)),
            None => String::new(),
        };
        format!(
            "this {} of {} meets a {} by invocation {}{other} at {}: {}{weak}",
            did(stores),
            r.place,
            did(c.other_stores),
            c.other_invocation,
            self.place(c.other_word),
            c.why,
        )
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Fills the slots of the builtins for one workgroup.
fn builtins(s: &mut Subgroup, p: &Program, grid: [u32; 3], id: [u32; 3], subgroups: u32) {
    let ([lx, ly, _], first) = (p.local_size, s.first);
    let local = move |k: u32| {
        let flat = first + k;
        [flat % lx, flat / lx % ly, flat / (lx * ly)]
    };
    let (index, width) = (s.index as u32, s.lanes.width() as u32);
    for &(builtin, slot) in &p.builtins {
        let l = &mut s.lanes;
        match builtin {
            BuiltIn::NumWorkgroups => (slot..).zip(grid).for_each(|(s, v)| l.fill(s, v)),
            BuiltIn::WorkgroupId => (slot..).zip(id).for_each(|(s, v)| l.fill(s, v)),
            BuiltIn::LocalInvocationId => {
                (0..3).for_each(|a| l.fill_with(slot + a, |k| local(k)[a as usize]))
            }
            BuiltIn::GlobalInvocationId => (0..3).for_each(|a| {
                let base = id[a as usize].wrapping_mul(p.local_size[a as usize]);
                l.fill_with(slot + a, |k| base.wrapping_add(local(k)[a as usize]));
            }),
            BuiltIn::LocalInvocationIndex => l.fill_with(slot, |k| first + k),
            BuiltIn::SubgroupSize => l.fill(slot, width),
            BuiltIn::NumSubgroups => l.fill(slot, subgroups),
            BuiltIn::SubgroupId => l.fill(slot, index),
            BuiltIn::SubgroupLocalInvocationId => l.fill_with(slot, |k| k),
        }
    }
}

impl crate::program::Kind {
    /// Whether the instruction stores to memory that invocations share.
    const fn stores(self) -> bool {
        match self {
            Self::AtomicBuffer(what) | Self::AtomicWorkgroup(what) => !matches!(what, Atomic::Load),
            _ => matches!(self, Self::StoreBuffer | Self::StoreWorkgroup),
        }
    }
}
