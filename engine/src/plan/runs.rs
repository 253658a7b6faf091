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
    /// Queries and keys are rotated, where `norm` normed before, kept and attended to.
    Heads { norm: bool },
}

impl Run {
    /// Every kind, the longest first.
    const ALL: [Run; 7] = [
        Run::Heads { norm: true },
        Run::Heads { norm: false },
        Run::Norm { add: true, post: true },
        Run::Gated,
        Run::Norm { add: true, post: false },
        Run::Norm { add: false, post: false },
        Run::Word,
    ];

    /// Words of the graph.
    pub(super) fn len(self) -> usize {
        match self {
            Run::Word => 1,
            Run::Norm { add, post } => 1 + usize::from(add) + usize::from(post),
            Run::Gated => 3,
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
