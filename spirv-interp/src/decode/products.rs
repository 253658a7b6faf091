//! What instructions compute from matrices and where they load and store them.

use kiln_abi::spirv::{MatrixLayout, MatrixOperands, MatrixUse, Op};

use super::{
    alu::{self, Class},
    error::Decoded,
    lower::Lower,
    memory::{Pointer, Root},
    reader::Raw,
    types::Type,
};
use crate::{
    matrix::{Lines, MatrixOp, Place, Shape, Signs, Source},
    number::Number,
    program::{Bin, Kind},
};

impl Lower<'_> {
    pub(super) fn matrix_elementwise(&mut self, raw: &Raw, kind: Kind, class: Class) -> Decoded<()> {
        let allowed = matches!(
            raw.op,
            Op::SNegate
                | Op::FNegate
                | Op::IAdd
                | Op::FAdd
                | Op::ISub
                | Op::FSub
                | Op::IMul
                | Op::FMul
                | Op::SDiv
                | Op::UDiv
                | Op::FDiv
        );
        let (word, ops, shape) = (raw.word, self.g.words.operands(raw), self.result_shape(raw)?);
        if !allowed || !class.has(shape.elem) {
            return Err(self.refuse(raw, "is no operation of such matrices"));
        }
        for &id in ops {
            if self.g.type_of(word, id)? != raw.ty {
                return Err(self.refuse(raw, "has operands of different types"));
            }
        }
        let a = self.matrix(word, ops[0])?.0;
        let b = ops.get(1).map(|&id| self.matrix(word, id)).transpose()?.map(|m| m.0);
        let dst = self.define_matrix(raw, shape)?;
        self.emit_matrix(word, shape.sharing, MatrixOp::Elementwise { dst, kind, ty: shape.elem, a, b })
    }

    /// Whether a matrix of shape `from` may become one of shape `to`: the same, or an accumulator taken as a factor.
    fn recasts(from: &Shape, to: &Shape) -> bool {
        from.fits(to) && (from.usage == to.usage || from.usage == MatrixUse::MatrixAccumulatorKHR)
    }

    pub(super) fn convert_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, id, to) = (raw.word, self.g.words.operand(raw, 0)?, self.result_shape(raw)?);
        let (a, from) = self.matrix(word, id)?;
        let (conv, has, gets) = alu::conversion(raw.op).ok_or(self.refuse(raw, "converts nothing"))?;
        if !Self::recasts(&from, &to) || !has.has(from.elem) || !gets.has(to.elem) {
            return Err(self.refuse(raw, "has matrices of different extents, scopes or kinds of number"));
        }
        let dst = self.define_matrix(raw, to)?;
        let kind = Kind::Convert(conv, to.elem);
        self.emit_matrix(word, to.sharing, MatrixOp::Elementwise { dst, kind, ty: from.elem, a, b: None })
    }

    /// A bit cast between integers of one width.
    pub(super) fn cast_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, to) = (raw.word, self.result_shape(raw)?);
        let (first, from) = self.matrix(word, self.g.words.operand(raw, 0)?)?;
        let ints = from.elem.is_int() && to.elem.is_int() && from.elem.bytes() == to.elem.bytes();
        if !from.fits(&to) || from.usage != to.usage || !ints {
            return Err(self.refuse(raw, "casts matrices of integers of one width only"));
        }
        let dst = self.define_matrix(raw, to)?;
        let from = Place { first, dynamic: None, chain: None };
        self.emit_matrix(word, to.sharing, MatrixOp::Copy { dst, from })
    }

    /// ConvertNV: the same elements in another use.
    pub(super) fn recast_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, to) = (raw.word, self.result_shape(raw)?);
        let (first, from) = self.matrix(word, self.g.words.operand(raw, 0)?)?;
        if !Self::recasts(&from, &to) || from.elem != to.elem {
            return Err(self.refuse(raw, "changes an accumulator's use and nothing else"));
        }
        let dst = self.define_matrix(raw, to)?;
        let from = Place { first, dynamic: None, chain: None };
        self.emit_matrix(word, to.sharing, MatrixOp::Copy { dst, from })
    }

    pub(super) fn transpose_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, to) = (raw.word, self.result_shape(raw)?);
        let (src, from) = self.matrix(word, self.g.words.operand(raw, 0)?)?;
        let turned = Shape { rows: from.cols, cols: from.rows, usage: to.usage, ..from };
        let uses = [from.usage, to.usage] == [MatrixUse::MatrixAccumulatorKHR, MatrixUse::MatrixBKHR];
        if turned != to || !uses {
            return Err(
                self.refuse(raw, "takes an accumulator to a right factor with rows and columns swapped")
            );
        }
        let dst = self.define_matrix(raw, to)?;
        self.emit_matrix(word, to.sharing, MatrixOp::Transpose { dst, src })
    }

    pub(super) fn scale_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops, shape) = (raw.word, self.g.words.operands(raw), self.result_shape(raw)?);
        let (a, _) = self.matrix(word, ops[0])?;
        let (factor, ty) = self.scalar(word, ops[1], |d| d.is_int() || d.is_float())?;
        if self.g.type_of(word, ops[0])? != raw.ty || ty != shape.elem {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let kind = Kind::Bin(if ty.is_float() { Bin::FMul } else { Bin::IMul });
        let dst = self.define_matrix(raw, shape)?;
        self.emit_matrix(word, shape.sharing, MatrixOp::Scale { dst, kind, ty, a, factor })
    }

    pub(super) fn matrix_length(&mut self, raw: &Raw) -> Decoded<()> {
        let shape = self.g.types.shape(self.g.words.operand(raw, 0)?);
        let shape = shape.ok_or(self.refuse(raw, "needs a matrix type"))?;
        if self.g.types.element(raw.ty) != Some(Number::U32) || self.g.types.scalars(raw.ty) != 1 {
            return Err(self.refuse(raw, "has a u32 as result"));
        }
        let dst = self.alloc(1)?;
        self.emit_matrix(raw.word, shape.sharing, MatrixOp::Length { dst, shape })?;
        self.define(raw, vec![dst]);
        Ok(())
    }

    pub(super) fn mul_add(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops, r) = (raw.word, self.g.words.operands(raw), self.result_shape(raw)?);
        let [(a, x), (b, y), (c, z)] =
            [self.matrix(word, ops[0])?, self.matrix(word, ops[1])?, self.matrix(word, ops[2])?];
        let mask = ops.get(3).copied().unwrap_or(0);
        let has = |bit| mask & bit != 0;
        let signs = Signs {
            a: has(MatrixOperands::A_SIGNED),
            b: has(MatrixOperands::B_SIGNED),
            c: has(MatrixOperands::C_SIGNED),
            result: has(MatrixOperands::RESULT_SIGNED),
            saturate: has(MatrixOperands::SATURATING),
        };
        let uses = [MatrixUse::MatrixAKHR, MatrixUse::MatrixBKHR, MatrixUse::MatrixAccumulatorKHR];
        let extents = x.rows == r.rows && y.cols == r.cols && x.cols == y.rows && z.fits(&r);
        let scopes = x.sharing == r.sharing && y.sharing == r.sharing;
        if [x.usage, y.usage, z.usage] != uses || r.usage != uses[2] || !extents || !scopes {
            return Err(self.refuse(raw, "has matrices whose uses, extents or scopes do not fit a product"));
        }
        let floats = [x.elem, y.elem, z.elem, r.elem].iter().filter(|d| d.is_real()).count();
        let signed_floats = floats != 0 && mask != 0;
        if !matches!(floats, 0 | 4) || signed_floats {
            return Err(self.refuse(raw, "mixes floats with integers or signs"));
        }
        let dst = self.define_matrix(raw, r)?;
        self.emit_matrix(word, r.sharing, MatrixOp::MulAdd { dst, a, b, c, signs })
    }

    /// The memory behind `p` as elements of type `elem`; `operands` begins with the memory operands.
    pub(super) fn source(
        &mut self,
        raw: &Raw,
        p: &Pointer,
        elem: Number,
        operands: &[u32],
    ) -> Decoded<Source> {
        let workgroup = match p.root {
            Root::Buffer(_) => false,
            Root::Workgroup => true,
            _ => return Err(self.refuse(raw, "needs a pointer to a buffer or workgroup memory")),
        };
        let scalar_bytes = if workgroup { self.scalar_bytes(raw, p.ty)? } else { elem.bytes() };
        let holds = |r: &&std::ops::Range<u32>| r.contains(&p.offset);
        let end = self.workgroup_extents.iter().find(holds).map_or(0, |r| r.end);
        Ok(Source { access: self.access(raw, p, 0, elem, operands)?, workgroup, scalar_bytes, end })
    }

    /// Bytes of the scalars that an array, a vector or a scalar consists of.
    fn scalar_bytes(&self, raw: &Raw, mut ty: u32) -> Decoded<u32> {
        while let Type::Array { elem, .. } = self.g.types.get(raw.word, ty)? {
            ty = *elem;
        }
        let found = self.g.types.element(ty).map(Number::bytes).filter(|&n| n > 0);
        found.ok_or(self.refuse(raw, "needs a pointer into an array of numbers"))
    }

    /// LoadKHR and StoreKHR.
    pub(super) fn matrix_lines(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let p = self.pointer(word, ops[0])?;
        let step_bytes = match self.g.types.get(word, p.ty)? {
            Type::Scalar(d) if d.bytes() > 0 => d.bytes(),
            Type::Vector { dtype, n, .. } if dtype.bytes() > 0 => dtype.bytes() * n,
            _ => return Err(self.refuse(raw, "needs a pointer to a number or a vector in an array")),
        };
        let rest = if raw.op == Op::CooperativeMatrixStoreKHR { &ops[2..] } else { &ops[1..] };
        let layout = self.g.scalar(rest[0]).and_then(MatrixLayout::from_number);
        let layout = layout.ok_or(self.refuse(raw, "needs a constant layout, row-major or column-major"))?;
        let stride = self.scalar(word, rest[1], |d| matches!(d, Number::U32 | Number::I32))?.0;
        let lines = Lines { column_major: layout == MatrixLayout::ColumnMajorKHR, stride, step_bytes };
        if raw.op == Op::CooperativeMatrixStoreKHR {
            let (src, shape) = self.matrix(word, ops[1])?;
            let to = self.source(raw, &p, shape.elem, &rest[2..])?;
            self.mark_stored(&p);
            return self.emit_matrix(word, shape.sharing, MatrixOp::StoreLines { to, lines, src });
        }
        let shape = self.result_shape(raw)?;
        let from = self.source(raw, &p, shape.elem, &rest[2..])?;
        let dst = self.define_matrix(raw, shape)?;
        self.emit_matrix(word, shape.sharing, MatrixOp::Load { dst, from, lines })
    }

    pub(super) fn mark_stored(&mut self, p: &Pointer) {
        if let Root::Buffer(b) = p.root {
            self.program.bindings[b as usize].stored = true;
        }
    }
}
