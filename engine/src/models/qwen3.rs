//! Qwen3, dense: queries and keys are normed head by head before they rotate, and a head may be wider than
//! n_embd / n_head.
//!
//! Source: Yang et al., arXiv:2505.09388, section 2.

use super::{Architecture, Decline, Keys, Sizes, TensorList, read_rope};
use crate::graph::{GraphBuilder, Rope, RopePairs, TensorRole, ValueId};

/// Hyper-parameters.
#[derive(Debug, Clone)]
pub struct Qwen3 {
    sizes: Sizes,
    rope: Rope,
}

impl Architecture for Qwen3 {
    const NAME: &'static str = "qwen3";

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        let sizes = Sizes::read(keys)?;
        let rope = read_rope(keys, RopePairs::Halves, sizes.head_dim)?;
        Ok(Self { sizes, rope })
    }

    fn tensors(&self, t: &mut TensorList) {
        self.sizes.embedding(t);
        t.layers(self.sizes.n_layer, |t| {
            self.sizes.layer(t);
            t.required(TensorRole::Norm, "attn_q_norm", &[self.sizes.head_dim]);
            t.required(TensorRole::Norm, "attn_k_norm", &[self.sizes.head_dim]);
        });
        self.sizes.output(t);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let Sizes { n_layer, head_dim, rms_eps, .. } = self.sizes;
        let (attention, rope) = (self.sizes.attention(), self.rope);

        let mut x = g.embed("token_embd");
        for _ in 0..n_layer {
            x = g.layer(x, |g, x| {
                let h = g.rms_norm(x, "attn_norm", rms_eps);
                let (q, k, v) = (g.linear(h, "attn_q"), g.linear(h, "attn_k"), g.linear(h, "attn_v"));
                let q = g.rms_norm(q, "attn_q_norm", rms_eps);
                let k = g.rms_norm(k, "attn_k_norm", rms_eps);
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
