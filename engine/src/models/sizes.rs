//! Sizes that architectures share, and the matrices of a layer that follow from them.

use super::{Decline, Keys, TensorList};
use crate::graph::{Attention, TensorRole};

/// Hyper-parameters of attention with grouped queries and a gated feed-forward network.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Layers.
    pub n_layer: usize,
    /// Width of the running value.
    pub n_embd: usize,
    /// Width of the feed-forward network.
    pub n_ff: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding table.
    pub n_vocab: usize,
    /// Added to the mean square in norms.
    pub rms_eps: f32,
}

impl Sizes {
    /// Reads them.
    ///
    /// # Errors
    /// One that is missing or makes no sense, and value heads of another width than key heads.
    pub fn read(keys: &mut Keys) -> Result<Self, Decline> {
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
            rms_eps: keys.amount_or("attention.layer_norm_rms_epsilon", 1e-5)?,
        })
    }

    /// Elements of a row of queries, and of keys or values.
    pub fn widths(&self) -> (usize, usize) {
        (self.n_head * self.head_dim, self.n_head_kv * self.head_dim)
    }

    /// Attention to all earlier positions, scores scaled by 1/√head_dim.
    pub fn attention(&self) -> Attention {
        let Self { n_head, n_head_kv, head_dim, .. } = *self;
        let scale = 1.0 / (head_dim as f32).sqrt();
        Attention { n_head, n_head_kv, head_dim, scale, soft_cap: None, window: None }
    }

    /// Lists the embedding table.
    pub fn embedding(&self, t: &mut TensorList) {
        t.required(TensorRole::Embedding, "token_embd", &[self.n_vocab, self.n_embd]);
    }

    /// Lists the last norm, and the output head that some files have of their own.
    pub fn output(&self, t: &mut TensorList) {
        t.required(TensorRole::Norm, "output_norm", &[self.n_embd]);
        t.optional(TensorRole::Matrix, "output", &[self.n_vocab, self.n_embd]);
    }

    /// Lists a layer's matrices and the norms before attention and feed-forward network.
    pub fn layer(&self, t: &mut TensorList) {
        use TensorRole::{Matrix, Norm};
        let (n_q, n_kv) = self.widths();
        t.required(Norm, "attn_norm", &[self.n_embd]);
        t.required(Matrix, "attn_q", &[n_q, self.n_embd]);
        t.required(Matrix, "attn_k", &[n_kv, self.n_embd]);
        t.required(Matrix, "attn_v", &[n_kv, self.n_embd]);
        t.required(Matrix, "attn_output", &[self.n_embd, n_q]);
        t.required(Norm, "ffn_norm", &[self.n_embd]);
        t.required(Matrix, "ffn_gate", &[self.n_ff, self.n_embd]);
        t.required(Matrix, "ffn_up", &[self.n_ff, self.n_embd]);
        t.required(Matrix, "ffn_down", &[self.n_embd, self.n_ff]);
    }
}
