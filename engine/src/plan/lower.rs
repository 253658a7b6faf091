//! From graph words to launches.

mod attention;
mod choose;
mod linear;
mod pages;
mod runs;
mod step;
mod weights;

use std::collections::BTreeMap;

use kiln_abi::{BufferId, BufferRange, DeviceCaps, Limits};
use kiln_kernels::{
    Call, Registry,
    add::{Add, AddArgs, AddPush},
    gather_rows::{GatherRows, GatherRowsArgs, GatherRowsPush},
    gemv::Exact,
    get_rows::{GetRowsOperands, GetRowsPush},
    glu::{Glu, GluArgs, GluPush},
    rms_norm::{RmsNorm, RmsNormArgs, RmsNormPush},
    rope::{Rope as RopeKernel, RopeArgs, RopePush},
    sample::{MAX_CHUNKS, SAMPLER_WORDS, TOO_MANY_IDS},
    scale::{Scale, ScaleArgs, ScalePush},
    step::step_words,
};

use self::linear::Operands;
use self::pages::{context, groups};
use self::step::Step;
use super::{
    Context, Holds, NARROW, PageGroup, PlanError, PlanOptions, PlannedBuffer, PlannedStep, PlannedWord,
    RING_LINES, StepClass, Width, runs::Runs, scratch::Scratch,
};
use crate::forward::PREFILL_WINDOW;
use crate::graph::{Activation, Graph, Op, Rope, RopePairs, TensorId, ValueId};

/// Rows of a prefill step, at most.
const WINDOW: u32 = PREFILL_WINDOW as u32;
/// Outputs of a step, at most: each takes room for a row of logits.
const OUTPUTS: u32 = 128;
/// A window for short prompts.
const SHORT_WINDOW: u32 = NARROW as u32;
/// Rows of the classes of steps.
const CLASS_ROWS: [u32; 3] = [1, SHORT_WINDOW, WINDOW];
/// Outputs of a part beside the first of a step, at most: these take room as well.
const OUTPUTS_BESIDE: u32 = 32;
/// A matrix in pieces is cut at multiples of so many rows, which keeps every piece's offset aligned.
const PIECE_ROWS: u64 = 256;

/// What the graph becomes on a device with such limits, whatever its memory.
pub(super) struct Lowered {
    pub(super) buffers: Vec<PlannedBuffer>,
    pub(super) declines: Vec<String>,
    pub(super) unmet: Option<String>,
    pub(super) steps: Vec<PlannedStep>,
    pub(super) matrices: bool,
    pub(super) beside: Vec<Vec<(usize, usize)>>,
    pub(super) outputs_beside: u32,
    pub(super) context: Context,
    pub(super) groups: Vec<PageGroup>,
    pub(super) n_vocab: u32,
    pub(super) window: u32,
    pub(super) outputs: u32,
    pub(super) n_choices: u32,
}

