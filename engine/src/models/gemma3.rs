//! Gemma 3, text: as Gemma 2, with queries and keys normed head by head; five layers of six have a window and turn their
//! heads by a base of their own.
//!
//! Source: Gemma team, arXiv:2503.19786, section 2. The converter has added the 1 that the paper adds to a norm's gain.

use super::{Architecture, Decline, Keys, Sizes, TensorList, read_rope, read_theta, read_windows};
use crate::graph::{Attention, GraphBuilder, Rope, RopePairs, RopeScaling, TensorRole, ValueId};

/// Hyper-parameters.
#[derive(Debug, Clone)]
pub struct Gemma3 {
    sizes: Sizes,
    /// Of layers that see all positions.
    rope: Rope,
    /// Of layers with a window.
    rope_local: Rope,
    attention: Attention,
    windows: Vec<Option<usize>>,
    logit_cap: Option<f32>,
}

/// Layers of the one model whose scores are scaled by the query heads' share of n_embd, not by their width.
const N_LAYER_27B: usize = 62;

impl Architecture for Gemma3 {
    const NAME: &'static str = "gemma3";

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        let sizes = Sizes::read(keys)?;
        let mut attention = sizes.attention();
        attention.soft_cap = keys.cap("attn_logit_softcapping")?;
        if sizes.n_layer == N_LAYER_27B {
            attention.scale = 1.0 / ((sizes.n_embd / sizes.n_head) as f32).sqrt();
        }
        let windows = match keys.size_or("attention.sliding_window", 0)? {
            0 => vec![None; sizes.n_layer],
            window => read_windows(keys, window, 6, sizes.n_layer)?,
        };
        let rope = read_rope(keys, RopePairs::Halves, sizes.head_dim)?;
        let theta = read_theta(keys, "rope.freq_base_swa")?;
        let rope_local = Rope { theta, scaling: RopeScaling::Linear { factor: 1.0 }, magnitude: 1.0, ..rope };
        let logit_cap = keys.cap("final_logit_softcapping")?;
        Ok(Self { sizes, rope, rope_local, attention, windows, logit_cap })
    }

    fn tensors(&self, t: &mut TensorList) {
        self.sizes.embedding(t);
        t.layers(self.sizes.n_layer, |t| {
            self.sizes.layer(t);
            t.required(TensorRole::Norm, "attn_q_norm", &[self.sizes.head_dim]);
            t.required(TensorRole::Norm, "attn_k_norm", &[self.sizes.head_dim]);
            t.required(TensorRole::Norm, "post_attention_norm", &[self.sizes.n_embd]);
            t.required(TensorRole::Norm, "post_ffw_norm", &[self.sizes.n_embd]);
        });
        self.sizes.output(t);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let Sizes { n_embd, head_dim, rms_eps, .. } = self.sizes;

        let x = g.embed("token_embd");
        let mut x = g.scale(x, (n_embd as f32).sqrt());
        for &window in &self.windows {
            let rope = if window.is_some() { self.rope_local } else { self.rope };
            x = g.layer(x, |g, x| {
                let h = g.rms_norm(x, "attn_norm", rms_eps);
                let (q, k, v) = (g.linear(h, "attn_q"), g.linear(h, "attn_k"), g.linear(h, "attn_v"));
                let q = g.rms_norm(q, "attn_q_norm", rms_eps);
                let k = g.rms_norm(k, "attn_k_norm", rms_eps);
                let (q, k) = (g.rope(q, head_dim, rope), g.rope(k, head_dim, rope));
                let h = g.attention(q, k, v, Attention { window, ..self.attention });
                let h = g.linear(h, "attn_output");
                let h = g.rms_norm(h, "post_attention_norm", rms_eps);
                let x = g.add(x, h);

                let h = g.rms_norm(x, "ffn_norm", rms_eps);
                let (gate, up) = (g.linear(h, "ffn_gate"), g.linear(h, "ffn_up"));
                let h = g.geglu(gate, up);
                let h = g.linear(h, "ffn_down");
                let h = g.rms_norm(h, "post_ffw_norm", rms_eps);
                g.add(x, h)
            });
        }
        let x = g.rms_norm(x, "output_norm", rms_eps);
        let logits = g.output_head(x, "token_embd");
        g.soft_cap(logits, self.logit_cap)
    }
}
