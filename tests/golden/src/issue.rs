//! What the inner loop of a gemv issues for a weight, beside what a device issues while the weight's bytes come.
//!
//! A count of words, not of a driver's code: what does not change in the loop is taken as moved out of it, equal
//! values are made once, what nobody reads is not made, and these are one instruction: a sum of products of bytes, two
//! logical operations of three values, an addition with the product, shift or addition that it alone uses, an address in
//! workgroup memory with a shift of its index to the right. A vector counts for its components, a load once; an element's
//! address is one integer instruction.

use std::collections::{BTreeMap, BTreeSet};

use kiln_abi::{
    BufferId, BufferRange, DeviceCaps, DeviceKind, Limits, MatrixCaps, StageErrors,
    spirv::{Capability, Effect, GlslOp, Op, StorageClass},
};
use kiln_kernels::{
    FormatRow,
    gemv::{Exact, Form, GemvOperands, GemvPush, Shape, Tile},
};
use kiln_spirv_emit::words::{DecodeError, Instruction, decode};
use thiserror::Error;

/// Kinds of instructions, in the order of [`round`].
pub const KINDS: [&str; 5] = ["loads", "lookups", "integer", "dots", "float"];

/// Rows and columns of the matrix that times are for.
const MATRIX: [u32; 2] = [12288, 4096];
/// Of an H200 as measured (`bench/records`): seconds of a bare dependent launch, bytes a second that are read.
const LAUNCH: f64 = 2.37e-6;
const READ: f64 = 4.459e12;
/// Instructions of a lane a second: 132 multiprocessors, four times 32 lanes a clock, 1.7 GHz.
const ISSUE: f64 = 132.0 * 128.0 * 1.7e9;
/// Times the floor that a format may take of which nothing is recorded.
const TIMES: f64 = 1.8;
/// Where a line has them.
const TIMES_AT: usize = 10;