/// Lowers a graph for a context of `n_ctx` positions.
pub(super) fn lower(
    graph: &Graph,
    type_id: &dyn Fn(TensorId) -> Option<u32>,
    registry: &Registry,
    caps: &DeviceCaps,
    options: PlanOptions,
    n_ctx: usize,
) -> Result<Lowered, PlanError> {
    let n_vocab = index("the vocabulary", graph.n_vocab())?;
    if n_vocab >= TOO_MANY_IDS {
        return Err(PlanError::Vocabulary { found: n_vocab });
    }
    let context = context(options, n_ctx)?;
    let n_choices = choose::choices(&caps.limits, n_vocab).min(context.n_slots);
    let (window, outputs) = (WINDOW, outputs(&caps.limits, n_vocab));
    let mut planner = Planner {
        graph,
        runs: Runs::of(graph),
        registry,
        type_id,
        caps,
        fuse: !options.plain,
        whole_keys: options.plain || options.whole_keys,
        exact: if options.plain { Exact::Float } else { options.class.exact() },
        exact_head: if options.plain { Exact::Float } else { options.class.head() },
        n_ctx,
        context,
        window,
        outputs,
        n_choices,
        buffers: Vec::new(),
        shared: BTreeMap::new(),
        angles: Vec::new(),
        layers: BTreeMap::new(),
        groups: groups(graph, options, context, window),
        tables: Vec::new(),
        fixed: Fixed::default(),
    };
    planner.fixed = planner.fixed_buffers(n_vocab)?;
    planner.page_tables();
    let (matrices, declines) = planner.matrices()?;
    let unmet = planner.unmet()?;
    let outputs_beside = OUTPUTS_BESIDE.min(outputs);
    let beside = if matrices { planner.beside(n_vocab, outputs_beside) } else { Vec::new() };
    let mut scratch = Scratch::new(window);
    let mut steps = Vec::new();
    for class in classes(matrices, window, [outputs, outputs_beside]) {
        steps.push(planner.step(class, &mut scratch)?);
    }
    planner.check_bindings()?;
    let Planner { buffers, groups, .. } = planner;
    Ok(Lowered {
        buffers,
        declines,
        unmet,
        steps,
        matrices,
        beside,
        outputs_beside,
        context,
        groups,
        n_vocab,
        window,
        outputs,
        n_choices,
    })
}

/// The classes of a device with or without matrices, for steps of up to `window` rows and so many outputs, in their
/// first part and in others.
fn classes(matrices: bool, window: u32, [outputs, beside]: [u32; 2]) -> Vec<StepClass> {
    let [one, short, _] = CLASS_ROWS;
    let narrow = [(one, 1), (short, 1), (short, short.min(outputs))];
    let narrow = narrow.map(|room| (Width::Narrow, room)).into_iter();
    let rest = if matrices {
        vec![
            (Width::Narrow, (window, beside)),
            (Width::Narrow, (window, outputs)),
            (Width::Wide, (window, 1)),
            (Width::Wide, (window, beside)),
            (Width::Wide, (window, outputs)),
            (Width::Whole, (window, outputs)),
        ]
    } else {
        vec![(Width::Narrow, (window, 1)), (Width::Narrow, (window, outputs))]
    };
    narrow.chain(rest).map(|(width, (rows, outputs))| StepClass { width, rows, outputs }).collect()
}

/// As many outputs as have room for their logits in one binding.
fn outputs(limits: &Limits, n_vocab: u32) -> u32 {
    let rows = limits.max_binding_bytes / (4 * u64::from(n_vocab.max(1)));
    u32::try_from(rows).unwrap_or(OUTPUTS).clamp(1, OUTPUTS)
}

fn index(what: &'static str, found: usize) -> Result<u32, PlanError> {
    u32::try_from(found).map_err(|_| PlanError::TooLarge { what, found })
}

/// Buffers that there is one of.
#[derive(Debug, Clone, Copy, Default)]
struct Fixed {
    step: usize,
    output_step: usize,
    hidden: usize,
    logits: usize,
    samplers: usize,
    firsts: usize,
    counts: usize,
    candidates: usize,
    chosen: usize,
    ring: usize,
    /// Sums and marks of the parts of attention, where any launch has parts.
    parts: Option<[usize; 2]>,
}

/// A piece of a matrix: buffer, first row, rows.
#[derive(Debug, Clone, Copy)]
struct Piece {
    buffer: usize,
    first: u32,
    m: u32,
}

struct Planner<'a> {
    graph: &'a Graph,
    runs: Runs<'a>,
    registry: &'a Registry,
    type_id: &'a dyn Fn(TensorId) -> Option<u32>,
    caps: &'a DeviceCaps,
    /// Whether several words may be one launch.
    fuse: bool,
    /// Whether attention never takes keys in parts.
    whole_keys: bool,
    /// How exact rows of x are for packed weights.
    exact: Exact,
    /// The same for the head.
    exact_head: Exact,
    n_ctx: usize,
    context: Context,
    window: u32,
    outputs: u32,
    n_choices: u32,
    buffers: Vec<PlannedBuffer>,
    /// Pieces of each weight that has a place.
    shared: BTreeMap<TensorId, Vec<Piece>>,
    angles: Vec<(Rope, usize)>,
    /// Keys and values of each layer.
    layers: BTreeMap<usize, (usize, usize)>,
    groups: Vec<PageGroup>,
    /// The page table of each group.
    tables: Vec<usize>,
    fixed: Fixed,
}

