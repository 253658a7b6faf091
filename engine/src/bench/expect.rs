//! What launches must give, in plain Rust, from the operands that the device holds and the weights that the file has.

use kiln_abi::{BufferId, Device as _, DeviceError};
use kiln_kernels::{
    FormatRow, Registry,
    activations::{self, Planes},
    conformance::{F32_ROUNDOFF, Random, gamma},
    gemv::{Arm, Exact, Shape},
    kv_store::PAGE,
    kv_type::KvType,
    reference::{self as plain, Bounded, Rows},
    step::StepRow,
};
use kiln_runtime::Gpu;

use super::gate::GateError;
use crate::graph::{Activation, Attention, Graph, Op, Rope, TensorId, ValueId};
use crate::plan::{Holds, Kept, Late, PageGroup, Plan, PlannedWord, StepClass, Width};
use crate::reference::math;
use crate::session::ModelFile;

/// Outputs compared of each kind of launch.
pub(super) const N_SAMPLES: usize = 256;
/// Rows that they are spread over.
pub(super) const N_ROWS: usize = 8;
/// Sums run at least as many ways at once: no kernel adds products one after the other in fewer chains.
const CHAINS: usize = 32;

/// One output and what it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Which of the word's results.
    pub(super) of: usize,
    /// Index into it.
    pub(super) element: usize,
    /// The exact result.
    pub(super) value: f64,
    /// What roundings explain.
    pub(super) bound: f64,
}

/// The step that a launch belongs to, and where its operands are.
pub(super) struct Scene<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) plan: &'a Plan,
    pub(super) file: &'a ModelFile,
    pub(super) registry: &'a Registry,
    /// By index in the plan.
    pub(super) buffers: &'a [BufferId],
    /// Room of the step's command.
    pub(super) class: StepClass,
    pub(super) rows: &'a [StepRow],
    pub(super) outputs: &'a [u32],
}

/// Samples of a word's results.
pub(super) struct Expectation {
    pub(super) samples: Vec<Sample>,
    /// Where results are, and how wide their rows.
    writes: Vec<(Kept, usize)>,
}

impl Expectation {
    /// Computed from the operands as they are, so before the launches run where those write over them, else after.
    pub(super) fn of(scene: &Scene, word: &PlannedWord, random: &mut Random) -> Result<Self, GateError> {
        let graph = &scene.file.model.graph;
        let nodes = &graph.nodes[word.nodes.clone()];
        // Behind the last hidden rows there are only those of the outputs.
        let hidden = graph.nodes.iter().position(|node| node.output == graph.hidden);
        let is_head = hidden.is_some_and(|hidden| word.nodes.start > hidden);
        let n_rows = if is_head { scene.outputs.len() } else { scene.rows.len() };
        let width = |(node, _): &(usize, Kept)| graph.widths[nodes[*node].output.0];
        let rows = spread(n_rows, N_ROWS);
        let each = N_SAMPLES / rows.len() / word.writes.len().max(1);
        let mut samples = Vec::new();
        for &row in &rows {
            let results = match *nodes {
                [node] => vec![(0, scene.row(graph, node.op, word, row, random)?)],
                _ => scene.run(nodes, word, row, random)?,
            };
            for (of, made) in word.writes.iter().enumerate() {
                let result = results.iter().find(|(node, _)| *node == made.0);
                let own =
                    result.map(|(_, result)| result.samples(of, row * width(made), (each, made.1), random));
                samples.extend(own.into_iter().flatten());
            }
        }
        let writes = word.writes.iter().map(|made| (made.1, width(made))).collect();
        Ok(Self { samples, writes })
    }

    /// What the device has there; NaN where a block's scale or sums are not those of its bytes.
    pub(super) fn found(&self, scene: &Scene) -> Result<Vec<f32>, DeviceError> {
        let read = |s: &Sample| match self.writes[s.of] {
            (Kept::Rows(buffer), _) => scene.read(buffer, s.element, 1).map(|x| x[0]),
            (Kept::Blocks(buffer), width) => {
                scene.unpacked(buffer, s.element / width, width).map(|row| row[s.element % width])
            }
            (Kept::Late { blocks, late }, width) => {
                scene.scaled((blocks, late), s.element / width, width).map(|row| row[s.element % width])
            }
        };
        self.samples.iter().map(read).collect()
    }
}