/// Why a format's instructions cannot be counted.
#[derive(Debug, Error)]
pub enum IssueError {
    /// Its kernel cannot be staged.
    #[error(transparent)]
    Stage(#[from] StageErrors),
    /// Its words cannot be read.
    #[error(transparent)]
    Words(#[from] DecodeError),
}

/// A line for a format at one column: its class, the chosen tile, the instructions of a weight by kind, all of them,
/// how many can be issued in the floor's time for bytes, how many times the floor it may take, as it is `recorded`, how many
/// can be issued in the time that this bar leaves, and the most frequent kind.
///
/// # Errors
/// What the kernel's words do not allow.
pub fn line(row: &FormatRow, exact: Exact, recorded: &str) -> Result<String, IssueError> {
    let [m, k] = MATRIX;
    let choice = row.choose(Shape { rows: 1, m, k, experts: false, exact }, &device());
    let range = BufferRange { buffer: BufferId(0), offset_bytes: 0, bytes: 0 };
    // A row of a known length has no loop to count: it issues the same but for what bounds the loop.
    let tile = Tile { rounds: 0, walk: 0, ..choice.tile };
    let o = GemvOperands {
        w: range,
        v: None,
        x: range,
        step: range,
        ids: None,
        bias: None,
        late: None,
        y: range,
        sum: None,
    };
    let units = m * (k / row.unit);
    let p = GemvPush { rows: 1, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps: 0.0 };
    let staged = (row.gemv.launch(choice.arm))(o, p, tile, Form::default()).stage()?;
    let weights = f64::from(row.unit * tile.rows);
    let each = round(&staged.words)?.map(|n| f64::from(n) / weights);
    let (elements, all) = (f64::from(m) * f64::from(k), each.iter().sum::<f64>());
    let bytes = row.geometry.bytes() as f64 / f64::from(row.geometry.elements());
    let reading = elements * bytes / READ;
    let times = times(row.name, recorded);
    let budget = |seconds: f64| ISSUE * seconds / elements;
    let most = each.iter().zip(KINDS).max_by(|a, b| a.0.total_cmp(b.0)).map_or("", |most| most.1);
    let each = each.map(|n| format!("{n:7.2}")).join(" ");
    let (floor, bar) = (budget(reading), budget(times * (LAUNCH + reading) - LAUNCH));
    let tile = format!("{}x{}", tile.lanes, tile.rows);
    Ok(format!(
        "{:8} {:9} {tile:5} {each} {all:6.2} {floor:7.2} {times:5} {bar:6.2} {most}",
        row.name,
        choice.arm.name()
    ))
}

/// What heads the lines of [`line()`].
pub fn head() -> String {
    let kinds = KINDS.map(|kind| format!("{kind:>7}")).join(" ");
    format!("#        arm       tile  {kinds}    all   floor times    bar most")
}

/// How many times the floor a format may take: what its first line of `recorded` has, by hand.
pub fn times(format: &str, recorded: &str) -> f64 {
    let mut lines = recorded.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = lines.find(|fields| fields.first() == Some(&format));
    own.and_then(|fields| fields.get(TIMES_AT)?.parse().ok()).unwrap_or(TIMES)
}

/// A device with subgroups of 32 that has everything.
fn device() -> DeviceCaps {
    DeviceCaps {
        name: String::new(),
        driver: String::new(),
        kind: DeviceKind::Discrete,
        capabilities: Capability::ALL.iter().copied().collect(),
        left_out: Default::default(),
        subgroup_size: 32,
        subgroup_sizes: (32, 32),
        matrix: MatrixCaps::default(),
        limits: Limits {
            max_invocations: 1024,
            max_local_size: [1024; 3],
            max_grid: [65535; 3],
            max_workgroup_bytes: 49152,
            max_push_bytes: 256,
            max_binding_bytes: u64::from(u32::MAX),
            max_buffer_bytes: 1 << 40,
            max_allocation_bytes: 1 << 40,
            max_bindings: 32,
            binding_offset_alignment: 16,
        },
    }
}

/// Instructions of the loop that multiplies most, by kind, once around.
///
/// # Errors
/// What the op table cannot read.
pub fn round(words: &[u32]) -> Result<[u32; 5], DecodeError> {
    let all = decode(words)?;
    let module = Module::of(&all);
    let body = loops(&all).into_iter().max_by_key(|(from, to)| {
        let multiplies = all[*from..*to].iter().filter(|i| module.multiplies(i)).count();
        (multiplies, usize::MAX - (to - from))
    });
    Ok(body.map_or([0; 5], |(from, to)| module.count(&all[from..to])))
}

/// Where each loop begins and ends.
fn loops(all: &[Instruction<'_>]) -> Vec<(usize, usize)> {
    let mut open: Vec<(u32, usize)> = Vec::new();
    let mut found = Vec::new();
    for (at, i) in all.iter().enumerate() {
        match i.op {
            Op::LoopMerge => open.push((i.word(0), at)),
            Op::Label => {
                found.extend(open.pop_if(|(merge, _)| *merge == i.result).map(|(_, from)| (from, at)))
            }
            _ => {}
        }
    }
    found
}

/// What is known of a module's ids.
struct Module {
    /// Components of a type.
    widths: BTreeMap<u32, u32>,
    /// Storage class behind a pointer.
    classes: BTreeMap<u32, u32>,
    zeros: BTreeSet<u32>,
}

/// An instruction of a loop, its operands by the names under which they are kept.
struct Node {
    op: Op,
    glsl: u32,
    ty: u32,
    result: u32,
    operands: Vec<u32>,
}

impl Module {
    fn of(all: &[Instruction<'_>]) -> Self {
        let (mut widths, mut types, mut classes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut zeros = BTreeSet::new();
        for i in all {
            match i.op {
                Op::TypeVector => drop(widths.insert(i.result, i.word(1))),
                Op::TypePointer => drop(types.insert(i.result, i.word(0))),
                Op::Constant if i.word(0) == 0 => drop(zeros.insert(i.result)),
                _ => {}
            }
            if let Some(&class) = types.get(&i.ty) {
                classes.insert(i.result, class);
            }
        }
        Module { widths, classes, zeros }
    }

    fn multiplies(&self, i: &Instruction<'_>) -> bool {
        i.op == Op::SDot || i.op == Op::ExtInst && i.word(1) == GlslOp::Fma.number()
    }

    fn is_in(&self, pointer: u32, class: StorageClass) -> bool {
        self.classes.get(&pointer) == Some(&class.number())
    }

    fn count(&self, body: &[Instruction<'_>]) -> [u32; 5] {
        let (nodes, mut read) = self.nodes(body);
        // From the end: what is read, and how often.
        let mut uses: BTreeMap<u32, u32> = BTreeMap::new();
        let mut kept = Vec::new();
        for node in nodes.into_iter().rev() {
            if read.contains(&node.result) {
                read.extend(node.operands.iter().copied());
                node.operands.iter().for_each(|o| *uses.entry(*o).or_default() += 1);
                kept.push(node);
            }
        }
        let by_id: BTreeMap<u32, &Node> = kept.iter().map(|n| (n.result, n)).collect();
        let mut within = BTreeSet::new();
        for node in kept.iter().rev() {
            let once = |o: &&u32| uses.get(*o) == Some(&1) && !within.contains(*o);
            let of = |o: &u32| {
                by_id.get(o).copied().filter(|operand| joins(node, operand) || self.undoes(node, operand))
            };
            let joined = node.operands.iter().filter(once).find_map(of);
            // A dot product has the addition; others are had by what reads them.
            within.extend(joined.map(|o| if o.op == Op::SDot { node.result } else { o.result }));
        }
        let mut counts = [0; 5];
        for node in kept.iter().filter(|n| !within.contains(&n.result)) {
            if let Some((kind, n)) = self.cost(node) {
                counts[kind] += n;
            }
        }
        counts
    }

    /// Whether an element's address, whose index is shifted left by the element's size, has that shift done already.
    fn undoes(&self, node: &Node, operand: &Node) -> bool {
        node.op == Op::AccessChain
            && operand.op == Op::ShiftRightLogical
            && self.is_in(node.result, StorageClass::Workgroup)
    }

    /// The instructions whose results change in the loop, equal ones once; and what anything else reads.
    fn nodes(&self, body: &[Instruction<'_>]) -> (Vec<Node>, BTreeSet<u32>) {
        let (mut alias, mut changing, mut seen) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (mut nodes, mut read) = (Vec::new(), BTreeSet::new());
        for i in body {
            let glsl = if i.op == Op::ExtInst { i.word(1) } else { 0 };
            let words = i.parts.iter().skip(if glsl > 0 { 2 } else { 0 }).flat_map(|p| p.words.iter());
            let operands: Vec<u32> = words.map(|w| *alias.get(w).unwrap_or(w)).collect();
            let own = i.op == Op::Load && self.is_in(operands[0], StorageClass::Function);
            match i.op.effect() {
                Effect::Pure | Effect::Partial => {}
                Effect::Load if !own => {}
                Effect::Load => {
                    changing.insert(i.result);
                    continue;
                }
                _ => {
                    read.extend(operands);
                    continue;
                }
            }
            if !operands.iter().any(|o| changing.contains(o)) {
                continue;
            }
            let zero = operands.iter().position(|o| self.zeros.contains(o));
            let same = match (i.op, zero) {
                (Op::IAdd | Op::BitwiseOr, Some(zero)) => operands.get(1 - zero.min(1)).copied(),
                (Op::ShiftRightLogical | Op::ShiftLeftLogical, Some(1)) => Some(operands[0]),
                _ => seen.get(&(i.op.number(), glsl, i.ty, operands.clone())).copied(),
            };
            if let Some(same) = same {
                alias.insert(i.result, same);
                continue;
            }
            seen.insert((i.op.number(), glsl, i.ty, operands.clone()), i.result);
            changing.insert(i.result);
            nodes.push(Node { op: i.op, glsl, ty: i.ty, result: i.result, operands });
        }
        (nodes, read)
    }

    /// The kind of an instruction and how many it is.
    fn cost(&self, node: &Node) -> Option<(usize, u32)> {
        let width = self.widths.get(&node.ty).copied().unwrap_or(1);
        let pointer = node.operands.first().copied().unwrap_or(0);
        match node.op {
            Op::Load if self.is_in(pointer, StorageClass::Workgroup) => Some((1, 1)),
            Op::Load => Some((0, 1)),
            Op::AccessChain if self.is_in(node.result, StorageClass::Function) => None,
            Op::SDot => Some((3, 1)),
            // Parts of registers, another name for them, or done by the load and the instruction that reads it.
            Op::CompositeExtract | Op::CompositeConstruct | Op::Bitcast | Op::UConvert | Op::FNegate => None,
            Op::FAdd | Op::FSub | Op::FMul | Op::VectorTimesScalar | Op::ConvertUToF | Op::ConvertSToF => {
                Some((4, width))
            }
            Op::ExtInst
                if node.glsl == GlslOp::Fma.number() || node.glsl == GlslOp::UnpackHalf2x16.number() =>
            {
                Some((4, width))
            }
            _ => Some((2, width)),
        }
    }
}

/// Whether an instruction does its operand's work too.
fn joins(node: &Node, operand: &Node) -> bool {
    let logical = |op| matches!(op, Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::Not);
    match (node.op, operand.op) {
        (Op::IAdd, Op::SDot | Op::IMul | Op::ShiftLeftLogical | Op::IAdd) => true,
        (Op::ISub, Op::IMul) => true,
        (above, below) if logical(above) && logical(below) => {
            let inputs: BTreeSet<u32> = node.operands.iter().chain(&operand.operands).copied().collect();
            inputs.len() - 1 <= 3
        }
        _ => false,
    }
}