impl<'a> Planner<'a> {
    fn buffer(&mut self, name: impl Into<String>, bytes: u64, holds: Holds) -> usize {
        self.buffers.push(PlannedBuffer { name: name.into(), bytes, holds });
        self.buffers.len() - 1
    }

    fn range(&self, buffer: usize) -> BufferRange {
        let id = BufferId(buffer as u64);
        BufferRange { buffer: id, offset_bytes: 0, bytes: self.buffers[buffer].bytes }
    }

    /// The logits of a step, which are fewer where it is a part beside another.
    fn logits(&self, class: StepClass) -> BufferRange {
        let row = 4 * self.graph.n_vocab() as u64;
        BufferRange { bytes: row * u64::from(class.outputs), ..self.range(self.fixed.logits) }
    }

    fn fixed_buffers(&mut self, n_vocab: u32) -> Result<Fixed, PlanError> {
        let window = self.window;
        let step_bytes = 4 * u64::from(step_words(window));
        let (choices, words) = (self.n_choices, |n: u32| 4 * u64::from(n));
        let (n_embd, outputs) = (self.graph.widths[self.graph.hidden.0] as u64, u64::from(self.outputs));
        Ok(Fixed {
            step: self.buffer("step block", step_bytes, Holds::Step),
            output_step: self.buffer("step block of the outputs", step_bytes, Holds::OutputStep),
            hidden: self.buffer("hidden rows of the outputs", 4 * n_embd * outputs, Holds::Scratch),
            logits: self.buffer("logits", 4 * u64::from(n_vocab) * outputs, Holds::Logits),
            samplers: self.buffer("samplers", words(self.context.n_slots * SAMPLER_WORDS), Holds::Samplers),
            firsts: self.buffer("firsts", words(choices * MAX_CHUNKS), Holds::Candidates),
            counts: self.buffer("counts", words(choices), Holds::Candidates),
            candidates: self.buffer("candidates", 2 * u64::from(n_vocab) * words(choices), Holds::Candidates),
            chosen: self.buffer("choices", words(choices), Holds::Chosen),
            ring: self.buffer("ring of choices", words(RING_LINES * choices), Holds::Ring),
            parts: None,
        })
    }

    /// What the parts of a step beside its first have of their own: one part for each width.
    fn beside(&mut self, n_vocab: u32, outputs: u32) -> Vec<Vec<(usize, usize)>> {
        let Fixed { step, logits, ring, .. } = self.fixed;
        let part = |planner: &mut Self| {
            let logits_bytes = 4 * u64::from(n_vocab) * u64::from(outputs);
            let own = [(step, None), (logits, Some(logits_bytes)), (ring, None)];
            let own = own.map(|(of, bytes)| {
                let PlannedBuffer { name, bytes: whole, holds } = planner.buffers[of].clone();
                (of, planner.buffer(format!("{name} beside"), bytes.unwrap_or(whole), holds))
            });
            own.to_vec()
        };
        (0..2).map(|_| part(self)).collect()
    }

    fn check_bindings(&self) -> Result<(), PlanError> {
        match self.buffers.iter().find(|b| b.bytes > self.caps.limits.max_binding_bytes) {
            None => Ok(()),
            Some(b) => Err(PlanError::Binding {
                name: b.name.clone(),
                needed: b.bytes,
                allowed: self.caps.limits.max_binding_bytes,
                n_ctx: self.n_ctx,
            }),
        }
    }

