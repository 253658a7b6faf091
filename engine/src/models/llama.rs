//! Llama and the models built like it (Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM).
//!
//! Source: Touvron et al., arXiv:2302.13971, section 2.2; grouped queries from arXiv:2307.09288.
//! The GGUF converter has permuted the rows of `attn_q` and `attn_k` so that adjacent elements rotate together.

use super::{Architecture, Decline, Keys, Sizes, TensorList, read_rope};
use crate::graph::{GraphBuilder, Rope, RopePairs, TensorRole, ValueId};

/// Hyper-parameters.
#[derive(Debug, Clone)]
pub struct Llama {
    sizes: Sizes,
    rope: Rope,
}

impl Architecture for Llama {
    const NAME: &'static str = "llama";

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        let sizes = Sizes::read(keys)?;
        let rope = read_rope(keys, RopePairs::Adjacent, sizes.head_dim)?;
        Ok(Self { sizes, rope })
    }

    fn tensors(&self, t: &mut TensorList) {
        self.sizes.embedding(t);
        t.optional(TensorRole::RopeFactors, "rope_freqs", &[self.rope.n_rot / 2]);
        t.layers(self.sizes.n_layer, |t| self.sizes.layer(t));
        self.sizes.output(t);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let Sizes { n_layer, head_dim, rms_eps, .. } = self.sizes;
        let attention = self.sizes.attention();
        let rope = Rope { factors: g.rope_factors("rope_freqs"), ..self.rope };

        let mut x = g.embed("token_embd");
        for _ in 0..n_layer {
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
