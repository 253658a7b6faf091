//! The words a model file describes its layers with, and the graph they build.
//!
//! A [`Graph`] is a plain value: tensors, nodes in execution order, and the state that each layer keeps.
//! Every later stage is a fold over it: the check for missing tensors, the list of uploads, the memory
//! estimate, the geometry of the KV store and the execution itself.
//!
//! A value is an activation of shape `[n_rows, width]`; the rows are the tokens of a step, so a graph holds
//! for any number of them. Weights are named by their GGUF stem (`attn_q`); inside [`GraphBuilder::layer`]
//! the stem stands for `blk.N.attn_q`.

use std::collections::BTreeMap;

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

/// Which elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// Elements `2j` and `2j + 1` (ggml's NORM).
    Adjacent,
    /// Elements `j` and `j + n_rot / 2` (ggml's NEOX).
    Halves,
}

/// How positions turn into rotation angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Which elements rotate together.
    pub pairs: RopePairs,
    /// Leading elements of each head that rotate; the rest pass.
    pub n_rot: usize,
    /// Base of the geometric row of frequencies.
    pub theta: f64,
    /// Positions are divided by this (linear scaling); 1 leaves them.
    pub position_divisor: f64,
    /// Frequency j is divided by element j of this tensor.
    pub factors: Option<TensorId>,
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
            Op::Scale { x, .. } | Op::RmsNorm { x, .. } | Op::Linear { x, .. } | Op::Rope { x, .. } => {
                [Some(x), None, None]
            }
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
            Op::Scale { .. } | Op::Attention { .. } | Op::Glu { .. } | Op::Add { .. } => [None; 2],
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

/// A slip of a model file: a bug of ours, never a fault of the user's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A word names a tensor that the architecture's list lacks.
    #[error("the layers use tensor `{name}`, which the architecture does not list")]
    Unlisted {
        /// Full name.
        name: String,
    },
    /// The list has a tensor that no word uses.
    #[error("the architecture lists tensor `{name}`, which no layer uses")]
    Unused {
        /// Full name.
        name: String,
    },
    /// Operands of different width.
    #[error("`{word}` needs width {expected}, its operand has {found}")]
    Width {
        /// The word.
        word: String,
        /// From its weights or heads.
        expected: usize,
        /// Of the operand.
        found: usize,
    },
}

/// Collects words; made from the tensors that are listed and present.
#[derive(Debug)]
pub struct GraphBuilder {
    tensors: Vec<TensorSpec>,
    used: Vec<bool>,
    nodes: Vec<Node>,
    widths: Vec<usize>,
    layers: Vec<LayerState>,
    layer: Option<usize>,
    hidden: ValueId,
    error: Option<GraphError>,
}

impl GraphBuilder {
    /// Starts a graph over `tensors`.
    pub fn new(tensors: Vec<TensorSpec>) -> Self {
        Self {
            used: vec![false; tensors.len()],
            tensors,
            nodes: Vec::new(),
            widths: Vec::new(),
            layers: Vec::new(),
            layer: None,
            hidden: ValueId(0),
            error: None,
        }
    }

    /// The weights' rows of the step's token ids.
    pub fn embed(&mut self, table: &str) -> ValueId {
        let Some(table) = self.required(table, "weight") else { return self.broken() };
        let width = self.tensors[table.0].shape[1];
        self.push(Op::Embed { table }, width)
    }

    /// One layer: `words` takes the running value and yields the next.
    pub fn layer(&mut self, x: ValueId, words: impl FnOnce(&mut Self, ValueId) -> ValueId) -> ValueId {
        self.layers.push(LayerState::None);
        self.layer = Some(self.layers.len() - 1);
        let x = words(self, x);
        self.layer = None;
        x
    }

    /// `x · factor`.
    pub fn scale(&mut self, x: ValueId, factor: f32) -> ValueId {
        self.push(Op::Scale { x, factor }, self.widths[x.0])
    }

    /// Root-mean-square norm of each row, or of each head when the gain is as wide as a head.
    pub fn rms_norm(&mut self, x: ValueId, gain: &str, eps: f32) -> ValueId {
        let Some(gain_id) = self.required(gain, "weight") else { return self.broken() };
        let (width, run) = (self.widths[x.0], self.tensors[gain_id.0].n_elems());
        if run == 0 || !width.is_multiple_of(run) {
            self.fail(GraphError::Width { word: gain.to_owned(), expected: run, found: width });
        }
        self.push(Op::RmsNorm { x, gain: gain_id, eps }, width)
    }

