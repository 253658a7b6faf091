//! The model's graph executed in f32 on the CPU: the oracle that every faster path is held against.
//!
//! [`math`] is the paper; this file walks the graph and keeps the keys and values of earlier positions.

pub mod math;
mod model;
#[cfg(test)]
mod tests;
mod threads;
mod weights;

use std::ops::Range;
use std::sync::Arc;

pub use model::Model;
pub use threads::Threads;
pub use weights::{LoadError, Weights};

use crate::forward::{Forward, ForwardError, check_outputs};
use crate::graph::{Graph, LayerState, Op, TensorId, ValueId};

/// Keys and values of one layer, `[n_past, n_head_kv · head_dim]` each.
#[derive(Debug, Default, Clone)]
struct Kv {
    width: usize,
    k: Vec<f32>,
    v: Vec<f32>,
}

/// One sequence on the reference.
#[derive(Debug)]
pub struct Reference {
    graph: Arc<Graph>,
    weights: Arc<Weights>,
    threads: Threads,
    n_ctx: usize,
    n_past: usize,
    layers: Vec<Kv>,
    last_uses: Vec<Vec<ValueId>>,
}

impl Reference {
    /// An empty sequence of at most `n_ctx` positions.
    pub fn new(graph: Arc<Graph>, weights: Arc<Weights>, threads: Threads, n_ctx: usize) -> Self {
        let kv_of = |state: &LayerState| match *state {
            LayerState::Kv { n_head_kv, head_dim, .. } => Kv { width: n_head_kv * head_dim, ..Kv::default() },
            LayerState::None | LayerState::Recurrent { .. } => Kv::default(),
        };
        let layers = graph.layers.iter().map(kv_of).collect();
        let last_uses = graph.last_uses();
        Self { graph, weights, threads, n_ctx, n_past: 0, layers, last_uses }
    }

    /// The value of one word, `[n_rows, width]`.
    fn run(&mut self, op: Op, ids: &[u32], values: &[Vec<f32>]) -> Vec<f32> {
        let value = |id: ValueId| values[id.0].as_slice();
        let width = |id: ValueId| self.graph.widths[id.0];
        let weight = |id: TensorId| self.weights.tensor(id);
        match op {
            Op::Embed { table } => {
                let n_embd = self.graph.tensors[table.0].shape[1];
                ids.iter().flat_map(|&id| &weight(table)[id as usize * n_embd..][..n_embd]).copied().collect()
            }
            Op::Scale { x, factor } => value(x).iter().map(|x| x * factor).collect(),
            Op::SoftCap { x, cap } => value(x).iter().map(|x| math::soft_cap(*x, cap)).collect(),
            Op::RmsNorm { x, gain, eps } => math::rms_norm(value(x), weight(gain), eps),
            Op::Linear { x, weight: w, bias } => {
                math::linear(value(x), weight(w), bias.map(weight), width(x), self.threads)
            }
            Op::Rope { x, head_dim, rope } => {
                let mut y = value(x).to_vec();
                math::rope(&mut y, width(x), head_dim, self.n_past, rope, rope.factors.map(weight));
                y
            }
            Op::Attention { q, k, v, layer, attention } => {
                let kv = &mut self.layers[layer];
                kv.k.extend_from_slice(value(k));
                kv.v.extend_from_slice(value(v));
                math::attention(value(q), &kv.k, &kv.v, self.n_past, attention, self.threads)
            }
            Op::Glu { gate, up, activation } => math::glu(value(gate), value(up), activation),
            Op::Add { a, b } => value(a).iter().zip(value(b)).map(|(a, b)| a + b).collect(),
        }
    }
}

impl Forward for Reference {
    fn n_past(&self) -> usize {
        self.n_past
    }

    fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    fn n_vocab(&self) -> usize {
        self.graph.n_vocab()
    }

    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError> {
        ForwardError::check(ids, self.n_past, self.n_ctx, self.n_vocab())?;
        check_outputs(&outputs, ids.len())?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let graph = Arc::clone(&self.graph);
        let mut values = vec![Vec::new(); graph.widths.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            let mut y = self.run(node.op, ids, &values);
            for &value in &self.last_uses[at] {
                values[value.0] = Vec::new();
            }
            if node.output == graph.hidden {
                // The head is for the rows asked for only.
                if outputs.is_empty() {
                    break;
                }
                let width = graph.widths[graph.hidden.0];
                y = y[outputs.start * width..outputs.end * width].to_vec();
            }
            values[node.output.0] = y;
        }
        self.n_past += ids.len();
        Ok(std::mem::take(&mut values[graph.logits.0]))
    }

    fn rewind(&mut self, n_past: usize) -> usize {
        self.n_past = self.n_past.min(n_past);
        for kv in &mut self.layers {
            kv.k.truncate(self.n_past * kv.width);
            kv.v.truncate(self.n_past * kv.width);
        }
        self.n_past
    }
}
