//! The words: each adds a node, checks its operands' widths and returns the value it makes.

use super::{Activation, Attention, Graph, LayerState, Node, Op, Rope, TensorId, TensorSpec, ValueId};

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

    /// `cap · tanh(x / cap)`; `x` itself without a cap.
    pub fn soft_cap(&mut self, x: ValueId, cap: Option<f32>) -> ValueId {
        match cap {
            Some(cap) => self.push(Op::SoftCap { x, cap }, self.widths[x.0]),
            None => x,
        }
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
