//! Products with a weight: the rows they multiply, the arm that multiplies them, the launches.

use std::collections::BTreeSet;

use kiln_abi::BufferRange;
use kiln_kernels::{
    Call, FormatRow,
    activations::{self, Planes},
    add_bias::{AddBias, AddBiasArgs, AddBiasPush},
    gemm::{self, GemmDecodedPush, GemmOperands},
    gemv::{self, Arm, Exact, Form, GemvOperands, GemvPush, Shape},
    half_rows::{self, HalfRowsPush},
};

use super::step::{Packed, Step, squares_width};
use super::{Piece, Planner, index};
use crate::graph::{Op, TensorId, ValueId};
use crate::plan::{Late, PlanError, StepClass, Width, scratch::Scratch};

/// Rows that a matrix multiplies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands {
    /// Where they are as f32, if anywhere, and which value of the graph they are, if one.
    pub(super) x: Option<usize>,
    pub(super) value: Option<ValueId>,
    /// The step block that counts them, and how many there may be.
    pub(super) block: BufferRange,
    pub(super) rows: u32,
    /// Whether they are of feeds that matrices multiply.
    pub(super) wide: bool,
    /// How exact they are for packed weights.
    pub(super) exact: Exact,
}

impl Planner<'_> {
    pub(super) fn linear(
        &mut self,
        step: &mut Step,
        (weight, bias): (TensorId, Option<TensorId>),
        operands: Operands,
        y: BufferRange,
        scratch: &mut Scratch,
    ) -> Result<(), PlanError> {
        let (format, pieces) = self.matrix(weight)?;
        let spec = &self.graph.tensors[weight.0];
        let (stride, k) = (index("a row", spec.shape[0])?, index("a row", spec.shape[1])?);
        let Operands { block, rows, .. } = operands;
        let whole = pieces.len() == 1;
        let fuses = self.fuse && whole && self.gemm(operands.wide, format, [rows, stride, k]).is_none();
        let fused = bias.filter(|_| fuses).map(|bias| self.floats(bias));
        for Piece { buffer, first, m } in pieces {
            if let Some(choice) = self.gemm(operands.wide, format, [rows, m, k]) {
                let x = self.halves(step, operands, k, scratch)?;
                let o = GemmOperands { w: self.range(buffer), x, step: block, y };
                let p = GemmDecodedPush { rows, m, k, first, stride };
                step.launch_because(&spec.name, (format.gemm)(o, p, choice.shape), choice.reason);
                continue;
            }
            let shape = Shape { rows, m, k, experts: false, exact: operands.exact };
            let choice = format.choose(shape, self.caps);
            let x = match choice.arm {
                Arm::Dot4(planes) => self.blocks(planes, step, operands, k, scratch)?,
                Arm::Float => self.rows(operands)?,
            };
            let launch = format.gemv.launch(choice.arm);
            let units = m * (k / format.unit);
            let (late, eps) = self.late(step, operands.value);
            let form = Form { bias: fused.is_some(), late: late.is_some(), ..Form::default() };
            let p = GemvPush { rows, m, k, units, first, stride, used: 1, sharing: 1, eps };
            let (w, bias) = (self.range(buffer), fused.map(|bias| self.range(bias)));
            let o = GemvOperands { w, v: None, x, step: block, ids: None, bias, late, y, sum: None };
            step.launch_because(&spec.name, launch(o, p, choice.tile, form), choice.reason());
        }
        if let Some(bias) = bias.filter(|_| fused.is_none()) {
            let b = self.floats(bias);
            let args = AddBiasArgs {
                b: self.range(b).into(),
                step: block.into(),
                y: y.into(),
                p: AddBiasPush { rows, n: stride },
            };
            step.launch(&self.graph.tensors[bias.0].name, Call::new(AddBias::new(), &args));
        }
        Ok(())
    }

    /// How `rows` rows of wide feeds are multiplied by `m` of a matrix with `k` columns, where that is done as matrices.
    pub(super) fn gemm(&self, wide: bool, format: &FormatRow, shape: [u32; 3]) -> Option<gemm::Choice> {
        format.choose_gemm(shape, self.caps).ok().filter(|_| self.fuse && wide)
    }

    /// Rows of a matrix, and its columns.
    fn size(&self, weight: TensorId) -> Result<(u32, u32), PlanError> {
        let shape = &self.graph.tensors[weight.0].shape;
        Ok((index("a matrix's number of rows", shape[0])?, index("a row", shape[1])?))
    }

    /// Whether any word of a wide feed is multiplied on matrices, and why words are not.
    pub(super) fn matrices(&self) -> Result<(bool, Vec<String>), PlanError> {
        let (mut any, mut declines) = (false, Vec::new());
        for node in self.graph.nodes.iter().filter(|_| self.fuse) {
            let Op::Linear { weight, .. } = node.op else { continue };
            let (m, k) = self.size(weight)?;
            match self.format(weight)?.choose_gemm([self.window, m, k], self.caps) {
                Ok(_) => any = true,
                Err(reason) => declines.push(format!("prompts on matrices: {reason}")),
            }
        }
        declines.sort();
        declines.dedup();
        Ok((any, declines))
    }

    /// Why no product of rows has activations of one byte, where these are asked for.
    pub(super) fn unmet(&self) -> Result<Option<String>, PlanError> {
        if self.exact != Exact::One {
            return Ok(None);
        }
        let mut reasons = BTreeSet::new();
        for node in &self.graph.nodes {
            let Op::Linear { weight, .. } = node.op else { continue };
            let (m, k) = self.size(weight)?;
            let shape = Shape { rows: 1, m, k, experts: false, exact: Exact::One };
            let choice = self.format(weight)?.choose(shape, self.caps);
            if choice.arm == Arm::Dot4(Planes::One) {
                return Ok(None);
            }
            reasons.insert(choice.why);
        }
        let reasons: Vec<&str> = reasons.into_iter().collect();
        Ok(Some(format!("activations of 8 bits, for every product: {}", reasons.join(", "))))
    }

    /// A value as what a matrix multiplies.
    pub(super) fn operands(&self, step: &Step, x: ValueId) -> Operands {
        let StepClass { width, rows, .. } = step.class;
        let (block, wide) = (self.range(self.fixed.step), width != Width::Narrow);
        Operands { x: step.values.get(&x).copied(), value: Some(x), block, rows, wide, exact: self.exact }
    }

    /// Rows of x as f32.
    pub(super) fn rows(&self, operands: Operands) -> Result<BufferRange, PlanError> {
        let made = operands.x.map(|x| self.range(x));
        made.ok_or(PlanError::Word { word: "a product of f32 rows that are there as blocks alone" })
    }

    /// Rows of x in blocks of integers: made once for all products with the same value, if not by who made the value.
    pub(super) fn blocks(
        &mut self,
        planes: Planes,
        step: &mut Step,
        o: Operands,
        k: u32,
        scratch: &mut Scratch,
    ) -> Result<BufferRange, PlanError> {
        if let Some(blocks) = step.packed.get(&o.value).filter(|_| o.value.is_some()) {
            return Ok(self.range(blocks.buffer));
        }
        step.forget_packed(o.value, scratch);
        let y = self.take_blocks(planes, step, o.value, k, scratch);
        let p = activations::QuantizeRowsPush { rows: o.rows, k, used: 1 };
        let call = activations::call(self.rows(o)?, o.block, y, p, planes, gemv::subgroup(self.caps));
        step.launch("blocks", call);
        Ok(y)
    }

    /// Rows of x as f16: made once for all products with the same value.
    pub(super) fn halves(
        &mut self,
        step: &mut Step,
        o: Operands,
        k: u32,
        scratch: &mut Scratch,
    ) -> Result<BufferRange, PlanError> {
        if let Some(halves) = step.halves.get(&o.value).filter(|_| o.value.is_some()) {
            return Ok(self.range(halves.buffer));
        }
        let width = usize::try_from(half_rows::row_bytes(1, k) / 4).unwrap_or(usize::MAX);
        let buffer = scratch.take(width, &mut self.buffers);
        if let Some(old) = step.halves.insert(o.value, Packed { buffer, width, whole: false, late: None }) {
            scratch.give(old.buffer, old.width);
        }
        let y = self.range(buffer);
        step.launch("halves", half_rows::call(self.rows(o)?, o.block, y, HalfRowsPush { rows: o.rows, k }));
        Ok(y)
    }

    /// Room for a value in blocks.
    pub(super) fn take_blocks(
        &mut self,
        planes: Planes,
        step: &mut Step,
        value: Option<ValueId>,
        k: u32,
        scratch: &mut Scratch,
    ) -> BufferRange {
        let width = usize::try_from(activations::row_bytes(planes, 1, k) / 4).unwrap_or(usize::MAX);
        let buffer = scratch.take(width, &mut self.buffers);
        step.packed.insert(value, Packed { buffer, width, whole: planes == Planes::Two, late: None });
        self.range(buffer)
    }

    /// Room for a value in blocks whose scale comes late, and for the squares that it is made of.
    pub(super) fn take_late(
        &mut self,
        step: &mut Step,
        value: ValueId,
        (k, eps): (u32, f32),
        scratch: &mut Scratch,
    ) -> [BufferRange; 2] {
        let blocks = self.take_blocks(Planes::Two, step, Some(value), k, scratch);
        let Some(packed) = step.packed.get_mut(&Some(value)) else { return [blocks; 2] };
        let squares = scratch.take(squares_width(packed.width), &mut self.buffers);
        packed.late = Some(Late { squares, eps });
        [blocks, self.range(squares)]
    }

    /// The squares that the scale of a value's rows is made of, and what is added to their mean, where it comes late.
    pub(super) fn late(&self, step: &Step, value: Option<ValueId>) -> (Option<BufferRange>, f32) {
        let late = step.late(value);
        (late.map(|late| self.range(late.squares)), late.map_or(0.0, |late| late.eps))
    }
}