    fn step(&mut self, class: StepClass, scratch: &mut Scratch) -> Result<PlannedStep, PlanError> {
        let graph = self.graph;
        let mut step = Step::new(class);
        let mut last_uses = graph.last_uses();
        let mut at = 0;
        while at < graph.nodes.len() {
            let run = self.run(class, at)?;
            let nodes = at..at + run.len();
            let served = &graph.nodes[nodes.clone()];
            let is_own = |value: &ValueId| served.iter().any(|node| node.output == *value);
            let operands = served.iter().flat_map(|node| node.op.inputs()).filter(|value| !is_own(value));
            let reads = operands.flat_map(|x| step.kept(x).into_iter().map(move |kept| (x, kept))).collect();
            let first = step.launches.len();
            self.launch(&mut step, run, at, scratch)?;
            let made = served.iter().enumerate();
            let writes =
                made.flat_map(|(i, node)| step.kept(node.output).into_iter().map(move |kept| (i, kept)));
            let writes = writes.collect();
            at = nodes.end;
            for value in last_uses[nodes.clone()].iter_mut().flat_map(std::mem::take) {
                step.forget_packed(Some(value), scratch);
                let buffer = step.values.remove(&value);
                if let Some(buffer) = buffer.filter(|buffer| *buffer != self.fixed.logits) {
                    scratch.give(buffer, graph.widths[value.0]);
                }
            }
            let launches = first..step.launches.len();
            step.words.push(PlannedWord { nodes, reads, writes, launches });
        }
        step.forget_packed(None, scratch);
        self.choose(&mut step);
        Ok(PlannedStep { class, launches: step.launches, words: step.words })
    }

    fn node(
        &mut self,
        step: &mut Step,
        op: Op,
        output: ValueId,
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let width = self.graph.widths[output.0];
        // Past the hidden rows, all is for the outputs alone and stays in the logits' buffer.
        match op {
            Op::Linear { x, weight, bias } if x == self.graph.hidden => {
                step.values.insert(output, self.fixed.logits);
                return self.head(step, x, (weight, bias), scratch);
            }
            Op::SoftCap { cap, .. } if output == self.graph.logits => {
                step.values.insert(output, self.fixed.logits);
                return self.cap_logits(step, cap);
            }
            _ if output == self.graph.logits => {
                return Err(PlanError::Word { word: "an output head that is not a matrix" });
            }
            _ => {}
        }
        let y = scratch.take(width, &mut self.buffers);
        step.values.insert(output, y);
        match op {
            Op::Embed { table } => self.embed(step, table, y),
            Op::RmsNorm { x, gain, eps } => self.rms_norm(step, x, gain, eps, y),
            Op::Linear { x, weight, bias } => {
                let operands = self.operands(step, x);
                self.linear(step, (weight, bias), operands, self.range(y), scratch)
            }
            Op::Rope { x, head_dim, rope } => self.rope(step, x, head_dim, rope, y),
            Op::Attention { q, k, v, layer, attention } => {
                self.attention(step, [q, k, v], layer, attention, y)
            }
            Op::Glu { gate, up, activation } => self.glu(step, gate, up, activation, y),
            Op::Add { a, b } => self.add(step, a, b, y),
            Op::Scale { x, factor } => self.scale(step, x, factor, y),
            Op::SoftCap { .. } => Err(PlanError::Word { word: "capped activations within a layer" }),
        }
    }

    // ---- words -------------------------------------------------------------------------------------------------

    fn embed(&mut self, step: &mut Step, table: TensorId, y: usize) -> Result<(), PlanError> {
        let (format, pieces) = self.matrix(table)?;
        let k = index("a row", self.graph.tensors[table.0].shape[1])?;
        for Piece { buffer, first, m } in pieces {
            let (w, block, y) = (self.range(buffer), self.range(self.fixed.step), self.range(y));
            let p = GetRowsPush { rows: step.class.rows, first, m, k };
            step.launch("embed", (format.get_rows)(GetRowsOperands { w, step: block, y }, p));
        }
        Ok(())
    }

