//! What launches of several words must give: the references of the words, one after the other.

use kiln_kernels::{
    activations,
    conformance::Random,
    reference::{self as plain, Bounded},
};

use super::expect::{N_ROWS, N_SAMPLES, Row, Scene, exactly, norm, pick, rotated};
use super::gate::GateError;
use crate::graph::{Activation, Node, Op, TensorId};
use crate::plan::{Kept, PlannedWord};

impl Scene<'_> {
    /// Row `row` of the results of several words, each with its word's place among them.
    pub(super) fn run(
        &self,
        nodes: &[Node],
        word: &PlannedWord,
        row: usize,
        random: &mut Random,
    ) -> Result<Vec<(usize, Row)>, GateError> {
        match nodes.last().map(|node| node.op) {
            Some(Op::RmsNorm { .. }) if matches!(nodes, [Node { op: Op::Linear { .. }, .. }, _, _]) => {
                self.product_and_sum(nodes, word, row, random)
            }
            Some(Op::RmsNorm { .. }) => self.sum_and_norm(nodes, word, row),
            Some(Op::Glu { activation, .. }) => self.gated(nodes, activation, word, row, random),
            Some(Op::Attention { .. }) => self.heads(nodes, word, row),
            _ => Ok(Vec::new()),
        }
    }

    /// The sum of two values, the second perhaps normed, and the norm of the sum.
    fn sum_and_norm(
        &self,
        nodes: &[Node],
        word: &PlannedWord,
        row: usize,
    ) -> Result<Vec<(usize, Row)>, GateError> {
        let [posts @ .., sum, last] = nodes else { return Ok(Vec::new()) };
        let (Op::Add { a, b }, Op::RmsNorm { gain, eps, .. }) = (sum.op, last.op) else {
            return Ok(Vec::new());
        };
        let a = self.floats(word, a, row)?;
        let sum = match posts.first().map(|post| post.op) {
            Some(Op::RmsNorm { x, gain, eps }) => {
                norm(&self.floats(word, x, row)?, &self.weights(gain, 0)?, eps).plus(a.into_iter())
            }
            _ => plain::add(&a, &self.floats(word, b, row)?),
        };
        let gain = self.weights(gain, 0)?;
        let normed = plain::moved(norm(&rounded(&sum), &gain, eps), &sum, &gain, eps);
        Ok(vec![(posts.len(), Row::Whole(sum)), (posts.len() + 1, Row::Whole(normed))])
    }

    /// Some of the sums with a product, and the norm of those that the device made.
    fn product_and_sum(
        &self,
        nodes: &[Node],
        word: &PlannedWord,
        row: usize,
        random: &mut Random,
    ) -> Result<Vec<(usize, Row)>, GateError> {
        let [product, sum, last] = nodes else { return Ok(Vec::new()) };
        let (Op::Linear { x, weight, .. }, Op::Add { a, .. }) = (product.op, sum.op) else {
            return Ok(Vec::new());
        };
        let Op::RmsNorm { gain, eps, .. } = last.op else { return Ok(Vec::new()) };
        let width = self.file.model.graph.widths[sum.output.0];
        let some = pick(width, N_SAMPLES / 2, random);
        let (a, x) = (self.floats(word, a, row)?, self.operand(word, x, row)?);
        let products =
            self.linear(&x, self.room_on_matrices(false), (weight, None), (&some, self.plan.class.exact()))?;
        let (values, bounds) = products.into_iter().map(|(_, value, bound)| (value, bound)).unzip();
        let sums = Bounded { values, bounds }.plus(some.iter().map(|i| a[*i]));
        let sums = some.into_iter().zip(sums.values).zip(sums.bounds).map(|((i, v), bound)| (i, v, bound));
        let made = word.writes.iter().find(|(node, _)| *node == 1);
        let made = made.map(|(_, kept)| self.read(kept.buffer(), row * width, width)).transpose()?;
        let normed = norm(&made.unwrap_or_default(), &self.weights(gain, 0)?, eps);
        Ok(vec![(1, Row::Some(sums.collect())), (2, Row::Whole(normed))])
    }

    /// Some of the gated products with two matrices, whole blocks where blocks are made.
    fn gated(
        &self,
        nodes: &[Node],
        activation: Activation,
        word: &PlannedWord,
        row: usize,
        random: &mut Random,
    ) -> Result<Vec<(usize, Row)>, GateError> {
        let [gate, up, _] = nodes else { return Ok(Vec::new()) };
        let (Op::Linear { x, weight, .. }, Op::Linear { weight: second, .. }) = (gate.op, up.op) else {
            return Ok(Vec::new());
        };
        let m = self.file.model.graph.tensors[weight.0].shape[0];
        let block = activations::BLOCK as usize;
        let in_blocks = word.writes.iter().any(|(_, kept)| matches!(kept, Kept::Blocks(_)));
        let some: Vec<usize> = if in_blocks {
            let blocks = pick(m / block, N_SAMPLES / block, random);
            blocks.into_iter().flat_map(|b| b * block..(b + 1) * block).collect()
        } else {
            pick(m, N_SAMPLES / N_ROWS, random)
        };
        let x = self.operand(word, x, row)?;
        let product = |weight: TensorId| -> Result<Bounded, GateError> {
            let sums = self.linear(
                &x,
                self.room_on_matrices(false),
                (weight, None),
                (&some, self.plan.class.exact()),
            )?;
            let (values, bounds) = sums.into_iter().map(|(_, value, bound)| (value, bound)).unzip();
            Ok(Bounded { values, bounds })
        };
        let mut gated =
            plain::gated(&product(weight)?, &product(second)?, activation == Activation::GeluTanh);
        if in_blocks {
            gated.bounds = activations::with_steps(&gated.values, &gated.bounds);
        }
        let some = some.into_iter().zip(gated.values).zip(gated.bounds);
        Ok(vec![(2, Row::Some(some.map(|((i, value), bound)| (i, value, bound)).collect()))])
    }

    /// Queries that are normed and rotated, keys and values that are kept, and what attends to them.
    fn heads(&self, nodes: &[Node], word: &PlannedWord, row: usize) -> Result<Vec<(usize, Row)>, GateError> {
        let [norms @ .., q, k, last] = nodes else { return Ok(Vec::new()) };
        let Op::Attention { v, layer, attention, .. } = last.op else { return Ok(Vec::new()) };
        let ready = |node: &Node, i: usize| -> Result<Bounded, GateError> {
            let Op::Rope { x, head_dim, rope } = node.op else { return Ok(Bounded::default()) };
            let normed = match norms.get(i).map(|node| node.op) {
                Some(Op::RmsNorm { x, gain, eps }) => {
                    norm(&self.floats(word, x, row)?, &self.weights(gain, 0)?, eps)
                }
                _ => exactly(&self.floats(word, x, row)?),
            };
            let factors = rope.factors.map(|f| self.weights(f, 0)).transpose()?;
            let position = self.rows[row].position as usize;
            let mut out = rotated(rounded(&normed), head_dim, position, rope, factors.as_deref());
            // A rotation does not lengthen a pair, but for its magnitude: what both elements were off, at most.
            let heads = out.bounds.chunks_mut(head_dim).zip(normed.bounds.chunks(head_dim));
            for (bounds, off) in heads {
                let most = off.iter().fold(0.0f64, |most, off| most.max(*off));
                bounds.iter_mut().for_each(|bound| *bound += 2.0 * rope.magnitude.max(1.0) * most);
            }
            Ok(out)
        };
        let stored = self.stored(layer, attention, self.rows[row])?;
        stored.holds(&ready(k, 1)?, &exactly(&self.floats(word, v, row)?))?;
        // Attention is held against the queries and keys that the device made.
        let at = norms.len();
        let width = self.file.model.graph.widths[q.output.0];
        let made = word.writes.iter().find(|(node, _)| *node == at);
        let queries = made.map(|(_, kept)| self.read(kept.buffer(), row * width, width)).transpose()?;
        let attended = stored.attended(&queries.unwrap_or_default(), self.attends_on_matrices(word));
        Ok(vec![(at, Row::Whole(ready(q, 0)?)), (at + 2, Row::Whole(attended))])
    }
}

/// Values as a device has them, if it rounds nothing else.
fn rounded(x: &Bounded) -> Vec<f32> {
    x.values.iter().map(|x| *x as f32).collect()
}