/// A row's results: all of them, or some by their index.
pub(super) enum Row {
    /// All.
    Whole(Bounded),
    /// Index, value, bound.
    Some(Vec<(usize, f64, f64)>),
}

impl Row {
    fn samples(&self, of: usize, first: usize, (n, kept): (usize, Kept), random: &mut Random) -> Vec<Sample> {
        let sample = |i: usize, value, bound| Sample { of, element: first + i, value, bound };
        match self {
            Row::Some(some) => some.iter().map(|(i, value, bound)| sample(*i, *value, *bound)).collect(),
            Row::Whole(Bounded { values, bounds }) => {
                let widened = match kept {
                    Kept::Rows(_) => bounds,
                    Kept::Blocks(_) | Kept::Late { .. } => &activations::with_steps(values, bounds),
                };
                pick(values.len(), n, random).into_iter().map(|i| sample(i, values[i], widened[i])).collect()
            }
        }
    }
}

/// Up to `n` of `0..total`, the ends among them.
fn spread(total: usize, n: usize) -> Vec<usize> {
    let n = n.min(total).max(1);
    let mut all: Vec<usize> =
        (0..n).map(|i| i * total.saturating_sub(1) / n.saturating_sub(1).max(1)).collect();
    all.dedup();
    all
}

/// Up to `n` different ones of `0..total`, the ends among them.
pub(super) fn pick(total: usize, n: usize, random: &mut Random) -> Vec<usize> {
    if total <= n {
        return (0..total).collect();
    }
    let below = u32::try_from(total).unwrap_or(u32::MAX);
    let mut picked: Vec<usize> = (2..n).map(|_| random.below(below) as usize).chain([0, total - 1]).collect();
    picked.sort_unstable();
    picked.dedup();
    picked
}

