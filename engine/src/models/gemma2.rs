//! Gemma 2: norms before and after attention and feed-forward network, every second layer with a window, scores and
//! logits capped.
//!
//! Source: Gemma team, arXiv:2408.00118, section 2. The converter has added the 1 that the paper adds to a norm's gain.

use super::{Architecture, Decline, Keys, Sizes, TensorList, read_rope, read_windows};
use crate::graph::{Attention, GraphBuilder, Rope, RopePairs, TensorRole, ValueId};

/// Hyper-parameters.
#[derive(Debug, Clone)]
pub struct Gemma2 {
    sizes: Sizes,
    rope: Rope,
    attention: Attention,
    windows: Vec<Option<usize>>,
    logit_cap: Option<f32>,
}

/// Layers of the one model whose scores are scaled by the query heads' share of n_embd, not by their width.
const N_LAYER_27B: usize = 46;

impl Architecture for Gemma2 {
    const NAME: &'static str = "gemma2";

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        let sizes = Sizes::read(keys)?;
        let window = keys.count_or("attention.sliding_window", 4096)?;
        let mut attention = sizes.attention();
        attention.soft_cap = keys.cap("attn_logit_softcapping")?;
        if sizes.n_layer == N_LAYER_27B {
            attention.scale = 1.0 / ((sizes.n_embd / sizes.n_head) as f32).sqrt();
        }
        Ok(Self {
            rope: read_rope(keys, RopePairs::Halves, sizes.head_dim)?,
            windows: read_windows(keys, window, 2, sizes.n_layer)?,
            logit_cap: keys.cap("final_logit_softcapping")?,
            attention,
            sizes,
        })
    }

    fn tensors(&self, t: &mut TensorList) {
        self.sizes.embedding(t);
        t.layers(self.sizes.n_layer, |t| {
            self.sizes.layer(t);
            t.required(TensorRole::Norm, "post_attention_norm", &[self.sizes.n_embd]);
            t.required(TensorRole::Norm, "post_ffw_norm", &[self.sizes.n_embd]);
        });
        self.sizes.output(t);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let Sizes { n_embd, head_dim, rms_eps, .. } = self.sizes;
        let rope = self.rope;

        let x = g.embed("token_embd");
        let mut x = g.scale(x, (n_embd as f32).sqrt());
        for &window in &self.windows {
            x = g.layer(x, |g, x| {
                let h = g.rms_norm(x, "attn_norm", rms_eps);
                let (q, k, v) = (g.linear(h, "attn_q"), g.linear(h, "attn_k"), g.linear(h, "attn_v"));
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
