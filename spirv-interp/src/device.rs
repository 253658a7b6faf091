//! The interpreter as a device: buffers, limits, and a dispatch from its checks to its counters.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kiln_abi::{
    BufferId, BufferRange, Device, DeviceCaps, DeviceError, DeviceKind, Dispatch, Limits, MatrixCaps,
    spirv::Capability,
};

use crate::{
    buffers::Buffer,
    counters::Counters,
    decode::{self, DecodeError},
    exec::{
        matrix::fragment,
        memory::{Memory, View},
    },
    matrix::Sharing,
    options::{InterpOptions, SUBGROUP_SIZES},
    program::Program,
    race::{Cell, Clock, Shadow},
    schedule::{Run, Stopped},
    trap::{Trap, TrapKind},
};

const MAX_INVOCATIONS: u32 = 1024;
const MAX_WORKGROUP_BYTES: u32 = 48 << 10;
const MAX_BUFFER_BYTES: u64 = 1 << 31;
/// Bytes that the register files of one workgroup may take.
const MAX_REGISTER_BYTES: u64 = 1 << 30;

/// A device that runs kernels on the CPU and traps on whatever they must not do.
///
/// A dispatch runs to its end or to its first fault; the buffers then hold what had been stored until there. The same
/// options, buffers and dispatch give the same run.
#[derive(Debug)]
pub struct Interpreter {
    options: InterpOptions,
    caps: DeviceCaps,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buffers: BTreeMap<BufferId, Buffer>,
    decoded: HashMap<Words, Result<Arc<Program>, DecodeError>>,
    last: Counters,
    printed: Vec<String>,
}

/// A module and its entry point, as the key of the decoded ones.
type Words = (Vec<u32>, String);

impl Interpreter {
    /// An interpreter without buffers.
    pub fn new(options: InterpOptions) -> Self {
        let caps = DeviceCaps {
            name: "Kiln interpreter".to_owned(),
            driver: format!("kiln-spirv-interp {}, schedule {}", env!("CARGO_PKG_VERSION"), options.seed),
            kind: DeviceKind::Cpu,
            capabilities: Capability::ALL.iter().copied().collect(),
            left_out: BTreeSet::new(),
            subgroup_size: options.subgroup_size,
            subgroup_sizes: (SUBGROUP_SIZES[0], SUBGROUP_SIZES[SUBGROUP_SIZES.len() - 1]),
            // Other sizes stand for the devices that keep the order to themselves.
            matrix: MatrixCaps { fragments: options.subgroup_size == fragment::LANES, ..MatrixCaps::every() },
            limits: Limits {
                max_invocations: MAX_INVOCATIONS,
                max_local_size: [MAX_INVOCATIONS, MAX_INVOCATIONS, 64],
                max_grid: [65_535; 3],
                max_workgroup_bytes: MAX_WORKGROUP_BYTES,
                max_push_bytes: 256,
                max_binding_bytes: MAX_BUFFER_BYTES,
                max_buffer_bytes: MAX_BUFFER_BYTES,
                max_allocation_bytes: MAX_BUFFER_BYTES,
                max_bindings: 32,
                binding_offset_alignment: options.binding_offset_alignment,
            },
        };
        Interpreter { options, caps, state: Mutex::default() }
    }

    /// What the last dispatch that ran to its end did, for callers that launch through [`Device`].
    pub fn last_counters(&self) -> Counters {
        self.lock().last
    }

    /// What a kernel's `kprintln!`s said in the last dispatch, in the order they were come by, also up to a trap.
    pub fn last_printed(&self) -> Vec<String> {
        self.lock().printed.clone()
    }

    /// Runs one dispatch to its end.
    ///
    /// # Errors
    /// The first [`Trap`]: what the kernel did, in which invocation, at which place.
    pub fn run(&self, dispatch: &Dispatch<'_>) -> Result<Counters, Trap> {
        let result = self.run_unnamed(dispatch);
        result.map_err(|s| Trap {
            kernel: dispatch.kernel.name.clone(),
            at: dispatch.kernel.source.at(s.word).filter(|_| !matches!(s.kind, TrapKind::Module(_))),
            kind: s.kind,
            word: s.word,
            workgroup: s.workgroup,
            invocation: s.invocation,
            detail: s.detail,
        })
    }

    fn run_unnamed(&self, d: &Dispatch<'_>) -> Result<Counters, Stopped> {
        let mut state = self.lock();
        let program = state.program(&d.kernel.words, &d.kernel.layout.entry)?;
        let width = d.kernel.layout.subgroup_size.unwrap_or(self.options.subgroup_size);
        self.check(&program, width)?;
        if d.grid.is_empty() {
            return Ok(Counters::default());
        }
        let (ids, memory) = state.bind(&program, d, width)?;
        let run = Run::new(&program, memory, d.grid.0, d.kernel, width, &self.options);
        let (memory, printed, result) = run.finish();
        state.printed = printed;
        state.buffers.extend(ids.into_iter().zip(memory.buffers));
        let counters = result?;
        state.last = counters;
        Ok(counters)
    }

