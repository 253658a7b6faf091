//! The words a model file describes its layers with, and the graph they build.
//!
//! A [`Graph`] is a plain value: tensors, nodes in execution order, and the state that each layer keeps.
//! Every later stage is a fold over it: the check for missing tensors, the list of uploads, the memory
//! estimate, the geometry of the KV store and the execution itself.
//!
//! A value is an activation of shape `[n_rows, width]`; the rows are the tokens of a step, so a graph holds
//! for any number of them. Weights are named by their GGUF stem (`attn_q`); inside [`GraphBuilder::layer`]
//! the stem stands for `blk.N.attn_q`.

mod build;
mod rope;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use build::{GraphBuilder, GraphError};
pub use rope::{Rope, RopePairs, RopeScaling};

/// Index of an activation of shape `[n_rows, width]` in [`Graph::widths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId(pub usize);

/// Index of a weight in [`Graph::tensors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// What a weight is used as; decides which formats may hold it and how it is laid out on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorRole {
    /// `[n_vocab, n_embd]`, read one row per token.
    Embedding,
    /// `[n_out, n_in]`, multiplied with activations.
    Matrix,
    /// `[width]`, the gain of a norm.
    Norm,
    /// `[n_out]`, added after a matrix.
    Bias,
    /// `[n_rot / 2]`, divides the rotation frequencies.
    RopeFactors,
}

/// A weight that an architecture names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Full GGUF name.
    pub name: String,
    /// Slowest dimension first.
    pub shape: Vec<usize>,
    /// What it is used as.
    pub role: TensorRole,
    /// A file may leave it out.
    pub optional: bool,
}

impl TensorSpec {
    /// Number of elements.
    pub fn n_elems(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What a layer remembers between steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerState {
    /// Nothing.
    None,
    /// Keys and values of earlier positions: per position `[n_head_kv, head_dim]` of each.
    Kv {
        /// Heads that keys and values have.
        n_head_kv: usize,
        /// Width of one head.
        head_dim: usize,
        /// Positions that can still be attended to, the current one included; none means all.
        window: Option<usize>,
    },
    /// A state of fixed size that each row overwrites, and the last inputs that a convolution needs.
    Recurrent {
        /// Values of the state.
        n_state: usize,
        /// Values of the history.
        n_history: usize,
    },
}

impl LayerState {
    /// Values that the layer keeps for a sequence of `n_ctx` positions.
    pub fn n_values(&self, n_ctx: usize) -> usize {
        match *self {
            LayerState::None => 0,
            LayerState::Kv { n_head_kv, head_dim, window } => {
                2 * n_head_kv * head_dim * n_ctx.min(window.unwrap_or(n_ctx))
            }
            LayerState::Recurrent { n_state, n_history } => n_state + n_history,
        }
    }
}

/// Causal attention of `n_head` query heads over `n_head_kv` key heads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Query heads; query head h reads key head `h / (n_head / n_head_kv)`.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// A scaled score s becomes `cap · tanh(s / cap)`.
    pub soft_cap: Option<f32>,
    /// Positions that a row sees, itself included; none means all earlier ones.
    pub window: Option<usize>,
}

/// The gate of a gated feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// The tanh form of gelu.
    GeluTanh,
}

