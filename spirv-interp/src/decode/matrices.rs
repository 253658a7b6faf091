//! Matrix values: registers, variables, and their parts.

use std::rc::Rc;

use kiln_abi::spirv::Op;

use super::{
    error::{DecodeError, Decoded},
    lower::{Lower, Value},
    memory::{Pointer, Root},
    reader::Raw,
    types::Type,
};
use crate::{
    matrix::{MatrixInst, MatrixOp, Place, Reg, Shape, Sharing},
    number::Number,
    program::{Inst, Kind, Slot},
};

const MAX_REGISTERS: usize = 1 << 14;

impl Lower<'_> {
    /// Registers of the shapes given, one after another.
    pub(super) fn registers(&mut self, shapes: &[Shape]) -> Decoded<Reg> {
        let all = &mut self.program.registers;
        if all.len() + shapes.len() > MAX_REGISTERS {
            let (found, allowed) = ((all.len() + shapes.len()) as u64, MAX_REGISTERS as u64);
            return Err(DecodeError::TooLarge { what: "matrix values", found, allowed });
        }
        all.extend_from_slice(shapes);
        Ok((all.len() - shapes.len()) as Reg)
    }

    pub(super) fn emit_matrix(&mut self, word: u32, sharing: Sharing, op: MatrixOp) -> Decoded<()> {
        self.outside_callbacks(word)?;
        let a = self.program.matrix_ops.len() as u32;
        self.program.matrix_ops.push(MatrixInst { op, sharing });
        self.emit(Inst { kind: Kind::Matrix, ty: Number::U32, dst: 0, a, b: 0, c: 0, word })
    }

    /// The matrices in a value of type `ty`, and who shares them.
    fn shapes(&self, word: u32, ty: u32) -> Decoded<(Vec<Shape>, Sharing)> {
        let shapes = self.g.types.shapes(word, ty)?;
        match shapes.first().map(|s| s.sharing) {
            Some(sharing) if shapes.iter().all(|s| s.sharing == sharing) => Ok((shapes, sharing)),
            _ => {
                Err(DecodeError::Malformed { word, what: "a type holds no matrices, or such of two scopes" })
            }
        }
    }

    fn matrices(&self, word: u32, id: u32) -> Decoded<Rc<[Reg]>> {
        match self.values.get(&id) {
            Some(Value::Matrices(m)) => Ok(Rc::clone(m)),
            _ => Err(DecodeError::WrongId { word, id, expected: "a matrix" }),
        }
    }

    /// The register and shape of a value that is one matrix.
    pub(super) fn matrix(&self, word: u32, id: u32) -> Decoded<(Reg, Shape)> {
        let shape = self.g.types.shape(self.g.type_of(word, id)?);
        let shape = shape.ok_or(DecodeError::WrongId { word, id, expected: "a matrix" })?;
        Ok((self.matrices(word, id)?[0], shape))
    }

    /// The shape of the result's type, which has to be a matrix.
    pub(super) fn result_shape(&self, raw: &Raw) -> Decoded<Shape> {
        self.g.types.shape(raw.ty).ok_or(self.refuse(raw, "has a result that is no matrix"))
    }

    /// A new register as the result of `raw`.
    pub(super) fn define_matrix(&mut self, raw: &Raw, shape: Shape) -> Decoded<Reg> {
        let dst = self.registers(&[shape])?;
        self.values.insert(raw.id, Value::Matrices([dst].into()));
        Ok(dst)
    }

    /// Registers for a value of type `ty`, without content.
    pub(super) fn undefined_matrices(&mut self, word: u32, ty: u32) -> Decoded<Rc<[Reg]>> {
        let (shapes, sharing) = self.shapes(word, ty)?;
        let (first, n) = (self.registers(&shapes)?, shapes.len() as u32);
        self.emit_matrix(word, sharing, MatrixOp::Undefine { first, n })?;
        Ok((first..first + n).collect())
    }

    /// A variable of matrices; where `private` is set it is the module's.
    pub(super) fn matrix_variable(&mut self, word: u32, ty: u32, private: bool) -> Decoded<Pointer> {
        let offset = if private {
            let (shapes, _) = self.shapes(word, ty)?;
            let first = self.registers(&shapes)?;
            self.program.private_matrices.push((first, shapes.len() as u32));
            first
        } else {
            self.undefined_matrices(word, ty)?[0]
        };
        Ok(Pointer { root: Root::Matrices, ty, offset, dynamic: None, chain: None })
    }

    /// The registers of a matrix constant, which its first execution finds filled.
    pub(super) fn matrix_constant(&mut self, raw: &Raw, splats: &[Option<u32>]) -> Decoded<()> {
        let (shapes, _) = self.shapes(raw.word, raw.ty)?;
        let first = self.registers(&shapes)?;
        self.program.matrix_constants.extend((first..).zip(splats.iter().copied()));
        self.values.insert(raw.id, Value::Matrices((first..first + shapes.len() as u32).collect()));
        Ok(())
    }

    pub(super) fn load_matrices(&mut self, raw: &Raw, p: &Pointer) -> Decoded<()> {
        let (shapes, sharing) = self.shapes(raw.word, p.ty)?;
        let (first, n) = (self.registers(&shapes)?, shapes.len() as u32);
        for i in 0..n {
            let from = Place { first: p.offset + i, dynamic: p.dynamic, chain: p.chain };
            self.emit_matrix(raw.word, sharing, MatrixOp::Copy { dst: first + i, from })?;
        }
        self.values.insert(raw.id, Value::Matrices((first..first + n).collect()));
        Ok(())
    }

    pub(super) fn store_matrices(&mut self, raw: &Raw, p: &Pointer, value: u32) -> Decoded<()> {
        let (word, row) = (raw.word, self.matrices(raw.word, value)?);
        if self.g.type_of(word, value)? != p.ty {
            return Err(self.refuse(raw, "stores another type than is there"));
        }
        let (_, sharing) = self.shapes(word, p.ty)?;
        for (&src, i) in row.iter().zip(0..) {
            let to = Place { first: p.offset + i, dynamic: p.dynamic, chain: p.chain };
            self.emit_matrix(word, sharing, MatrixOp::Store { to, src })?;
        }
        Ok(())
    }

    pub(super) fn copy_matrices(&mut self, word: u32, ty: u32, dst: &[Reg], src: u32) -> Decoded<()> {
        let row = self.matrices(word, src)?;
        if row.len() != dst.len() {
            return Err(DecodeError::WrongId { word, id: src, expected: "a value of the function's type" });
        }
        self.move_matrices(word, ty, dst, &row)
    }

    /// dst ← src, the matrices of a value of type `ty`.
    pub(super) fn move_matrices(&mut self, word: u32, ty: u32, dst: &[Reg], src: &[Reg]) -> Decoded<()> {
        let (_, sharing) = self.shapes(word, ty)?;
        for (&dst, &first) in dst.iter().zip(src) {
            let from = Place { first, dynamic: None, chain: None };
            self.emit_matrix(word, sharing, MatrixOp::Copy { dst, from })?;
        }
        Ok(())
    }

    /// The invocation's own element `index` of the matrix that `p` led to, loaded into the result's slot.
    pub(super) fn load_element(&mut self, raw: &Raw, p: &Pointer, index: Slot) -> Decoded<()> {
        let (dst, sharing) = (self.alloc(1)?, self.place_sharing(raw, p)?);
        let from = Place { first: p.offset, dynamic: p.dynamic, chain: p.chain };
        self.emit_matrix(raw.word, sharing, MatrixOp::LoadElement { dst, from, index })?;
        self.define(raw, vec![dst]);
        Ok(())
    }

    pub(super) fn store_element(&mut self, raw: &Raw, p: &Pointer, index: Slot, id: u32) -> Decoded<()> {
        if self.g.type_of(raw.word, id)? != p.ty {
            return Err(self.refuse(raw, "stores another type than is there"));
        }
        let (value, sharing) = (self.slots(raw.word, id)?[0], self.place_sharing(raw, p)?);
        let to = Place { first: p.offset, dynamic: p.dynamic, chain: p.chain };
        self.emit_matrix(raw.word, sharing, MatrixOp::StoreElement { to, index, value })
    }

    fn place_sharing(&self, raw: &Raw, p: &Pointer) -> Decoded<Sharing> {
        let found = self.program.registers.get(p.offset as usize).map(|s| s.sharing);
        found.ok_or(self.refuse(raw, "points to no matrix"))
    }

    /// CompositeExtract and CompositeInsert of a value of matrices.
    pub(super) fn matrix_part(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let insert = raw.op == Op::CompositeInsert;
        let (object, whole, indices) =
            if insert { (Some(ops[0]), ops[1], &ops[2..]) } else { (None, ops[0], &ops[1..]) };
        let (row, mut ty, mut at) = (self.matrices(word, whole)?, self.g.type_of(word, whole)?, 0);
        let mut element = None;
        for &i in indices {
            let (elem, place) = match self.g.types.get(word, ty)? {
                Type::Array { elem, len, .. } if i < *len => (*elem, i * self.g.types.scalars(*elem)),
                Type::Struct(m) if (i as usize) < m.len() => {
                    (m[i as usize].ty, self.g.types.member(word, m, i as usize, false)?)
                }
                Type::Matrix { elem, shape } if element.is_none() => {
                    element = Some((i, *shape));
                    (*elem, 0)
                }
                _ => return Err(self.refuse(raw, "names a part that is not there")),
            };
            (ty, at) = (elem, at + place);
        }
        let mismatch = self.refuse(raw, "has another type than the part");
        let (first, n) = (at as usize, if element.is_some() { 1 } else { self.g.types.scalars(ty) as usize });
        let part = row.get(first..first + n).ok_or(self.refuse(raw, "names a part that is not there"))?;
        let (src, fits) = (part.first().copied().unwrap_or(0), object.is_some() || ty == raw.ty);
        if !fits {
            return Err(mismatch);
        }
        if let Some(id) = object
            && (self.g.type_of(word, id)? != ty || self.g.type_of(word, whole)? != raw.ty)
        {
            return Err(mismatch);
        }
        match (element, object) {
            (None, None) => {
                self.values.insert(raw.id, Value::Matrices(part.into()));
            }
            (Some((index, shape)), None) => {
                let dst = self.alloc(1)?;
                self.emit_matrix(word, shape.sharing, MatrixOp::Extract { dst, src, index })?;
                self.define(raw, vec![dst]);
            }
            (None, Some(id)) => {
                let mut all = row.to_vec();
                all[first..first + n].copy_from_slice(&self.matrices(word, id)?);
                self.values.insert(raw.id, Value::Matrices(all.into()));
            }
            (Some((index, shape)), Some(id)) => {
                let (object, dst) = (self.slots(word, id)?[0], self.registers(&[shape])?);
                self.emit_matrix(word, shape.sharing, MatrixOp::Insert { dst, src, object, index })?;
                let mut all = row.to_vec();
                all[first] = dst;
                self.values.insert(raw.id, Value::Matrices(all.into()));
            }
        }
        Ok(())
    }

    /// CompositeConstruct of a matrix from the one scalar it repeats, or of a composite from its matrices.
    pub(super) fn construct_matrices(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        if let Type::Matrix { elem, shape } = *self.g.types.get(word, raw.ty)? {
            let &[id] = ops else {
                return Err(self.refuse(raw, "needs the one scalar that a matrix repeats"));
            };
            if self.g.type_of(word, id)? != elem {
                return Err(self.refuse(raw, "has an operand of another type than the elements"));
            }
            let value = self.slots(word, id)?[0];
            let dst = self.define_matrix(raw, shape)?;
            return self.emit_matrix(word, shape.sharing, MatrixOp::Fill { dst, value });
        }
        let (mut all, mut shapes) = (Vec::new(), Vec::new());
        for &id in ops {
            all.extend_from_slice(&self.matrices(word, id)?);
            shapes.extend(self.g.types.shapes(word, self.g.type_of(word, id)?)?);
        }
        if shapes != self.shapes(word, raw.ty)?.0 {
            return Err(self.refuse(raw, "has other matrices than its type"));
        }
        self.values.insert(raw.id, Value::Matrices(all.into()));
        Ok(())
    }

    pub(super) fn select_matrix(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let condition = self.scalar(word, ops[0], |d| d == Number::Bool)?.0;
        let ((yes, _), (no, _)) = (self.matrix(word, ops[1])?, self.matrix(word, ops[2])?);
        if self.g.type_of(word, ops[1])? != raw.ty || self.g.type_of(word, ops[2])? != raw.ty {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let shape = self.result_shape(raw)?;
        let dst = self.define_matrix(raw, shape)?;
        self.emit_matrix(word, shape.sharing, MatrixOp::Select { dst, condition, yes, no })
    }
}