    /// `x · wᵀ`, plus the bias where one is listed and the file has it.
    pub fn linear(&mut self, x: ValueId, weight: &str) -> ValueId {
        let Some(weight_id) = self.required(weight, "weight") else { return self.broken() };
        let bias = self.optional(weight, "bias");
        let (n_out, n_in) = (self.tensors[weight_id.0].shape[0], self.tensors[weight_id.0].shape[1]);
        if self.widths[x.0] != n_in {
            self.fail(GraphError::Width { word: weight.to_owned(), expected: n_in, found: self.widths[x.0] });
        }
        self.push(Op::Linear { x, weight: weight_id, bias }, n_out)
    }

    /// A tensor of rope factors, where the file has it.
    pub fn rope_factors(&mut self, stem: &str) -> Option<TensorId> {
        self.optional(stem, "weight")
    }

    /// Rotates each head of `x`.
    pub fn rope(&mut self, x: ValueId, head_dim: usize, rope: Rope) -> ValueId {
        self.push(Op::Rope { x, head_dim, rope }, self.widths[x.0])
    }

    /// Causal attention; gives the layer its KV state.
    pub fn attention(&mut self, q: ValueId, k: ValueId, v: ValueId, attention: Attention) -> ValueId {
        let Attention { n_head, n_head_kv, head_dim, window, .. } = attention;
        let heads = [("query", q, n_head), ("key", k, n_head_kv), ("value", v, n_head_kv)];
        for (word, value, n) in heads {
            if self.widths[value.0] != n * head_dim {
                let found = self.widths[value.0];
                self.fail(GraphError::Width { word: word.to_owned(), expected: n * head_dim, found });
            }
        }
        let layer = self.layer.unwrap_or_default();
        if let Some(state) = self.layers.get_mut(layer) {
            *state = LayerState::Kv { n_head_kv, head_dim, window };
        }
        self.push(Op::Attention { q, k, v, layer, attention }, n_head * head_dim)
    }

    /// `silu(gate) · up`.
    pub fn swiglu(&mut self, gate: ValueId, up: ValueId) -> ValueId {
        self.glu(gate, up, Activation::Silu)
    }

    /// `gelu(gate) · up`.
    pub fn geglu(&mut self, gate: ValueId, up: ValueId) -> ValueId {
        self.glu(gate, up, Activation::GeluTanh)
    }

    fn glu(&mut self, gate: ValueId, up: ValueId, activation: Activation) -> ValueId {
        let width = self.same_width("glu", gate, up);
        self.push(Op::Glu { gate, up, activation }, width)
    }