    fn rms_norm(
        &mut self,
        step: &mut Step,
        x: ValueId,
        gain: TensorId,
        eps: f32,
        y: usize,
    ) -> Result<(), PlanError> {
        let n = index("a norm's gain", self.graph.tensors[gain.0].n_elems())?;
        let groups = index("a row", self.graph.widths[x.0])? / n;
        let w = self.floats(gain);
        let args = RmsNormArgs {
            x: self.range(step.values[&x]).into(),
            w: self.range(w).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(y).into(),
            p: RmsNormPush { rows: step.class.rows, groups, n, eps },
        };
        step.launch(&self.graph.tensors[gain.0].name, Call::new(RmsNorm::new(), &args));
        Ok(())
    }

    fn rope(
        &mut self,
        step: &mut Step,
        x: ValueId,
        head_dim: usize,
        rope: Rope,
        y: usize,
    ) -> Result<(), PlanError> {
        let angles = self.angles(rope);
        let args = RopeArgs {
            x: self.range(step.values[&x]).into(),
            angles: self.range(angles).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(y).into(),
            p: RopePush {
                rows: step.class.rows,
                n: index("a row", self.graph.widths[x.0])?,
                head_dim: index("a head", head_dim)?,
                n_rot: index("a head", rope.n_rot)?,
                n_ctx: self.context.n_ctx,
            },
        };
        step.launch("rope", Call::new(RopeKernel::new(rope.pairs == RopePairs::Halves), &args));
        Ok(())
    }

    fn glu(
        &mut self,
        step: &mut Step,
        gate: ValueId,
        up: ValueId,
        activation: Activation,
        y: usize,
    ) -> Result<(), PlanError> {
        let args = GluArgs {
            gate: self.range(step.values[&gate]).into(),
            up: self.range(step.values[&up]).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(y).into(),
            p: GluPush { rows: step.class.rows, n: index("a row", self.graph.widths[gate.0])? },
        };
        step.launch("glu", Call::new(Glu::new(activation == Activation::GeluTanh), &args));
        Ok(())
    }

    fn add(&mut self, step: &mut Step, a: ValueId, b: ValueId, y: usize) -> Result<(), PlanError> {
        let args = AddArgs {
            a: self.range(step.values[&a]).into(),
            b: self.range(step.values[&b]).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(y).into(),
            p: AddPush { rows: step.class.rows, n: index("a row", self.graph.widths[a.0])? },
        };
        step.launch("add", Call::new(Add::new(), &args));
        Ok(())
    }

    fn scale(&mut self, step: &mut Step, x: ValueId, factor: f32, y: usize) -> Result<(), PlanError> {
        let args = ScaleArgs {
            x: self.range(step.values[&x]).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(y).into(),
            p: ScalePush { rows: step.class.rows, n: index("a row", self.graph.widths[x.0])?, factor },
        };
        step.launch("scale", Call::new(Scale::new(), &args));
        Ok(())
    }

    // ---- the end of a step -------------------------------------------------------------------------------------

    /// Logits of the outputs only.
    fn head(
        &mut self,
        step: &mut Step,
        x: ValueId,
        weights: (TensorId, Option<TensorId>),
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let StepClass { width, rows, outputs } = step.class;
        let gathered = GatherRowsArgs {
            x: self.range(step.values[&x]).into(),
            step: self.range(self.fixed.step).into(),
            y: self.range(self.fixed.hidden).into(),
            output_step: self.range(self.fixed.output_step).into(),
            p: GatherRowsPush { rows, outputs, n: index("a row", self.graph.widths[x.0])? },
        };
        step.launch("outputs", Call::new(GatherRows::new(), &gathered));
        let operands = Operands {
            x: Some(self.fixed.hidden),
            value: None,
            block: self.range(self.fixed.output_step),
            rows: outputs,
            wide: width == Width::Whole,
            exact: self.exact_head,
        };
        self.linear(step, weights, operands, self.logits(step.class), scratch)
    }
}
