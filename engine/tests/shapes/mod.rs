//! Metadata of real models without their weights: what a description and a plan look at.

use kiln_engine::graph::{TensorRole, TensorSpec};
use kiln_engine::models::{FileFacts, KeyValue};
use kiln_kernels::Registry;

/// Names and shapes, slowest dimension first.
pub type Tensors = Vec<(&'static str, Vec<usize>)>;

/// A model's sizes and the format of its matrices.
#[derive(Clone, Copy)]
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
    pub layer_tensors: fn(&Shape) -> Tensors,
    pub format: &'static str,
}

/// Models of each architecture, small and large.
pub const SHAPES: &[Shape] = &[
    Shape {
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
    },
    Shape {
        name: "qwen2.5-0.5b",
        architecture: "qwen2",
        n_layer: 24,
        n_embd: 896,
        n_head: 14,
        n_head_kv: 2,
        head_dim: 64,
        n_ff: 4864,
        n_vocab: 151936,
        tied: true,
        rope_theta: 1e6,
        keys: &[],
        layer_tensors: biases,
        format: "Q8_0",
    },
    Shape {
        name: "qwen3-8b",
        architecture: "qwen3",
        n_layer: 36,
        n_embd: 4096,
        n_head: 32,
        n_head_kv: 8,
        head_dim: 128,
        n_ff: 12288,
        n_vocab: 151936,
        tied: false,
        rope_theta: 1e6,
        keys: &[],
        layer_tensors: head_norms,
        format: "Q8_0",
    },
    Shape {
        name: "gemma3-270m",
        architecture: "gemma3",
        n_layer: 18,
        n_embd: 640,
        n_head: 4,
        n_head_kv: 1,
        head_dim: 256,
        n_ff: 2048,
        n_vocab: 262144,
        tied: true,
        rope_theta: 1e6,
        keys: &[("attention.sliding_window", KeyValue::Int(512))],
        layer_tensors: |shape| [head_norms(shape), post_norms(shape)].concat(),
        format: "Q8_0",
    },
    Shape {
        name: "gemma2-2b",
        architecture: "gemma2",
        n_layer: 26,
        n_embd: 2304,
        n_head: 8,
        n_head_kv: 4,
        head_dim: 256,
        n_ff: 9216,
        n_vocab: 256000,
        tied: true,
        rope_theta: 1e4,
        keys: &[
            ("attention.sliding_window", KeyValue::Int(4096)),
            ("attn_logit_softcapping", KeyValue::Float(50.0)),
            ("final_logit_softcapping", KeyValue::Float(30.0)),
        ],
        layer_tensors: post_norms,
        format: "Q8_0",
    },
];

fn biases(shape: &Shape) -> Tensors {
    let (n_q, n_kv) = (shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim);
    vec![("attn_q.bias", vec![n_q]), ("attn_k.bias", vec![n_kv]), ("attn_v.bias", vec![n_kv])]
}

fn head_norms(shape: &Shape) -> Tensors {
    vec![("attn_q_norm.weight", vec![shape.head_dim]), ("attn_k_norm.weight", vec![shape.head_dim])]
}

fn post_norms(shape: &Shape) -> Tensors {
    vec![("post_attention_norm.weight", vec![shape.n_embd]), ("post_ffw_norm.weight", vec![shape.n_embd])]
}

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