    /// `a + b`.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let width = self.same_width("add", a, b);
        self.push(Op::Add { a, b }, width)
    }

    /// The output head: `output.weight`, or the embedding table where the file has none.
    pub fn output_head(&mut self, x: ValueId, embedding: &str) -> ValueId {
        self.hidden = x;
        let stem = if self.optional("output", "weight").is_some() { "output" } else { embedding };
        self.linear(x, stem)
    }

    /// The graph whose last value is the logits.
    ///
    /// # Errors
    /// The first slip of the model file, or a listed tensor that no word uses.
    pub fn finish(mut self, logits: ValueId) -> Result<Graph, GraphError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(at) = self.used.iter().position(|used| !used) {
            return Err(GraphError::Unused { name: self.tensors[at].name.clone() });
        }
        let Self { tensors, nodes, widths, layers, hidden, .. } = self;
        Ok(Graph { tensors, nodes, widths, layers, hidden, logits })
    }

    fn push(&mut self, op: Op, width: usize) -> ValueId {
        let output = ValueId(self.widths.len());
        self.widths.push(width);
        self.nodes.push(Node { op, output });
        output
    }

    /// Stands for the value of a word that failed; `finish` reports the failure.
    fn broken(&mut self) -> ValueId {
        let output = ValueId(self.widths.len());
        self.widths.push(0);
        output
    }

    fn fail(&mut self, error: GraphError) {
        self.error.get_or_insert(error);
    }

    fn same_width(&mut self, word: &str, a: ValueId, b: ValueId) -> usize {
        let (expected, found) = (self.widths[a.0], self.widths[b.0]);
        if expected != found {
            self.fail(GraphError::Width { word: word.to_owned(), expected, found });
        }
        expected
    }

    fn full_name(&self, stem: &str, suffix: &str) -> [String; 2] {
        let top = format!("{stem}.{suffix}");
        match self.layer {
            Some(layer) => [format!("blk.{layer}.{top}"), top],
            None => [top.clone(), top],
        }
    }

    /// Looks in the current layer first, then among the tensors that all layers share.
    fn optional(&mut self, stem: &str, suffix: &str) -> Option<TensorId> {
        let names = self.full_name(stem, suffix);
        let at = names.iter().find_map(|name| self.tensors.iter().position(|t| t.name == *name))?;
        self.used[at] = true;
        Some(TensorId(at))
    }

    fn required(&mut self, stem: &str, suffix: &str) -> Option<TensorId> {
        let found = self.optional(stem, suffix);
        if found.is_none() {
            let [name, _] = self.full_name(stem, suffix);
            self.fail(GraphError::Unlisted { name });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, shape: &[usize], role: TensorRole) -> TensorSpec {
        TensorSpec { name: name.to_owned(), shape: shape.to_vec(), role, optional: false }
    }

    /// Two layers of different kinds: attention with a window, then a feed-forward layer without state.
    fn tensors() -> Vec<TensorSpec> {
        vec![
            spec("token_embd.weight", &[10, 4], TensorRole::Embedding),
            spec("blk.0.attn_q.weight", &[4, 4], TensorRole::Matrix),
            spec("blk.0.attn_q.bias", &[4], TensorRole::Bias),
            spec("blk.0.attn_k.weight", &[2, 4], TensorRole::Matrix),
            spec("blk.0.attn_k_norm.weight", &[2], TensorRole::Norm),
            spec("blk.1.ffn_up.weight", &[4, 4], TensorRole::Matrix),
        ]
    }

    fn build(g: &mut GraphBuilder) -> ValueId {
        let x = g.embed("token_embd");
        let attention = Attention { n_head: 2, n_head_kv: 1, head_dim: 2, scale: 1.0, window: Some(3) };
        let x = g.layer(x, |g, x| {
            let (q, k) = (g.linear(x, "attn_q"), g.linear(x, "attn_k"));
            let k = g.rms_norm(k, "attn_k_norm", 1e-5);
            let y = g.attention(q, k, k, attention);
            g.add(x, y)
        });
        let x = g.layer(x, |g, x| g.linear(x, "ffn_up"));
        g.output_head(x, "token_embd")
    }

    #[test]
    fn graph_layers_of_two_kinds_fold() {
        let mut g = GraphBuilder::new(tensors());
        let logits = build(&mut g);
        let graph = g.finish(logits).unwrap();
        let kv = LayerState::Kv { n_head_kv: 1, head_dim: 2, window: Some(3) };
        assert_eq!(graph.layers, [kv, LayerState::None]);
        assert_eq!(graph.n_vocab(), 10);
        assert_eq!(graph.n_weight_elems(), 40 + 16 + 4 + 8 + 2 + 16);
        assert_eq!(
            (graph.n_state_values(2), graph.n_state_values(100)),
            (8, 12),
            "the window bounds the state"
        );
        assert_eq!(LayerState::Recurrent { n_state: 5, n_history: 2 }.n_values(1000), 7);
        let biased = graph.nodes.iter().filter(|n| matches!(n.op, Op::Linear { bias: Some(_), .. })).count();
        assert_eq!(biased, 1);
        let released: usize = graph.last_uses().iter().map(Vec::len).sum();
        assert_eq!(released, graph.nodes.len() - 1, "every value but the logits is released once");
    }

    #[test]
    fn graph_slips_are_named() {
        let check = |edit: &dyn Fn(&mut Vec<TensorSpec>), expected: GraphError| {
            let mut list = tensors();
            edit(&mut list);
            let mut g = GraphBuilder::new(list);
            let logits = build(&mut g);
            assert_eq!(g.finish(logits), Err(expected));
        };
        check(
            &|list| {
                list.remove(3);
            },
            GraphError::Unlisted { name: "blk.0.attn_k.weight".into() },
        );
        check(
            &|list| list.push(spec("blk.1.attn_sinks.weight", &[2], TensorRole::Bias)),
            GraphError::Unused { name: "blk.1.attn_sinks.weight".into() },
        );
        check(
            &|list| list[5].shape = vec![4, 5],
            GraphError::Width { word: "ffn_up".into(), expected: 5, found: 4 },
        );
    }
}