impl Scene<'_> {
    /// `n` f32 of a buffer from element `first` on.
    pub(super) fn read(&self, index: usize, first: usize, n: usize) -> Result<Vec<f32>, DeviceError> {
        let mut bytes = vec![0; 4 * n];
        self.gpu.read(self.buffers[index], 4 * first as u64, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// The first `n` words of a buffer.
    fn words(&self, index: usize, n: usize) -> Result<Vec<u32>, DeviceError> {
        Ok(self.read(index, 0, n)?.into_iter().map(f32::to_bits).collect())
    }

    /// A row of a buffer of blocks; NaNs where a word of it does not fit the others.
    fn unpacked(&self, index: usize, row: usize, width: usize) -> Result<Vec<f32>, DeviceError> {
        let n_words =
            usize::try_from(activations::row_bytes(Planes::Two, 1, width as u32) / 4).unwrap_or(usize::MAX);
        let words: Vec<u32> =
            self.read(index, row * n_words, n_words)?.into_iter().map(f32::to_bits).collect();
        Ok(activations::read_row(&words).unwrap_or_else(|_| vec![f32::NAN; width]))
    }

    /// A row in blocks of a norm whose scale comes late.
    fn scaled(
        &self,
        (blocks, late): (usize, Late),
        row: usize,
        width: usize,
    ) -> Result<Vec<f32>, DeviceError> {
        let n = width / activations::BLOCK as usize;
        let sum: f64 = self.read(late.squares, row * n, n)?.iter().map(|x| f64::from(*x)).sum();
        let scale = 1.0 / (sum / width as f64 + f64::from(late.eps)).sqrt();
        let blocks = self.unpacked(blocks, row, width)?;
        Ok(blocks.iter().map(|x| (f64::from(*x) * scale) as f32).collect())
    }

    /// Row `row` of an operand of `word`, and whether it is in blocks.
    pub(super) fn operand(
        &self,
        word: &PlannedWord,
        value: ValueId,
        row: usize,
    ) -> Result<(Vec<f32>, bool), DeviceError> {
        let graph = &self.file.model.graph;
        let (width, row) = match value == graph.hidden {
            true => (graph.widths[value.0], self.outputs[row] as usize),
            false => (graph.widths[value.0], row),
        };
        let mut kept = word.reads.iter().filter(|(read, _)| *read == value).map(|(_, kept)| *kept);
        match kept.next_back() {
            Some(Kept::Blocks(buffer)) => Ok((self.unpacked(buffer, row, width)?, true)),
            Some(Kept::Late { blocks, late }) => Ok((self.scaled((blocks, late), row, width)?, true)),
            Some(Kept::Rows(buffer)) => Ok((self.read(buffer, row * width, width)?, false)),
            None => Ok((vec![f32::NAN; width], false)),
        }
    }

    /// The same as f32, for words that read no blocks.
    pub(super) fn floats(
        &self,
        word: &PlannedWord,
        value: ValueId,
        row: usize,
    ) -> Result<Vec<f32>, DeviceError> {
        let rows = word.reads.iter().filter(|(_, kept)| matches!(kept, Kept::Rows(_))).copied().collect();
        let word = PlannedWord { reads: rows, ..word.clone() };
        Ok(self.operand(&word, value, row)?.0)
    }

    /// Row `at` of a tensor, or all of one that is a single row.
    pub(super) fn weights(&self, tensor: TensorId, at: usize) -> Result<Vec<f32>, GateError> {
        let spec = &self.file.model.graph.tensors[tensor.0];
        let mut values = vec![0.0; spec.shape.last().copied().unwrap_or(0)];
        let decoded = self.format(tensor)?.dequantize(self.blocks(tensor, at)?, &mut values);
        decoded.map_err(|_| GateError::Gone { tensor: spec.name.clone() })?;
        Ok(values)
    }

    fn format(&self, tensor: TensorId) -> Result<&FormatRow, GateError> {
        let name = &self.file.model.graph.tensors[tensor.0].name;
        let found = self.file.gguf.tensor(name).and_then(|found| self.registry.format(found.type_id));
        found.ok_or_else(|| GateError::Gone { tensor: name.clone() })
    }

    /// The blocks of row `at` of a tensor.
    fn blocks(&self, tensor: TensorId, at: usize) -> Result<&[u8], GateError> {
        let spec = &self.file.model.graph.tensors[tensor.0];
        let gone = || GateError::Gone { tensor: spec.name.clone() };
        let found = self.file.gguf.tensor(&spec.name).ok_or_else(gone)?;
        let width = spec.shape.last().copied().unwrap_or(0);
        let geometry = self.format(tensor)?.geometry;
        let row_bytes = geometry.row_bytes(width as u64).ok_or_else(gone)? as usize;
        found.data.get(at * row_bytes..(at + 1) * row_bytes).ok_or_else(gone)
    }

    /// Row `row` of the result of one word.
    fn row(
        &self,
        graph: &Graph,
        op: Op,
        word: &PlannedWord,
        row: usize,
        random: &mut Random,
    ) -> Result<Row, GateError> {
        let operand = |value: ValueId| self.floats(word, value, row);
        Ok(Row::Whole(match op {
            Op::Embed { table } => {
                let values = self.weights(table, self.rows[row].token as usize)?;
                let values: Vec<f64> = values.into_iter().map(f64::from).collect();
                Bounded { bounds: vec![0.0; values.len()], values }
            }
            Op::Scale { x, factor } => {
                let values: Vec<f64> =
                    operand(x)?.iter().map(|x| f64::from(*x) * f64::from(factor)).collect();
                Bounded { bounds: values.iter().map(|v| v.abs() * gamma(1, F32_ROUNDOFF)).collect(), values }
            }
            Op::SoftCap { x, cap } => {
                let cap = f64::from(cap);
                let values: Vec<f64> =
                    operand(x)?.iter().map(|x| cap * (f64::from(*x) / cap).tanh()).collect();
                // tanh is exact to a few units of one, wherever it is.
                Bounded { bounds: vec![cap * gamma(16, F32_ROUNDOFF); values.len()], values }
            }
            Op::RmsNorm { x, gain, eps } => norm(&operand(x)?, &self.weights(gain, 0)?, eps),
            Op::Linear { x, weight, bias } => {
                let bias = bias.map(|bias| self.weights(bias, 0)).transpose()?;
                let m = graph.tensors[weight.0].shape[0];
                let some = pick(m, N_SAMPLES / N_ROWS, random);
                let class = self.plan.class;
                let exact = if x == graph.hidden { class.head() } else { class.exact() };
                let room = self.room_on_matrices(x == graph.hidden);
                let x = self.operand(word, x, row)?;
                return Ok(Row::Some(self.linear(&x, room, (weight, bias.as_deref()), (&some, exact))?));
            }
            Op::Rope { x, head_dim, rope } => {
                let factors = rope.factors.map(|f| self.weights(f, 0)).transpose()?;
                rotated(operand(x)?, head_dim, self.rows[row].position as usize, rope, factors.as_deref())
            }
            Op::Attention { q, k, v, layer, attention } => {
                let stored = self.stored(layer, attention, self.rows[row])?;
                stored.holds(&exactly(&operand(k)?), &exactly(&operand(v)?))?;
                stored.attended(&operand(q)?, self.attends_on_matrices(word))
            }
            Op::Glu { gate, up, activation } => {
                plain::glu(&operand(gate)?, &operand(up)?, activation == Activation::GeluTanh)
            }
            Op::Add { a, b } => plain::add(&operand(a)?, &operand(b)?),
        }))
    }

    /// Rows of x that a command multiplies on matrices where it can, of the hidden rows or of all.
    pub(super) fn room_on_matrices(&self, hidden: bool) -> Option<u32> {
        match (hidden, self.class.width) {
            (true, Width::Whole) => Some(self.class.outputs),
            (false, Width::Wide | Width::Whole) => Some(self.class.rows),
            _ => None,
        }
    }

    /// Sums of products with the rows `some` of a matrix, of `room` rows of x on matrices where these take it; x says whether
    /// it is in blocks already.
    pub(super) fn linear(
        &self,
        (x, in_blocks): &(Vec<f32>, bool),
        room: Option<u32>,
        (weight, bias): (TensorId, Option<&[f32]>),
        (some, exact): (&[usize], Exact),
    ) -> Result<Vec<(usize, f64, f64)>, GateError> {
        let spec = &self.file.model.graph.tensors[weight.0];
        let m = spec.shape[0];
        let format = self.format(weight)?;
        let rows = Rows { m: 1, k: x.len() as u32, sharing: 1, ids: &[0] };
        let shape = Shape { rows: 1, m: m as u32, k: x.len() as u32, experts: false, exact };
        let caps = &self.gpu.info().caps;
        let halves = room.is_some_and(|room| format.choose_gemm([room, shape.m, shape.k], caps).is_ok());
        let arm = if halves { Arm::Float } else { format.choose(shape, caps).arm };
        let packed = arm != Arm::Float;
        let x = match arm {
            Arm::Dot4(planes) if !in_blocks => &activations::quantize_row(planes, x).1,
            _ => x,
        };
        // A multiply-add of matrices may cut its sums off, one product after the other.
        let roundings = if halves { 2 * x.len() } else { x.len().div_ceil(CHAINS) + CHAINS } as u32;
        let mut sums = Vec::new();
        for &i in some {
            let weights = self.weights(weight, i)?;
            let offsets = match packed {
                true => (format.offsets)(self.blocks(weight, i)?),
                false => vec![0.0; x.len()],
            };
            let product = plain::gemv(&weights, &offsets, x, rows, roundings);
            let (mut value, mut bound) = (product.values[0], product.bounds[0]);
            if halves {
                bound += plain::half_error(&weights, x) + plain::half_error(x, &weights);
            }
            if let Some(bias) = bias {
                value += f64::from(bias[i]);
                bound += (value.abs() + f64::from(bias[i]).abs()) * gamma(2, F32_ROUNDOFF);
            }
            sums.push((i, value, bound));
        }
        Ok(sums)
    }

    /// Whether the launches of a word attend in f16.
    pub(super) fn attends_on_matrices(&self, word: &PlannedWord) -> bool {
        let step = self.plan.steps.iter().find(|step| step.class == self.class);
        let launches = step.and_then(|step| step.launches.get(word.launches.clone()));
        launches.is_some_and(|launches| launches.iter().any(|l| l.call.name.starts_with("attention_khr")))
    }

    /// What the device has stored of a layer, up to the position of a row.
    pub(super) fn stored(&self, layer: usize, words: Attention, row: StepRow) -> Result<Stored, GateError> {
        let ty = self.plan.context.kv_type;
        let head_dim = words.head_dim;
        let line_words = ty.line_words(head_dim as u32) as usize;
        let window = words.window;
        let group = PageGroup::of(&self.plan.groups, window).unwrap_or(0);
        let kept = self.plan.groups.get(group).map_or(0, |group| group.n_pages as usize);
        let n_pages = kept.min((row.position / PAGE + 1) as usize);
        let read = |holds: Holds| -> Result<Vec<f32>, GateError> {
            let Some(index) = self.plan.find(&holds) else { return Ok(Vec::new()) };
            let lines = self.words(index, n_pages * words.n_head_kv * PAGE as usize * line_words)?;
            Ok(lines
                .chunks_exact(line_words)
                .flat_map(|line| plain::kv::decode(line, head_dim, ty))
                .collect())
        };
        let (keys, values) = (read(Holds::Keys { layer, group })?, read(Holds::Values { layer, group })?);
        Ok(Stored { ty, words, row, kept, keys, values })
    }
}

/// Values that are what they are.
pub(super) fn exactly(x: &[f32]) -> Bounded {
    Bounded { values: x.iter().map(|x| f64::from(*x)).collect(), bounds: vec![0.0; x.len()] }
}

pub(super) fn norm(x: &[f32], gain: &[f32], eps: f32) -> Bounded {
    let depth = (gain.len().div_ceil(CHAINS) + CHAINS) as u32;
    plain::rms_norm(x, gain, eps, depth)
}

pub(super) fn rotated(
    mut x: Vec<f32>,
    head_dim: usize,
    position: usize,
    rope: Rope,
    factors: Option<&[f32]>,
) -> Bounded {
    let sizes: Vec<f64> = x
        .chunks(head_dim)
        .flat_map(|head| {
            let largest = head.iter().fold(0.0f32, |a, b| a.max(b.abs()));
            std::iter::repeat_n(2.0 * f64::from(largest), head.len())
        })
        .collect();
    let width = x.len();
    math::rope(&mut x, width, head_dim, position, rope, factors);
    // Two products and a sum here and there, from the same rounded angles.
    let bounds = sizes.iter().map(|size| size * gamma(6, F32_ROUNDOFF)).collect();
    Bounded { values: x.into_iter().map(f64::from).collect(), bounds }
}

/// Keys and values of a layer as the device keeps them, `[page, n_head_kv, PAGE, head_dim]`.
pub(super) struct Stored {
    ty: KvType,
    words: Attention,
    row: StepRow,
    /// Pages that there are, handed out again from the first on.
    kept: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Stored {
    /// The line of a position and head; the gate hands out pages in order.
    fn line(&self, position: usize, head: usize) -> usize {
        let page = PAGE as usize;
        (position / page % self.kept * self.words.n_head_kv + head) * page + position % page
    }

    /// The row's own key and value are kept as exactly as their type can.
    pub(super) fn holds(&self, key: &Bounded, value: &Bounded) -> Result<(), GateError> {
        let head_dim = self.words.head_dim;
        for (what, given, kept) in [("key", key, &self.keys), ("value", value, &self.values)] {
            let bounds = plain::kv::rounded(given, head_dim, self.ty);
            for (i, (&expected, bound)) in given.values.iter().zip(bounds).enumerate() {
                let (head, element) = (i / head_dim, i % head_dim);
                let found = kept[self.line(self.row.position as usize, head) * head_dim + element];
                if (f64::from(found) - expected).abs() > bound || found.is_nan() {
                    let word = format!("a stored {what} of head {head}");
                    return Err(GateError::Output { word, element, found, expected, bound });
                }
            }
        }
        Ok(())
    }

    /// The row attends to its own and all earlier positions that it sees.
    pub(super) fn attended(&self, q: &[f32], on_matrices: bool) -> Bounded {
        let Attention { n_head, n_head_kv, head_dim, scale, soft_cap, window } = self.words;
        let mixed = self.ty.is_mixed();
        let shape = plain::AttentionShape { n_head, n_head_kv, head_dim, window, scale, soft_cap, mixed };
        let line = |_: u32, position: usize, head: usize| self.line(position, head);
        let (kept, rows) = ((&*self.keys, &*self.values), &[self.row]);
        let mut attended = plain::attention(q, kept, rows, shape, line);
        if on_matrices {
            let more = plain::attention_of_halves(q, kept, rows, shape, line, true);
            attended.bounds.iter_mut().zip(more).for_each(|(bound, more)| *bound += more);
        }
        attended
    }
}
