//! Llama and the models built like it (Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM).
//!
//! Source: Touvron et al., arXiv:2302.13971, section 2.2; grouped queries from arXiv:2307.09288.
//! The GGUF converter has permuted the rows of `attn_q` and `attn_k` so that adjacent elements rotate together.

use super::{Architecture, Decline, Keys, TensorList, read_rope};
use crate::graph::{Attention, GraphBuilder, Rope, RopePairs, TensorRole, ValueId};

/// Hyper-parameters.
#[derive(Debug, Clone)]
pub struct Llama {
    n_layer: usize,
    n_embd: usize,
    n_ff: usize,
    n_head: usize,
    n_head_kv: usize,
    head_dim: usize,
    n_vocab: usize,
    rms_eps: f32,
    rope: Rope,
}

impl Architecture for Llama {
    const NAME: &'static str = "llama";

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        let n_embd = keys.count("embedding_length")?;
        let n_head = keys.count("attention.head_count")?;
        let n_head_kv = keys.count_or("attention.head_count_kv", n_head)?;
        if n_head % n_head_kv != 0 {
            let expected = format!("a divisor of the {n_head} query heads");
            return Err(keys.bad("attention.head_count_kv", n_head_kv, &expected));
        }
        let head_dim = keys.count_or("attention.key_length", n_embd / n_head)?;
        let value_dim = keys.count_or("attention.value_length", head_dim)?;
        if value_dim != head_dim {
            return Err(keys.unsupported(
                "attention.value_length",
                value_dim,
                "a value width other than the key's",
            ));
        }
        Ok(Self {
            n_layer: keys.layers("block_count")?,
            n_embd,
            n_ff: keys.count("feed_forward_length")?,
            n_head,
            n_head_kv,
            head_dim,
            n_vocab: keys.rows_of("token_embd.weight")?,
            rms_eps: keys.number_or("attention.layer_norm_rms_epsilon", 1e-5)? as f32,
            rope: read_rope(keys, RopePairs::Adjacent, head_dim)?,
        })
    }

    fn tensors(&self, t: &mut TensorList) {
        use TensorRole::{Embedding, Matrix, Norm, RopeFactors};
        let (n_q, n_kv) = (self.n_head * self.head_dim, self.n_head_kv * self.head_dim);
        t.required(Embedding, "token_embd", &[self.n_vocab, self.n_embd]);
        t.optional(RopeFactors, "rope_freqs", &[self.rope.n_rot / 2]);
        t.layers(self.n_layer, |t| {
            t.required(Norm, "attn_norm", &[self.n_embd]);
            t.required(Matrix, "attn_q", &[n_q, self.n_embd]);
            t.required(Matrix, "attn_k", &[n_kv, self.n_embd]);
            t.required(Matrix, "attn_v", &[n_kv, self.n_embd]);
            t.required(Matrix, "attn_output", &[self.n_embd, n_q]);
            t.required(Norm, "ffn_norm", &[self.n_embd]);
            t.required(Matrix, "ffn_gate", &[self.n_ff, self.n_embd]);
            t.required(Matrix, "ffn_up", &[self.n_ff, self.n_embd]);
            t.required(Matrix, "ffn_down", &[self.n_embd, self.n_ff]);
        });
        t.required(Norm, "output_norm", &[self.n_embd]);
        t.optional(Matrix, "output", &[self.n_vocab, self.n_embd]);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let Self { n_head, n_head_kv, head_dim, rms_eps, .. } = *self;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let attention = Attention { n_head, n_head_kv, head_dim, scale, window: None };
        let rope = Rope { factors: g.rope_factors("rope_freqs"), ..self.rope };

        let mut x = g.embed("token_embd");
        for _ in 0..self.n_layer {
            x = g.layer(x, |g, x| {
                let h = g.rms_norm(x, "attn_norm", rms_eps);
                let (q, k, v) = (g.linear(h, "attn_q"), g.linear(h, "attn_k"), g.linear(h, "attn_v"));
                let (q, k) = (g.rope(q, head_dim, rope), g.rope(k, head_dim, rope));
                let h = g.attention(q, k, v, attention);
                let h = g.linear(h, "attn_output");
                let x = g.add(x, h);

                let h = g.rms_norm(x, "ffn_norm", rms_eps);
                let (gate, up) = (g.linear(h, "ffn_gate"), g.linear(h, "ffn_up"));
                let h = g.swiglu(gate, up);
                let h = g.linear(h, "ffn_down");
                g.add(x, h)
            });
        }
        let x = g.rms_norm(x, "output_norm", rms_eps);
        g.output_head(x, "token_embd")
    }
}
