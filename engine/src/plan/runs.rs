//! Runs of graph words that fewer launches serve than the words have: found in the graph, whatever the device.

use crate::graph::{Graph, Op, ValueId};

/// Words from one node of the graph on, and how they are launched together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// One word by itself.
    Word,
    /// A norm of whole rows; of a sum, where `add`; whose second operand is normed first, where `post`.
    Norm { add: bool, post: bool },
    /// Two products with the same rows, and the gate between them.
    Gated,
    /// A product, the sum with it and the norm of the sum.
    Sum,
    /// Queries and keys are rotated, where `norm` normed before, kept and attended to.
    Heads { norm: bool },
}

impl Run {
    /// Every kind, the longest first.
    const ALL: [Run; 8] = [
        Run::Heads { norm: true },
        Run::Heads { norm: false },
        Run::Norm { add: true, post: true },
        Run::Gated,
        Run::Sum,
        Run::Norm { add: true, post: false },
        Run::Norm { add: false, post: false },
        Run::Word,
    ];

    /// Words of the graph.
    pub(super) fn len(self) -> usize {
        match self {
            Run::Word => 1,
            Run::Norm { add, post } => 1 + usize::from(add) + usize::from(post),
            Run::Gated | Run::Sum => 3,
            Run::Heads { norm } => {
                if norm {
                    5
                } else {
                    3
                }
            }
        }
    }

    /// Why the words are one run.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Run::Word => "a word by itself",
            Run::Norm { post: true, .. } => {
                "a norm, the sum with it and the norm of the sum, which nobody reads between"
            }
            Run::Norm { add: true, .. } => "a sum and its norm",
            Run::Norm { .. } => "a norm of whole rows",
            Run::Gated => "gate and up read the same rows, and only their product is read",
            Run::Sum => {
                "a product, the sum with it and its norm, whose scale comes with the products that read it"
            }
            Run::Heads { norm: true } => "heads are normed, rotated and kept, and nobody reads between",
            Run::Heads { .. } => "heads are rotated and kept, and nobody reads between",
        }
    }
}