    fn check(&self, p: &Program, width: u32) -> Result<(), Stopped> {
        if !SUBGROUP_SIZES.contains(&width) {
            return Err(refused(format!("a subgroup of {width} lanes is none of {SUBGROUP_SIZES:?}")));
        }
        let invocations = p.local_size.iter().try_fold(1u32, |n, &s| n.checked_mul(s));
        if !invocations.is_some_and(|n| (1..=MAX_INVOCATIONS).contains(&n)) {
            let [x, y, z] = p.local_size;
            let detail =
                format!("a workgroup of {x} x {y} x {z} invocations, 1 to {MAX_INVOCATIONS} are allowed");
            return Err(refused(detail));
        }
        let lanes = u64::from(invocations.unwrap_or(0).next_multiple_of(width));
        let subgroups = lanes / u64::from(width);
        let matrices = p.registers.iter().map(|s| match s.sharing {
            Sharing::Subgroup => s.len() as u64 * subgroups,
            Sharing::Workgroup => s.len() as u64,
        });
        let bytes = (lanes * u64::from(p.slots) + matrices.sum::<u64>()) * 4;
        if bytes > MAX_REGISTER_BYTES {
            return Err(refused(format!("{bytes} bytes of registers, {MAX_REGISTER_BYTES} are allowed")));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(detail: String) -> Stopped {
    Stopped { kind: TrapKind::Dispatch, word: 0, workgroup: [0; 3], invocation: 0, detail }
}

impl State {
    fn program(&mut self, words: &[u32], entry: &str) -> Result<Arc<Program>, Stopped> {
        let key = (words.to_vec(), entry.to_owned());
        let decoded = self.decoded.entry(key).or_insert_with_key(|(w, e)| decode::decode(w, e).map(Arc::new));
        decoded.clone().map_err(|e| Stopped { kind: TrapKind::Module(Box::new(e)), ..refused(String::new()) })
    }

    /// Takes the bound buffers out of the store and lays the dispatch's memory over them.
    fn bind<'a>(
        &mut self,
        p: &Program,
        d: &Dispatch<'a>,
        width: u32,
    ) -> Result<(Vec<BufferId>, Memory<'a>), Stopped> {
        let (mut ids, mut views, mut granules, mut stored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let layout = &d.kernel.layout.bindings;
        for b in &p.bindings {
            let at = layout.iter().position(|l| l.index == b.number);
            let Some((name, range)) = at.and_then(|at| Some((&layout[at].name, *d.bindings.get(at)?))) else {
                return Err(refused(format!("binding {} of the module has no range", b.number)));
            };
            let BufferRange { buffer: id, offset_bytes, bytes } = range;
            let missing = || refused(format!("argument {name}: there is no buffer {}", id.0));
            let buffer = self.buffers.get(&id).ok_or_else(missing)?;
            let inside = buffer
                .range(id, offset_bytes, bytes)
                .map_err(|e| refused(format!("argument {name}: {e}")))?;
            let index = ids.iter().position(|&i| i == id).unwrap_or(ids.len());
            if index == ids.len() {
                ids.push(id);
                granules.push(4u32);
                stored.push(false);
            }
            // One granule holds no two scalars of which one could be touched alone.
            let aligned = 1 << inside.start.trailing_zeros().min(2);
            granules[index] = granules[index].min(b.smallest).min(aligned);
            stored[index] |= b.stored;
            let name = format!("{name} (binding {})", b.number);
            views.push(View { buffer: index, start: inside.start, bytes: inside.len(), name });
        }
        let buffers: Vec<Buffer> = ids.iter().filter_map(|id| self.buffers.remove(id)).collect();
        let shadows = buffers.iter().zip(granules).zip(stored);
        let shadows = shadows.map(|((b, g), stored)| stored.then(|| Shadow::new(b.bytes.len(), g))).collect();
        let subgroups = p.local_size.iter().product::<u32>().div_ceil(width) as usize;
        let memory = Memory {
            buffers,
            shadows,
            views,
            push: d.push,
            workgroup: vec![0; p.workgroup_scalars as usize],
            cells: vec![Cell::default(); p.workgroup_scalars as usize],
            buffer_clock: Clock::new(subgroups, width, true),
            workgroup_clock: Clock::new(subgroups, width, false),
            now: 0,
        };
        Ok((ids, memory))
    }
}

impl Device for Interpreter {
    fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    fn allocate(&self, bytes: u64, label: &str) -> Result<BufferId, DeviceError> {
        if bytes == 0 || bytes > MAX_BUFFER_BYTES {
            let reason = format!("a buffer has 1 to {MAX_BUFFER_BYTES} bytes");
            return Err(DeviceError::OutOfMemory { label: label.to_owned(), bytes, reason });
        }
        let mut state = self.lock();
        let id = BufferId::unique();
        state.buffers.insert(id, Buffer::new(bytes as usize));
        Ok(id)
    }

    fn free(&self, buffer: BufferId) {
        self.lock().buffers.remove(&buffer);
    }

    fn write(&self, buffer: BufferId, offset_bytes: u64, data: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let found = state.buffers.get_mut(&buffer).ok_or(no_buffer(buffer, offset_bytes, data.len()))?;
        let range = found.range(buffer, offset_bytes, data.len() as u64)?;
        found.define(range.start, range.len());
        found.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: BufferId, offset_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let state = self.lock();
        let found = state.buffers.get(&buffer).ok_or(no_buffer(buffer, offset_bytes, out.len()))?;
        let range = found.range(buffer, offset_bytes, out.len() as u64)?;
        out.copy_from_slice(&found.bytes[range]);
        Ok(())
    }

    fn dispatch(&self, dispatch: &Dispatch<'_>) -> Result<(), DeviceError> {
        self.run(dispatch)
            .map(drop)
            .map_err(|t| DeviceError::Trap { kernel: t.kernel.clone(), trap: t.text() })
    }
}

fn no_buffer(buffer: BufferId, offset: u64, bytes: usize) -> DeviceError {
    DeviceError::OutOfRange { buffer, offset, end: offset.saturating_add(bytes as u64), size: 0 }
}
