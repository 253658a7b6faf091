//! Functions that matrix instructions call: their code stands before the instruction, which runs it over its elements.

use kiln_abi::spirv::{Op, StorageClass};

use super::{
    error::{DecodeError, Decoded},
    lower::{Lower, Value},
    memory::{Pointer, Root},
    reader::Raw,
    types::Type,
};
use crate::{
    matrix::{Callback, Decoder, Extra, MatrixOp, Reduction, Shape},
    number::Number,
    program::{Inst, Kind, Slot},
};

impl Lower<'_> {
    /// Refuses what has no place in a function that a matrix instruction calls.
    pub(super) fn outside_callbacks(&self, word: u32) -> Decoded<()> {
        if self.in_callback {
            let what =
                "a function called by a matrix instruction holds a barrier, subgroup or matrix operation";
            return Err(DecodeError::Malformed { word, what });
        }
        Ok(())
    }

    /// Lays out function `id`; its leading parameters are the values given, the others get slots.
    fn callback(&mut self, raw: &Raw, id: u32, given: &[Option<Value>]) -> Decoded<Callback> {
        let word = raw.word;
        let f = self.g.functions.get(&id).ok_or(DecodeError::WrongId { word, id, expected: "a function" })?;
        let (mut args, mut params) = (Vec::new(), Vec::new());
        for (i, &(_, ty)) in f.params.iter().enumerate() {
            if let Some(Some(value)) = given.get(i) {
                args.push(value.clone());
                continue;
            }
            let slots = self.fresh(raw, ty)?;
            args.push(Value::Slots(slots.clone().into()));
            params.push(slots);
        }
        let result = self.fresh(raw, f.result)?;
        let jump = self.program.code.len();
        let inst = Inst { kind: Kind::Jump, ty: Number::U32, dst: 0, a: 0, b: 0, c: 0, word };
        self.emit(inst)?;
        self.in_callback = true;
        self.function(word, id, &args, Some(&result))?;
        self.in_callback = false;
        self.emit(Inst { kind: Kind::Return, ..inst })?;
        self.program.code[jump].a = self.program.code.len() as u32;
        Ok(Callback { entry: jump as u32 + 1, params, result })
    }

    /// Slots for a value of type `ty`, which has to be numbers.
    fn fresh(&mut self, raw: &Raw, ty: u32) -> Decoded<Vec<Slot>> {
        let n = self.g.types.scalars(ty);
        if n == 0 || n > 64 || self.g.types.is_matrix(ty) {
            return Err(self.refuse(raw, "calls a function with a parameter or result that is no numbers"));
        }
        let first = self.alloc(n)?;
        Ok((first..first + n).collect())
    }

    fn params(&self, raw: &Raw, id: u32) -> Decoded<(Vec<u32>, u32)> {
        let missing = DecodeError::WrongId { word: raw.word, id, expected: "a function" };
        let f = self.g.functions.get(&id).ok_or(missing)?;
        Ok((f.params.iter().map(|p| p.1).collect(), f.result))
    }

    fn is(&self, ty: u32, class: fn(Number) -> bool) -> bool {
        matches!(self.g.types.get(0, ty), Ok(Type::Scalar(d)) if class(*d))
    }

    /// A decode function over buffer `binding`, which yields `elem` or, where `vector` is set, a vector of it.
    pub(super) fn decoder(
        &mut self,
        raw: &Raw,
        id: u32,
        shape: Shape,
        dim: u32,
        binding: u32,
        vector: bool,
    ) -> Decoded<Decoder> {
        let (params, result) = self.params(raw, id)?;
        let wrong = self.refuse(raw, "needs a decode function of a block's pointer and two arrays of u32");
        let &[pointer, block, inside] = params.as_slice() else { return Err(wrong) };
        let Type::Pointer { class: StorageClass::PhysicalStorageBuffer, pointee } =
            *self.g.types.get(raw.word, pointer)?
        else {
            return Err(wrong);
        };
        for ty in [block, inside] {
            match self.g.types.get(raw.word, ty)? {
                Type::Array { elem, len, .. }
                    if *len == dim && self.is(*elem, |d| d.is_int() && d.bytes() == 4) => {}
                _ => return Err(wrong),
            }
        }
        let yields = match self.g.types.get(raw.word, result)? {
            Type::Scalar(d) => !vector && *d == shape.elem,
            Type::Vector { dtype, n, .. } => vector && *dtype == shape.elem && n.is_power_of_two(),
            _ => false,
        };
        if !yields {
            return Err(self.refuse(raw, "needs decode functions that yield elements of the matrix"));
        }
        let at = self.alloc(1)?;
        let root = Root::Buffer(binding);
        let block = Pointer { root, ty: pointee, offset: 0, dynamic: Some(at), chain: None };
        let mut call = self.callback(raw, id, &[Some(Value::Pointer(block))])?;
        call.params.insert(0, vec![at]);
        Ok(Decoder { call, block_bytes: self.g.types.memory_bytes(raw.word, pointee)? })
    }

    pub(super) fn reduce(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops, to) = (raw.word, self.g.words.operands(raw), self.result_shape(raw)?);
        let (src, from) = self.matrix(word, ops[0])?;
        let reduction = match ops[1] {
            1 => Reduction::Row,
            2 => Reduction::Column,
            3 => Reduction::All,
            4 => Reduction::Square,
            _ => return Err(self.refuse(raw, "reduces rows, columns, both, or squares of two by two")),
        };
        let extents = match reduction {
            Reduction::Row => to.rows == from.rows,
            Reduction::Column => to.cols == from.cols,
            Reduction::All => true,
            Reduction::Square => to.rows * 2 == from.rows && to.cols * 2 == from.cols,
        };
        let same = Shape { rows: from.rows, cols: from.cols, ..to } == from;
        let accumulates = from.usage == kiln_abi::spirv::MatrixUse::MatrixAccumulatorKHR;
        if !extents || !same || !accumulates {
            return Err(self.refuse(raw, "has matrices that do not fit the reduction"));
        }
        let (params, result) = self.params(raw, ops[2])?;
        let elem = |ty: u32| matches!(self.g.types.get(word, ty), Ok(Type::Scalar(d)) if *d == from.elem);
        if params.len() != 2 || !params.iter().chain([&result]).all(|&ty| elem(ty)) {
            return Err(self.refuse(raw, "needs a function of two elements that yields one"));
        }
        let kept = self.mark();
        let combine = self.callback(raw, ops[2], &[])?;
        let dst = self.define_matrix(raw, to)?;
        self.emit_matrix(word, to.sharing, MatrixOp::Reduce { dst, src, reduction, combine })?;
        self.release(kept);
        Ok(())
    }

    pub(super) fn per_element(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops, shape) = (raw.word, self.g.words.operands(raw), self.result_shape(raw)?);
        let (src, _) = self.matrix(word, ops[0])?;
        let (params, result) = self.params(raw, ops[1])?;
        let elem = |ty: u32| matches!(self.g.types.get(word, ty), Ok(Type::Scalar(d)) if *d == shape.elem);
        let wide = |d: Number| d.is_int() && d.bytes() == 4;
        let fits = params.len() == ops.len() + 1
            && self.is(params[0], wide)
            && self.is(params[1], wide)
            && elem(params[2])
            && elem(result);
        if self.g.type_of(word, ops[0])? != raw.ty || !fits {
            return Err(self.refuse(raw, "needs a function of row, column, element and the operands given"));
        }
        let (mut given, mut extras) = (vec![None; 3], Vec::new());
        for (&id, &ty) in ops[2..].iter().zip(&params[3..]) {
            let mismatch = self.refuse(raw, "has an operand of another type than the function's parameter");
            let own = self.g.type_of(word, id)?;
            let value = self.values.get(&id).cloned();
            given.push(match value.ok_or(DecodeError::WrongId { word, id, expected: "an operand" })? {
                Value::Pointer(p) if own == ty && p.dynamic.is_none() => Some(Value::Pointer(p)),
                Value::Slots(row) if own == ty => {
                    extras.push(Extra::Scalars(row.to_vec()));
                    None
                }
                Value::Matrices(_) => match (self.matrix(word, id)?, self.g.types.get(word, ty)?) {
                    ((m, other), Type::Scalar(d)) if other.fits(&shape) && other.elem == *d => {
                        extras.push(Extra::Matrix(m));
                        None
                    }
                    _ => return Err(mismatch),
                },
                _ => return Err(mismatch),
            });
        }
        let kept = self.mark();
        let call = self.callback(raw, ops[1], &given)?;
        let dst = self.define_matrix(raw, shape)?;
        self.emit_matrix(word, shape.sharing, MatrixOp::PerElement { dst, src, call, extras })?;
        self.release(kept);
        Ok(())
    }

    /// LoadTensorNV and StoreTensorNV.
    pub(super) fn matrix_tensor(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let p = self.pointer(word, ops[0])?;
        let (object, shape) = self.matrix(word, ops[1])?;
        let (layout, rest) = (self.layout(word, ops[2])?, &ops[3..]);
        let mut tail = Self::behind_memory(rest).iter();
        let mask = tail.next().copied().unwrap_or(0);
        let mut operand = |bit: u32| (mask & bit != 0).then(|| tail.next().copied().unwrap_or(0));
        let (view, decode, vector) = (operand(1), operand(2), operand(4));
        let view = view.map(|id| self.view(word, id)).transpose()?;
        let tensor = crate::matrix::Tensor { layout, view };
        if raw.op == Op::CooperativeMatrixStoreTensorNV {
            if decode.is_some() || vector.is_some() {
                return Err(self.refuse(raw, "decodes nothing"));
            }
            let to = self.source(raw, &p, shape.elem, rest)?;
            self.mark_stored(&p);
            return self.emit_matrix(word, shape.sharing, MatrixOp::StoreTensor { to, tensor, src: object });
        }
        if self.result_shape(raw)? != shape || self.g.type_of(word, ops[1])? != raw.ty {
            return Err(self.refuse(raw, "has an object of another type than its result"));
        }
        let binding = match (p.root, decode, vector) {
            (_, None, None) => 0,
            (Root::Buffer(b), Some(_), _) => b,
            _ => return Err(self.refuse(raw, "decodes from buffers only, by a scalar function at least")),
        };
        let from = self.source(raw, &p, shape.elem, rest)?;
        let (kept, dim) = (self.mark(), tensor.layout.dim);
        let decoder = |l: &mut Self, id: Option<u32>, vector| {
            id.map(|id| l.decoder(raw, id, shape, dim, binding, vector)).transpose()
        };
        let decode = decoder(self, decode, false)?;
        let decode_vector = decoder(self, vector, true)?;
        let dst = self.define_matrix(raw, shape)?;
        let op = MatrixOp::LoadTensor { dst, old: object, from, tensor, decode, decode_vector };
        self.emit_matrix(word, shape.sharing, op)?;
        self.release(kept);
        Ok(())
    }
}