/// The runs of a graph.
pub(super) struct Runs<'a> {
    graph: &'a Graph,
    /// How many words read each value.
    readers: Vec<usize>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        let mut readers = vec![0; graph.widths.len()];
        graph.nodes.iter().flat_map(|node| node.op.inputs()).for_each(|value| readers[value.0] += 1);
        Self { graph, readers }
    }

    /// The runs that start at node `at`, the longest first; a word by itself is always the last.
    pub(super) fn at(&self, at: usize) -> impl Iterator<Item = Run> {
        Run::ALL.into_iter().filter(move |run| self.matches(*run, at))
    }

    /// Whether only one word reads it.
    fn passes(&self, value: ValueId) -> bool {
        self.readers[value.0] == 1
    }

    /// Whether a gain is as wide as its rows.
    fn is_whole(&self, op: Op) -> bool {
        let Op::RmsNorm { x, gain, .. } = op else { return false };
        self.graph.tensors[gain.0].n_elems() == self.graph.widths[x.0]
    }

    fn matches(&self, run: Run, at: usize) -> bool {
        let nodes = self.graph.nodes.get(at..at + run.len()).unwrap_or_default();
        // Past the hidden rows only the outputs' are there.
        if run != Run::Word && nodes.iter().any(|node| node.op.inputs().any(|x| x == self.graph.hidden)) {
            return false;
        }
        match (run, nodes) {
            (Run::Word, [_]) => true,
            (Run::Norm { add: false, .. }, [norm]) => self.is_whole(norm.op),
            (Run::Norm { post: false, .. }, [sum, norm]) => self.is_sum_and_norm(sum.op, sum.output, norm.op),
            (Run::Norm { post: true, .. }, [post, sum, norm]) => {
                let (Op::RmsNorm { eps, .. }, Op::Add { b, .. }, Op::RmsNorm { eps: last, .. }) =
                    (post.op, sum.op, norm.op)
                else {
                    return false;
                };
                b == post.output
                    && self.passes(b)
                    && eps == last
                    && self.is_whole(post.op)
                    && self.is_sum_and_norm(sum.op, sum.output, norm.op)
            }
            (Run::Gated, [first, second, glu]) => {
                let (Op::Linear { x, bias: None, .. }, Op::Linear { x: same, bias: None, .. }) =
                    (first.op, second.op)
                else {
                    return false;
                };
                let Op::Glu { gate, up, .. } = glu.op else { return false };
                let ends = (gate, up) == (first.output, second.output);
                ends && x == same && self.passes(gate) && self.passes(up)
            }
            (Run::Sum, [product, sum, norm]) => {
                let (Op::Linear { bias: None, .. }, Op::Add { a, b }) = (product.op, sum.op) else {
                    return false;
                };
                let ends = b == product.output && a != b && self.passes(b);
                ends && self.is_sum_and_norm(sum.op, sum.output, norm.op)
            }
            (Run::Heads { norm: false }, [q, k, attention]) => {
                let (Op::Rope { x, head_dim, rope }, Op::Rope { x: x_k, head_dim: dim_k, rope: rope_k }) =
                    (q.op, k.op)
                else {
                    return false;
                };
                let Op::Attention { q: q_in, k: k_in, .. } = attention.op else { return false };
                let ends = (q_in, k_in) == (q.output, k.output) && self.passes(q_in) && self.passes(k_in);
                ends && x != x_k && (head_dim, rope) == (dim_k, rope_k)
            }
            (Run::Heads { norm: true }, [norm_q, norm_k, q, k, _]) => {
                let (Op::RmsNorm { gain, eps, .. }, Op::RmsNorm { gain: gain_k, eps: eps_k, .. }) =
                    (norm_q.op, norm_k.op)
                else {
                    return false;
                };
                let (Op::Rope { x, head_dim, .. }, Op::Rope { x: x_k, .. }) = (q.op, k.op) else {
                    return false;
                };
                let widths = [gain, gain_k].map(|gain| self.graph.tensors[gain.0].n_elems());
                self.matches(Run::Heads { norm: false }, at + 2)
                    && (x, x_k) == (norm_q.output, norm_k.output)
                    && self.passes(x)
                    && self.passes(x_k)
                    && eps == eps_k
                    && widths == [head_dim, head_dim]
            }
            _ => false,
        }
    }

    fn is_sum_and_norm(&self, sum: Op, output: ValueId, norm: Op) -> bool {
        let Op::RmsNorm { x, .. } = norm else { return false };
        matches!(sum, Op::Add { .. }) && x == output && self.is_whole(norm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, TensorRole, TensorSpec};

    /// The runs that a layer's words are, and the output head.
    fn runs(words: impl FnOnce(&mut GraphBuilder, ValueId) -> ValueId) -> Vec<Run> {
        let spec = |name: &str, shape: &[usize], role| {
            let name = format!("{name}.weight");
            TensorSpec { name, shape: shape.to_vec(), role, optional: true }
        };
        let mut tensors = vec![
            spec("post", &[8], TensorRole::Norm),
            spec("norm", &[8], TensorRole::Norm),
            spec("head_norm", &[4], TensorRole::Norm),
            spec("gate", &[8, 8], TensorRole::Matrix),
            spec("up", &[8, 8], TensorRole::Matrix),
        ];
        let table = TensorSpec { name: "token_embd.weight".to_owned(), ..tensors[3].clone() };
        tensors.push(TensorSpec { role: TensorRole::Embedding, ..table });
        let mut g = GraphBuilder::new(tensors);
        let x = g.embed("token_embd");
        // Every tensor is used somewhere.
        let x = ["post", "norm", "head_norm"].into_iter().fold(x, |x, gain| g.rms_norm(x, gain, 1.0));
        let x = ["gate", "up"].into_iter().fold(x, |x, weight| g.linear(x, weight));
        let x = g.layer(x, words);
        let logits = g.output_head(x, "token_embd");
        let graph = g.finish(logits).unwrap();
        let runs = Runs::of(&graph);
        let mut found = Vec::new();
        let mut at = 6;
        while at < graph.nodes.len() {
            let run = runs.at(at).next().unwrap();
            found.push(run);
            at += run.len();
        }
        found
    }

    #[test]
    fn a_sum_is_normed_with_what_was_normed_before_it_where_nobody_else_reads_that() {
        let sum = |twice: bool| {
            runs(move |g, x| {
                let b = g.rms_norm(x, "post", 1e-5);
                let s = g.add(x, b);
                let y = g.rms_norm(s, "norm", 1e-5);
                if twice { g.add(y, b) } else { y }
            })
        };
        let whole = Run::Norm { add: true, post: true };
        assert_eq!(sum(false), [whole, Run::Word]);
        let norm = |add| Run::Norm { add, post: false };
        assert_eq!(sum(true), [norm(false), norm(true), Run::Word, Run::Word]);
        let other_eps = runs(|g, x| {
            let b = g.rms_norm(x, "post", 1e-6);
            let s = g.add(x, b);
            g.rms_norm(s, "norm", 1e-5)
        });
        assert_eq!(other_eps, [norm(false), norm(true), Run::Word]);
        let heads = runs(|g, x| g.rms_norm(x, "head_norm", 1e-5));
        assert_eq!(heads, [Run::Word, Run::Word], "a norm of heads is none of whole rows");
    }

    #[test]
    fn gate_and_up_are_one_where_only_their_product_is_read() {
        let glu = |twice: bool| {
            runs(move |g, x| {
                let (gate, up) = (g.linear(x, "gate"), g.linear(x, "up"));
                let y = g.swiglu(gate, up);
                if twice { g.add(y, up) } else { y }
            })
        };
        assert_eq!(glu(false), [Run::Gated, Run::Word]);
        assert_eq!(glu(true), [Run::Word; 5]);
        let of_different_rows = runs(|g, x| {
            let gate = g.linear(x, "gate");
            let up = g.linear(gate, "up");
            g.swiglu(gate, up)
        });
        assert_eq!(of_different_rows, [Run::Word; 4]);
    }
}
