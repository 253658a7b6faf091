//! Metadata of real models without their weights: what a description and a plan look at.

use kiln_engine::graph::{TensorRole, TensorSpec};
use kiln_engine::models::{FileFacts, KeyValue};
use kiln_kernels::Registry;

/// A model's sizes and the format of its matrices.
pub struct Shape {
    pub name: &'static str,
    pub architecture: &'static str,
    pub n_layer: usize,
    pub n_embd: usize,
    pub n_head: usize,
    pub n_head_kv: usize,
    pub head_dim: usize,
    pub n_ff: usize,
    pub n_vocab: usize,
    pub tied: bool,
    pub rope_theta: f64,
    /// Keys beyond those that every architecture has.
    pub keys: &'static [(&'static str, KeyValue)],
    /// Tensors of a layer beyond those that every architecture has, with their shapes.
    pub layer_tensors: fn(&Shape) -> Vec<(&'static str, Vec<usize>)>,
    pub format: &'static str,
}

pub const SHAPES: &[Shape] = &[Shape {
    name: "smollm2-135m",
    architecture: "llama",
    n_layer: 30,
    n_embd: 576,
    n_head: 9,
    n_head_kv: 3,
    head_dim: 64,
    n_ff: 1536,
    n_vocab: 49152,
    tied: true,
    rope_theta: 1e5,
    keys: &[],
    layer_tensors: |_| Vec::new(),
    format: "Q4_1",
}];

impl Shape {
    /// Norms and biases are f32, everything else in the shape's format.
    pub fn type_id(&self, tensor: &TensorSpec, registry: &Registry) -> Option<u32> {
        let format = match tensor.role {
            TensorRole::Embedding | TensorRole::Matrix => self.format,
            TensorRole::Norm | TensorRole::Bias | TensorRole::RopeFactors => "F32",
        };
        registry.format_named(format).map(|row| row.id)
    }
}

impl FileFacts for Shape {
    fn key(&self, name: &str) -> Option<KeyValue> {
        if name == "general.architecture" {
            return Some(KeyValue::Text(self.architecture.to_owned()));
        }
        let name = name.strip_prefix(self.architecture)?.strip_prefix('.')?;
        let int = |n: usize| Some(KeyValue::Int(n as i128));
        match name {
            "context_length" => int(32768),
            "block_count" => int(self.n_layer),
            "embedding_length" => int(self.n_embd),
            "feed_forward_length" => int(self.n_ff),
            "attention.head_count" => int(self.n_head),
            "attention.head_count_kv" => int(self.n_head_kv),
            "attention.key_length" | "attention.value_length" => int(self.head_dim),
            "attention.layer_norm_rms_epsilon" => Some(KeyValue::Float(1e-6)),
            "rope.freq_base" => Some(KeyValue::Float(self.rope_theta)),
            _ => self.keys.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()),
        }
    }

    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (n_q, n_kv, n_embd) = (self.n_head * self.head_dim, self.n_head_kv * self.head_dim, self.n_embd);
        let mut all = vec![("token_embd.weight".to_owned(), vec![self.n_vocab, n_embd])];
        for layer in 0..self.n_layer {
            let every = [
                ("attn_norm.weight", vec![n_embd]),
                ("attn_q.weight", vec![n_q, n_embd]),
                ("attn_k.weight", vec![n_kv, n_embd]),
                ("attn_v.weight", vec![n_kv, n_embd]),
                ("attn_output.weight", vec![n_embd, n_q]),
                ("ffn_norm.weight", vec![n_embd]),
                ("ffn_gate.weight", vec![self.n_ff, n_embd]),
                ("ffn_up.weight", vec![self.n_ff, n_embd]),
                ("ffn_down.weight", vec![n_embd, self.n_ff]),
            ];
            let tensors = every.into_iter().chain((self.layer_tensors)(self));
            all.extend(tensors.map(|(stem, shape)| (format!("blk.{layer}.{stem}"), shape)));
        }
        all.push(("output_norm.weight".to_owned(), vec![n_embd]));
        if !self.tied {
            all.push(("output.weight".to_owned(), vec![self.n_vocab, n_embd]));
        }
        all
    }
}