/// One graph word with its operands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Rows of the embedding table, one for each token id of the step.
    Embed {
        /// `[n_vocab, n_embd]`.
        table: TensorId,
    },
    /// `x · factor`.
    Scale {
        /// Operand.
        x: ValueId,
        /// Multiplier.
        factor: f32,
    },
    /// `cap · tanh(x / cap)`.
    SoftCap {
        /// Operand.
        x: ValueId,
        /// Largest magnitude of the result.
        cap: f32,
    },
    /// Root-mean-square norm over each run of as many elements as the gain has: a whole row, or each head.
    RmsNorm {
        /// Operand.
        x: ValueId,
        /// Gain.
        gain: TensorId,
        /// Added to the mean square.
        eps: f32,
    },
    /// `x · wᵀ + bias`.
    Linear {
        /// `[n_rows, n_in]`.
        x: ValueId,
        /// `[n_out, n_in]`.
        weight: TensorId,
        /// `[n_out]`.
        bias: Option<TensorId>,
    },
    /// Rotates each head of `x` by the angle of its row's position.
    Rope {
        /// `[n_rows, n_heads · head_dim]`.
        x: ValueId,
        /// Width of one head.
        head_dim: usize,
        /// Angles and pairing.
        rope: Rope,
    },
    /// Appends `k` and `v` to the layer's state and attends to it.
    Attention {
        /// `[n_rows, n_head · head_dim]`.
        q: ValueId,
        /// `[n_rows, n_head_kv · head_dim]`.
        k: ValueId,
        /// `[n_rows, n_head_kv · head_dim]`.
        v: ValueId,
        /// Layer whose state is used.
        layer: usize,
        /// Heads, scale and window.
        attention: Attention,
    },
    /// `activation(gate) · up`, element by element.
    Glu {
        /// Gated by this.
        gate: ValueId,
        /// Passes through the gate.
        up: ValueId,
        /// The gate's function.
        activation: Activation,
    },
    /// `a + b`.
    Add {
        /// Left operand.
        a: ValueId,
        /// Right operand.
        b: ValueId,
    },
}

impl Op {
    /// The activations that the word reads.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let operands = match *self {
            Op::Embed { .. } => [None; 3],
            Op::Scale { x, .. }
            | Op::SoftCap { x, .. }
            | Op::RmsNorm { x, .. }
            | Op::Linear { x, .. }
            | Op::Rope { x, .. } => [Some(x), None, None],
            Op::Attention { q, k, v, .. } => [Some(q), Some(k), Some(v)],
            Op::Glu { gate, up, .. } => [Some(gate), Some(up), None],
            Op::Add { a, b } => [Some(a), Some(b), None],
        };
        operands.into_iter().flatten()
    }

    /// The weights that the word reads.
    pub fn weights(&self) -> impl Iterator<Item = TensorId> {
        let operands = match *self {
            Op::Embed { table } => [Some(table), None],
            Op::RmsNorm { gain, .. } => [Some(gain), None],
            Op::Linear { weight, bias, .. } => [Some(weight), bias],
            Op::Rope { rope, .. } => [rope.factors, None],
            Op::Scale { .. }
            | Op::SoftCap { .. }
            | Op::Attention { .. }
            | Op::Glu { .. }
            | Op::Add { .. } => [None; 2],
        };
        operands.into_iter().flatten()
    }
}

/// A word and the value it makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// The word.
    pub op: Op,
    /// What it makes.
    pub output: ValueId,
}

/// A whole model, from token ids to logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The weights that the file has, in the order of their declaration.
    pub tensors: Vec<TensorSpec>,
    /// In execution order.
    pub nodes: Vec<Node>,
    /// Width of each value.
    pub widths: Vec<usize>,
    /// What each layer remembers.
    pub layers: Vec<LayerState>,
    /// `[n_rows, n_embd]`, the input of the output head: a step computes the head only for the rows asked for.
    pub hidden: ValueId,
    /// `[n_rows, n_vocab]`.
    pub logits: ValueId,
}

impl Graph {
    /// Number of logits in a row.
    pub fn n_vocab(&self) -> usize {
        self.widths[self.logits.0]
    }

    /// Values of all weights together.
    pub fn n_weight_elems(&self) -> usize {
        self.tensors.iter().map(TensorSpec::n_elems).sum()
    }

    /// Values that all layers keep for a sequence of `n_ctx` positions.
    pub fn n_state_values(&self, n_ctx: usize) -> usize {
        self.layers.iter().map(|layer| layer.n_values(n_ctx)).sum()
    }

    /// For each node the values that no later node reads.
    pub fn last_uses(&self) -> Vec<Vec<ValueId>> {
        let mut last = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            for value in node.op.inputs() {
                last.insert(value, at);
            }
        }
        let mut uses = vec![Vec::new(); self.nodes.len()];
        for (value, at) in last {
            uses[at].push(value);
        }
        uses
    }
}
