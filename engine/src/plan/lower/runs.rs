//! Launches that serve several words at once.

use kiln_kernels::{
    Call,
    activations::{self, Planes},
    attention::{self, Leaves},
    gemv::{self, Arm, Ends, Form, GemvOperands, GemvPush, LATE, Shape, SumOperands},
    heads::{Heads, HeadsArgs, HeadsForm, HeadsPush},
    late_norm::{LateNorm, LateNormArgs, LateNormPush},
    norm::{self, Norm, NormArgs, NormForm, NormPush},
};

use super::{Planner, Step, index, pages::LayerPages};
use crate::graph::{Activation, Op, RopePairs, TensorId, ValueId};
use crate::plan::{PlanError, StepClass, Width, runs::Run, scratch::Scratch};

/// The form of a product that ends with a sum.
const SUM: Form = Form { experts: false, bias: false, add: false, glu: None, late: false, ends: Ends::Sum };

impl Planner<'_> {
    /// The longest run from node `at` on that this device has launches for.
    pub(super) fn run(&mut self, class: StepClass, at: usize) -> Result<Run, PlanError> {
        if !self.fuse {
            return Ok(Run::Word);
        }
        let runs: Vec<Run> = self.runs.at(at).collect();
        for run in runs {
            if self.serves(class, run, at)? {
                return Ok(run);
            }
        }
        Ok(Run::Word)
    }

    fn serves(&mut self, class: StepClass, run: Run, at: usize) -> Result<bool, PlanError> {
        let nodes = &self.graph.nodes[at..at + run.len()];
        Ok(match (run, nodes) {
            (Run::Norm { .. }, [.., norm]) => self.graph.widths[norm.output.0].is_multiple_of(4),
            (Run::Gated, [gate, up, _]) => {
                let (Op::Linear { weight: w, .. }, Op::Linear { weight: v, .. }) = (gate.op, up.op) else {
                    return Ok(false);
                };
                let same = self.graph.tensors[w.0].shape == self.graph.tensors[v.0].shape
                    && self.format(w)?.id == self.format(v)?.id;
                same && self.matrix(w)?.1.len() == 1
                    && self.matrix(v)?.1.len() == 1
                    && !self.is_wide(class, w)?
            }
            (Run::Sum, [product, _, norm]) => {
                let Op::Linear { weight, .. } = product.op else { return Ok(false) };
                class.rows == 1
                    && self.is_late(class, norm.output)?
                    && self.matrix(weight)?.1.len() == 1
                    && !self.is_wide(class, weight)?
                    && self.tile_of_block(class, weight, SUM)?.is_some()
            }
            (Run::Heads { .. }, [.., attention]) => {
                let Op::Attention { attention: words, .. } = attention.op else { return Ok(false) };
                attention::serves(index("a head", words.head_dim)?, self.context.kv_type)
            }
            _ => true,
        })
    }

    /// Launches the words of a run, which starts at node `at`.
    pub(super) fn launch(
        &mut self,
        step: &mut Step,
        run: Run,
        at: usize,
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let nodes = &self.graph.nodes[at..at + run.len()];
        match (run, nodes) {
            (Run::Norm { .. }, _) => self.norm(step, run, at, scratch),
            (Run::Gated, [gate, up, glu]) => {
                let (Op::Linear { x, weight: w, .. }, Op::Linear { weight: v, .. }) = (gate.op, up.op) else {
                    return Ok(());
                };
                let Op::Glu { activation, .. } = glu.op else { return Ok(()) };
                self.gated(step, x, (w, v), (activation, glu.output), scratch)
            }
            (Run::Sum, [product, sum, norm]) => {
                let (Op::Linear { x, weight, .. }, Op::Add { a, .. }) = (product.op, sum.op) else {
                    return Ok(());
                };
                let Op::RmsNorm { gain, eps, .. } = norm.op else { return Ok(()) };
                self.sum(step, (x, weight), (a, sum.output), (gain, eps, norm.output), scratch)
            }
            (Run::Heads { .. }, [.., attention]) => {
                let Op::Attention { k, v, layer, attention: words, .. } = attention.op else { return Ok(()) };
                let q = self.heads(step, run, at, scratch)?;
                debug_assert!(!step.values.contains_key(&k) && step.values.contains_key(&v));
                let width = self.graph.widths[attention.output.0];
                let whole = words.head_dim.is_multiple_of(activations::BLOCK as usize);
                let leaves = match self.wanted(step.class, attention.output)? {
                    (false, true) if whole => Leaves::Blocks,
                    _ => Leaves::Rows,
                };
                let y = if leaves == Leaves::Blocks {
                    self.take_blocks(
                        Planes::Two,
                        step,
                        Some(attention.output),
                        index("a row", width)?,
                        scratch,
                    )
                } else {
                    let y = scratch.take(width, &mut self.buffers);
                    step.values.insert(attention.output, y);
                    self.range(y)
                };
                self.attend(step, q, layer, words, (leaves, y))
            }
            (_, [node, ..]) => self.node(step, node.op, node.output, scratch),
            (_, []) => Ok(()),
        }
    }

    /// Whether a value is read as f32, and whether in blocks.
    fn wanted(&self, class: StepClass, value: ValueId) -> Result<(bool, bool), PlanError> {
        let (mut rows, mut blocks) = (false, false);
        for node in self.graph.nodes.iter().filter(|node| node.op.inputs().any(|x| x == value)) {
            match node.op {
                Op::Linear { weight, .. } if value != self.graph.hidden => {
                    // Who makes a value makes blocks of two planes alone.
                    let two = Arm::Dot4(Planes::Two);
                    let packed = !self.is_wide(class, weight)? && self.arm(class, weight)? == two;
                    (rows, blocks) = (rows || !packed, blocks || packed);
                }
                _ => rows = true,
            }
        }
        Ok((rows, blocks))
    }

    /// Whether the scale of a norm comes with the products that read it: all of them multiply its blocks.
    fn is_late(&self, class: StepClass, value: ValueId) -> Result<bool, PlanError> {
        let whole = self.graph.widths[value.0].is_multiple_of(LATE as usize);
        Ok(whole && self.wanted(class, value)? == (false, true))
    }

    /// The choice for a matrix where one launch leaves blocks of its results, where this device can.
    fn tile_of_block(
        &self,
        class: StepClass,
        weight: TensorId,
        form: Form,
    ) -> Result<Option<(gemv::Choice, gemv::Tile)>, PlanError> {
        let shape = &self.graph.tensors[weight.0].shape;
        let (m, k) = (index("a matrix's number of rows", shape[0])?, index("a row", shape[1])?);
        let format = self.format(weight)?;
        let shape = Shape { rows: class.rows, m, k, experts: false, exact: self.exact };
        let choice = format.choose(shape, self.caps);
        let tile = format.tile_of_block(&choice, form, self.caps);
        Ok(tile.filter(|_| m.is_multiple_of(activations::BLOCK)).map(|tile| (choice, tile)))
    }

    /// Whether the rows of a step are multiplied with a tensor as matrices.
    fn is_wide(&self, class: StepClass, weight: TensorId) -> Result<bool, PlanError> {
        let shape = &self.graph.tensors[weight.0].shape;
        let (m, k) = (index("a matrix's number of rows", shape[0])?, index("a row", shape[1])?);
        Ok(self.gemm(class.width != Width::Narrow, self.format(weight)?, [class.rows, m, k]).is_some())
    }

    /// The arm of the gemv with a matrix.
    fn arm(&self, class: StepClass, weight: TensorId) -> Result<Arm, PlanError> {
        let shape = &self.graph.tensors[weight.0].shape;
        let (m, k) = (index("a matrix's number of rows", shape[0])?, index("a row", shape[1])?);
        let shape = Shape { rows: class.rows, m, k, experts: false, exact: self.exact };
        Ok(self.format(weight)?.choose(shape, self.caps).arm)
    }

    fn norm(&mut self, step: &mut Step, run: Run, at: usize, scratch: &mut Scratch) -> Result<(), PlanError> {
        let nodes = &self.graph.nodes[at..at + run.len()];
        let Some((last, before)) = nodes.split_last() else { return Ok(()) };
        let Op::RmsNorm { x, gain, eps } = last.op else { return Ok(()) };
        // What the launch reads: x, and what is added to it.
        let (x, b, g) = match *before {
            [sum] => match sum.op {
                Op::Add { a, b } => (a, Some(b), None),
                _ => return Ok(()),
            },
            [post, sum] => match (post.op, sum.op) {
                (Op::RmsNorm { x: b, gain, .. }, Op::Add { a, .. }) => (a, Some(b), Some(gain)),
                _ => return Ok(()),
            },
            _ => (x, None, None),
        };
        let width = self.graph.widths[last.output.0];
        let n = index("a row", width)?;
        let (rows, blocks) = self.wanted(step.class, last.output)?;
        let (x, b) = (self.range(step.values[&x]), b.map(|b| self.range(step.values[&b])));
        if g.is_none() && self.is_late(step.class, last.output)? {
            let s = before.last().map(|sum| {
                let buffer = scratch.take(width, &mut self.buffers);
                step.values.insert(sum.output, buffer);
                self.range(buffer)
            });
            let [q, squares] = self.take_late(step, last.output, (n, eps), scratch);
            let w = self.floats(gain);
            let args = LateNormArgs {
                x: x.into(),
                b: b.map(Into::into),
                w: self.range(w).into(),
                step: self.range(self.fixed.step).into(),
                s: s.map(Into::into),
                q: q.into(),
                squares: squares.into(),
                p: LateNormPush { rows: step.class.rows, n },
            };
            let kernel = LateNorm::new(b.is_some(), gemv::subgroup(self.caps));
            let reason = format!("{}; its scale comes with the products that read it", run.reason());
            step.launch_because(&self.graph.tensors[gain.0].name, Call::new(kernel, &args), reason);
            return Ok(());
        }
        let mut room = |value: ValueId, planner: &mut Self| {
            let buffer = scratch.take(width, &mut planner.buffers);
            step.values.insert(value, buffer);
            planner.range(buffer)
        };
        let s = before.last().map(|sum| room(sum.output, self));
        let y = rows.then(|| room(last.output, self));
        let q = blocks.then(|| self.take_blocks(Planes::Two, step, Some(last.output), n, scratch));
        let (w, g) = (self.floats(gain), g.map(|g| self.floats(g)));
        let args = NormArgs {
            x: x.into(),
            b: b.map(Into::into),
            g: g.map(|g| self.range(g).into()),
            w: self.range(w).into(),
            step: self.range(self.fixed.step).into(),
            s: s.map(Into::into),
            y: y.map(Into::into),
            q: q.map(Into::into),
            p: NormPush { rows: step.class.rows, n, eps },
        };
        let form = NormForm { add: b.is_some(), post: g.is_some(), rows, blocks };
        let (local, each) = norm::cut(n, self.caps.limits.max_invocations);
        let kernel = Norm::new(form, local, each, gemv::subgroup(self.caps));
        let made = match (rows, blocks) {
            (_, false) => "made as f32",
            (false, _) => "made as blocks, since every reader multiplies integers",
            _ => "made as f32 and as blocks, since both are read",
        };
        let reason = format!("{}; {made}", run.reason());
        step.launch_because(&self.graph.tensors[gain.0].name, Call::new(kernel, &args), reason);
        Ok(())
    }

    fn gated(
        &mut self,
        step: &mut Step,
        x: ValueId,
        (w, v): (TensorId, TensorId),
        (activation, output): (Activation, ValueId),
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let (format, pieces) = self.matrix(w)?;
        let (_, others) = self.matrix(v)?;
        let (Some(gate), Some(up)) = (pieces.first(), others.first()) else { return Ok(()) };
        let spec = &self.graph.tensors[w.0];
        let (m, k) = (gate.m, index("a row", spec.shape[1])?);
        let rows = step.class.rows;
        let choice = format.choose(Shape { rows, m, k, experts: false, exact: self.exact }, self.caps);
        let operands = self.operands(step, x);
        let x = match choice.arm {
            Arm::Dot4(planes) => self.blocks(planes, step, operands, k, scratch)?,
            Arm::Float => self.rows(operands)?,
        };
        let launch = format.gemv.launch(choice.arm);
        let glu = Some(match activation {
            Activation::Silu => gemv::Activation::Silu,
            Activation::GeluTanh => gemv::Activation::Gelu,
        });
        let (late, eps) = self.late(step, operands.value);
        let form = Form { glu, late: late.is_some(), ..Form::default() };
        let in_blocks = Form { ends: Ends::Blocks, ..form };
        let alone = rows == 1 && self.wanted(step.class, output)? == (false, true);
        let own = self.tile_of_block(step.class, w, in_blocks)?.filter(|_| alone);
        let (form, tile) = own.map_or((form, choice.tile), |(_, tile)| (in_blocks, tile));
        let y = if form.ends == Ends::Blocks {
            self.take_blocks(Planes::Two, step, Some(output), m, scratch)
        } else {
            let y = scratch.take(self.graph.widths[output.0], &mut self.buffers);
            step.values.insert(output, y);
            self.range(y)
        };
        let units = m * (k / format.unit);
        let p = GemvPush { rows, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps };
        let (w, v) = (self.range(gate.buffer), Some(self.range(up.buffer)));
        let o = GemvOperands { w, v, x, step: operands.block, ids: None, bias: None, late, y, sum: None };
        let left = if form.ends == Ends::Blocks {
            "; left as blocks, since every reader multiplies integers"
        } else {
            ""
        };
        let reason = format!("{}; {}{left}", Run::Gated.reason(), choice.reason());
        step.launch_because(&spec.name, launch(o, p, tile, form), reason);
        Ok(())
    }

    /// A product, the sum of it and `a`, and the norm of that without its scale.
    fn sum(
        &mut self,
        step: &mut Step,
        (x, weight): (ValueId, TensorId),
        (a, sum): (ValueId, ValueId),
        (gain, eps, normed): (TensorId, f32, ValueId),
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let missing = PlanError::Word { word: "a sum that no launch makes" };
        let Some((choice, tile)) = self.tile_of_block(step.class, weight, SUM)? else { return Err(missing) };
        let (format, pieces) = self.matrix(weight)?;
        let Some(piece) = pieces.first() else { return Err(missing) };
        let spec = &self.graph.tensors[weight.0];
        let (m, k) = (piece.m, index("a row", spec.shape[1])?);
        let rows = step.class.rows;
        let operands = self.operands(step, x);
        let x = self.blocks(Planes::Two, step, operands, k, scratch)?;
        let (late, own_eps) = self.late(step, operands.value);
        let form = Form { late: late.is_some(), ..SUM };
        let y = scratch.take(self.graph.widths[sum.0], &mut self.buffers);
        step.values.insert(sum, y);
        let [packed, squares] = self.take_late(step, normed, (m, eps), scratch);
        let gain = self.floats(gain);
        let (gain, residual) = (self.range(gain), self.range(step.values[&a]));
        let units = m * (k / format.unit);
        let p = GemvPush { rows, m, k, units, first: 0, stride: m, used: 1, sharing: 1, eps: own_eps };
        let o = GemvOperands {
            w: self.range(piece.buffer),
            v: None,
            x,
            step: operands.block,
            ids: None,
            bias: None,
            late,
            y: self.range(y),
            sum: Some(SumOperands { residual, gain, packed, squares }),
        };
        let reason = format!("{}; {}", Run::Sum.reason(), choice.reason());
        step.launch_because(&spec.name, (format.gemv.launch(choice.arm))(o, p, tile, form), reason);
        Ok(())
    }

    /// Makes heads ready; gives the buffer of the queries.
    fn heads(
        &mut self,
        step: &mut Step,
        run: Run,
        at: usize,
        scratch: &mut Scratch,
    ) -> Result<usize, PlanError> {
        let missing = PlanError::Word { word: "heads that are made in another order" };
        let nodes = &self.graph.nodes[at..at + run.len()];
        let [norms @ .., q, k, attention] = nodes else { return Err(missing) };
        let (Op::Rope { x: q_in, rope, .. }, Op::Rope { x: k_in, .. }) = (q.op, k.op) else {
            return Err(missing);
        };
        let Op::Attention { v, layer, attention: words, .. } = attention.op else { return Err(missing) };
        let mut eps = 0.0;
        let mut read = |i: usize, x: ValueId| match norms.get(i).map(|node| node.op) {
            Some(Op::RmsNorm { x, gain, eps: own }) => {
                eps = own;
                (x, Some(gain))
            }
            _ => (x, None),
        };
        let ((q_in, q_gain), (k_in, k_gain)) = (read(0, q_in), read(1, k_in));
        let [q_gain, k_gain] = [q_gain, k_gain].map(|gain| gain.map(|gain| self.floats(gain)));
        let q_out = scratch.take(self.graph.widths[q.output.0], &mut self.buffers);
        step.values.insert(q.output, q_out);
        let LayerPages { keys, values, table, n_pages } = self.pages(layer)?;
        let angles = self.angles(rope);
        let head_dim = index("a head", words.head_dim)?;
        let context = self.context;
        let args = HeadsArgs {
            q: self.range(step.values[&q_in]).into(),
            k: self.range(step.values[&k_in]).into(),
            v: self.range(step.values[&v]).into(),
            q_gain: q_gain.map(|gain| self.range(gain).into()),
            k_gain: k_gain.map(|gain| self.range(gain).into()),
            angles: self.range(angles).into(),
            step: self.range(self.fixed.step).into(),
            table: self.range(table).into(),
            q_out: self.range(q_out).into(),
            k_pages: self.range(keys).into(),
            v_pages: self.range(values).into(),
            p: HeadsPush {
                rows: step.class.rows,
                n_head: index("heads", words.n_head)?,
                n_head_kv: index("heads", words.n_head_kv)?,
                n_rot: index("a head", rope.n_rot)?,
                n_ctx: context.n_ctx,
                max_pages: context.max_pages,
                n_slots: context.n_slots,
                n_pages,
                eps,
            },
        };
        let form = HeadsForm { norm: q_gain.is_some(), halves: rope.pairs == RopePairs::Halves };
        let kernel = Heads::new(form, head_dim, context.kv_type, gemv::subgroup(self.caps));
        step.launch_because("heads", Call::new(kernel, &args), run.reason().to_owned());
        Ok(q_out)
    }
}
