//! Instructions of a block: which lowering each takes, and arithmetic one scalar at a time.

use kiln_abi::spirv::{GlslOp, Op};

use super::{
    alu::{self, Class},
    error::{DecodeError, Decoded},
    lower::{Lower, Value},
    reader::Raw,
    types::Type,
};
use crate::{
    number::Number,
    program::{Bin, Exchange, Inst, Kind, Slot, Tri, Un},
};

impl Lower<'_> {
    /// Lowers one instruction of a block, terminators excepted. The match is exhaustive: a new row of the op table
    /// does not compile until it is run here.
    pub(super) fn instruction(&mut self, raw: &Raw) -> Decoded<()> {
        match raw.op {
            Op::Name
            | Op::MemberName
            | Op::String
            | Op::Extension
            | Op::ExtInstImport
            | Op::MemoryModel
            | Op::EntryPoint
            | Op::ExecutionMode
            | Op::Capability
            | Op::Decorate
            | Op::MemberDecorate
            | Op::TypeVoid
            | Op::TypeBool
            | Op::TypeInt
            | Op::TypeFloat
            | Op::TypeVector
            | Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeStruct
            | Op::TypePointer
            | Op::TypeFunction
            | Op::TypeCooperativeMatrixKHR
            | Op::TypeTensorLayoutNV
            | Op::TypeTensorViewNV
            | Op::ConstantTrue
            | Op::ConstantFalse
            | Op::Constant
            | Op::ConstantComposite
            | Op::ConstantNull
            | Op::Function
            | Op::FunctionParameter
            | Op::FunctionEnd
            | Op::Label
            | Op::Branch
            | Op::BranchConditional
            | Op::Return
            | Op::ReturnValue
            | Op::Unreachable => Err(self.refuse(raw, "has no place inside a block")),
            // What merges say is in the order of the blocks already.
            Op::LoopMerge | Op::SelectionMerge | Op::Line => Ok(()),
            Op::Undef if self.g.types.is_matrix(raw.ty) => {
                let row = self.undefined_matrices(raw.word, raw.ty)?;
                self.values.insert(raw.id, Value::Matrices(row));
                Ok(())
            }
            Op::Undef => {
                let n = self.g.types.scalars(raw.ty);
                let slot = self.alloc(1)?;
                self.emit(inst(Kind::Undefine, Number::U32, slot, 1, raw.word))?;
                self.define(raw, vec![slot; n as usize]);
                Ok(())
            }
            Op::Phi => self.phi(raw),
            Op::FunctionCall => self.call(raw),
            Op::Variable => self.variable(raw),
            Op::Load => self.load(raw),
            Op::Store => self.store(raw),
            Op::AccessChain => self.access_chain(raw),
            Op::ArrayLength => self.array_length(raw),
            Op::VectorExtractDynamic => self.extract_dynamic(raw),
            Op::VectorShuffle => self.shuffle(raw),
            Op::CompositeConstruct => self.construct(raw),
            Op::CompositeExtract | Op::CompositeInsert => self.part(raw),
            Op::ConvertFToU
            | Op::ConvertFToS
            | Op::ConvertSToF
            | Op::ConvertUToF
            | Op::UConvert
            | Op::SConvert
            | Op::FConvert => self.convert(raw),
            Op::Bitcast => self.bitcast(raw),
            Op::SNegate
            | Op::FNegate
            | Op::IAdd
            | Op::FAdd
            | Op::ISub
            | Op::FSub
            | Op::IMul
            | Op::FMul
            | Op::UDiv
            | Op::SDiv
            | Op::FDiv
            | Op::UMod
            | Op::SRem
            | Op::FRem
            | Op::IsNan
            | Op::IsInf
            | Op::LogicalEqual
            | Op::LogicalNotEqual
            | Op::LogicalOr
            | Op::LogicalAnd
            | Op::LogicalNot
            | Op::IEqual
            | Op::INotEqual
            | Op::UGreaterThan
            | Op::SGreaterThan
            | Op::UGreaterThanEqual
            | Op::SGreaterThanEqual
            | Op::ULessThan
            | Op::SLessThan
            | Op::ULessThanEqual
            | Op::SLessThanEqual
            | Op::FOrdEqual
            | Op::FUnordNotEqual
            | Op::FOrdLessThan
            | Op::FOrdGreaterThan
            | Op::FOrdLessThanEqual
            | Op::FOrdGreaterThanEqual
            | Op::ShiftRightLogical
            | Op::ShiftRightArithmetic
            | Op::ShiftLeftLogical
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::BitwiseAnd
            | Op::Not
            | Op::BitReverse
            | Op::BitCount => match alu::elementwise(raw.op) {
                Some((kind, class)) if self.g.types.is_matrix(raw.ty) => {
                    self.matrix_elementwise(raw, kind, class)
                }
                Some((kind, class)) => self.elementwise(raw, kind, class, self.g.words.operands(raw)),
                None => Err(self.refuse(raw, "has no elementwise form")),
            },
            Op::ExtInst => self.extended(raw),
            Op::Select => self.select(raw),
            Op::VectorTimesScalar => self.scale(raw),
            Op::MatrixTimesScalar => self.scale_matrix(raw),
            Op::CooperativeMatrixLoadKHR | Op::CooperativeMatrixStoreKHR => self.matrix_lines(raw),
            Op::CooperativeMatrixMulAddKHR => self.mul_add(raw),
            Op::CooperativeMatrixLengthKHR => self.matrix_length(raw),
            Op::CooperativeMatrixConvertNV => self.recast_matrix(raw),
            Op::CooperativeMatrixTransposeNV => self.transpose_matrix(raw),
            Op::CooperativeMatrixReduceNV => self.reduce(raw),
            Op::CooperativeMatrixPerElementOpNV => self.per_element(raw),
            Op::CooperativeMatrixLoadTensorNV | Op::CooperativeMatrixStoreTensorNV => self.matrix_tensor(raw),
            Op::CreateTensorLayoutNV | Op::CreateTensorViewNV => self.create_tensor(raw),
            Op::TensorLayoutSetDimensionNV
            | Op::TensorLayoutSetStrideNV
            | Op::TensorLayoutSliceNV
            | Op::TensorLayoutSetClampValueNV
            | Op::TensorLayoutSetBlockSizeNV => self.set_layout(raw),
            Op::TensorViewSetDimensionNV | Op::TensorViewSetStrideNV | Op::TensorViewSetClipNV => {
                self.set_view(raw)
            }
            Op::Dot => self.dot(raw),
            Op::UMulExtended => self.mul_extended(raw),
            Op::Any => self.fold(raw, Bin::Or),
            Op::All => self.fold(raw, Bin::And),
            Op::SDot => self.packed_dot(raw, Bin::SDot),
            Op::UDot => self.packed_dot(raw, Bin::UDot),
            Op::SUDot => self.packed_dot(raw, Bin::SUDot),
            Op::ControlBarrier | Op::MemoryBarrier => self.barrier(raw),
            Op::AtomicLoad
            | Op::AtomicStore
            | Op::AtomicExchange
            | Op::AtomicCompareExchange
            | Op::AtomicIAdd
            | Op::AtomicSMin
            | Op::AtomicUMin
            | Op::AtomicSMax
            | Op::AtomicUMax
            | Op::AtomicAnd
            | Op::AtomicOr
            | Op::AtomicXor => self.atomic(raw),
            Op::GroupNonUniformElect => self.vote(raw, Exchange::Elect),
            Op::GroupNonUniformAll => self.vote(raw, Exchange::All),
            Op::GroupNonUniformAny => self.vote(raw, Exchange::Any),
            Op::GroupNonUniformBallot => self.vote(raw, Exchange::Ballot),
            Op::GroupNonUniformBroadcast => self.exchange(raw, Exchange::Broadcast),
            Op::GroupNonUniformBroadcastFirst => self.exchange(raw, Exchange::BroadcastFirst),
            Op::GroupNonUniformShuffle => self.exchange(raw, Exchange::Shuffle),
            Op::GroupNonUniformShuffleXor => self.exchange(raw, Exchange::ShuffleXor),
            Op::GroupNonUniformShuffleUp => self.exchange(raw, Exchange::ShuffleUp),
            Op::GroupNonUniformShuffleDown => self.exchange(raw, Exchange::ShuffleDown),
            Op::GroupNonUniformIAdd
            | Op::GroupNonUniformFAdd
            | Op::GroupNonUniformIMul
            | Op::GroupNonUniformFMul
            | Op::GroupNonUniformSMin
            | Op::GroupNonUniformUMin
            | Op::GroupNonUniformFMin
            | Op::GroupNonUniformSMax
            | Op::GroupNonUniformUMax
            | Op::GroupNonUniformFMax
            | Op::GroupNonUniformBitwiseAnd
            | Op::GroupNonUniformBitwiseOr
            | Op::GroupNonUniformBitwiseXor => self.combine(raw),
        }
    }

    pub(super) fn refuse(&self, raw: &Raw, what: &'static str) -> DecodeError {
        DecodeError::Type { word: raw.word, op: raw.op.name(), what }
    }

    pub(super) fn element(&self, raw: &Raw, id: u32, class: Class) -> Decoded<Number> {
        let found = self.g.types.element(self.g.type_of(raw.word, id)?);
        found.filter(|&d| class.has(d)).ok_or(self.refuse(raw, "has an operand of another kind of number"))
    }

    fn elementwise(&mut self, raw: &Raw, kind: Kind, class: Class, ids: &[u32]) -> Decoded<()> {
        let n = self.g.types.scalars(raw.ty) as usize;
        let arity = match kind {
            Kind::Un(_) => 1,
            Kind::Bin(_) => 2,
            _ => 3,
        };
        let first = *ids.first().ok_or(self.refuse(raw, "has too few operands"))?;
        let mut ty = self.element(raw, first, class)?;
        let is_shift = matches!(kind, Kind::Bin(Bin::ShiftLeft | Bin::ShiftRight | Bin::ShiftRightSigned));
        let mut rows = Vec::new();
        for &id in ids {
            let (row, other) = (self.slots(raw.word, id)?, self.element(raw, id, class)?);
            // A shift's amount may have a width of its own.
            let is_amount = is_shift && rows.len() == 1;
            if row.len() != n || other.bytes() != ty.bytes() && !is_amount {
                return Err(self.refuse(raw, "has operands of different sizes"));
            }
            rows.push(row);
        }
        let result = self.g.types.element(raw.ty).ok_or(self.refuse(raw, "has no numbers as result"))?;
        let keeps_type = class.has(result) && result.bytes() == ty.bytes();
        let is_test = result == Number::Bool;
        let is_bit_index =
            matches!(kind, Kind::Un(Un::BitCount | Un::FindILsb | Un::FindUMsb)) && result.is_int();
        if rows.len() != arity || !(keeps_type || is_bit_index || is_test && tests(kind)) {
            return Err(self.refuse(raw, "has a result or operands of another type"));
        }
        if keeps_type {
            // The result's sign decides what counts as wrapping.
            ty = result;
        }
        let at = |i: usize, c: usize| rows.get(i).map_or(0, |r| r[c]);
        let dst = self.alloc(n as u32)?;
        for c in 0..n {
            let (a, b, c3) = (at(0, c), at(1, c), at(2, c));
            self.emit(Inst { kind, ty, dst: dst + c as u32, a, b, c: c3, word: raw.word })?;
        }
        self.define_run(raw, dst, n);
        Ok(())
    }

    pub(super) fn define_run(&mut self, raw: &Raw, first: Slot, n: usize) {
        self.define(raw, (first..first + n as u32).collect::<Vec<_>>());
    }

    fn extended(&mut self, raw: &Raw) -> Decoded<()> {
        let ops = self.g.words.operands(raw);
        match self.g.silent(ops[0]) {
            Some(true) => return self.print(raw),
            Some(false) => return Ok(()),
            None => {}
        }
        let glsl = GlslOp::from_number(ops[1]).filter(|_| self.g.is_glsl(ops[0]));
        let op = glsl.ok_or(self.refuse(raw, "is not of the set GLSL.std.450"))?;
        if let Some((kind, class)) = alu::extended(op) {
            return self.elementwise(raw, kind, class, &ops[2..]);
        }
        let &[id] = &ops[2..] else { return Err(self.refuse(raw, "packs one operand")) };
        let (row, word) = (self.slots(raw.word, id)?, raw.word);
        let types = (self.g.types.element(self.g.type_of(word, id)?), self.g.types.element(raw.ty));
        let ty = Number::F32;
        match (op, types, &*row, self.g.types.scalars(raw.ty)) {
            (GlslOp::PackHalf2x16, (Some(Number::F32), Some(Number::U32)), &[a, b], 1) => {
                let dst = self.alloc(1)?;
                self.emit(Inst { b, ..inst(Kind::Bin(Bin::PackHalf), ty, dst, a, word) })?;
                self.define(raw, vec![dst]);
                Ok(())
            }
            (GlslOp::UnpackHalf2x16, (Some(Number::U32), Some(Number::F32)), &[a], 2) => {
                let dst = self.alloc(2)?;
                self.emit(inst(Kind::Un(Un::UnpackLow), ty, dst, a, word))?;
                self.emit(inst(Kind::Un(Un::UnpackHigh), ty, dst + 1, a, word))?;
                self.define_run(raw, dst, 2);
                Ok(())
            }
            _ => Err(self.refuse(raw, "packs two f32 into one u32, or back")),
        }
    }

    fn convert(&mut self, raw: &Raw) -> Decoded<()> {
        if self.g.types.is_matrix(raw.ty) {
            return self.convert_matrix(raw);
        }
        let (word, id) = (raw.word, self.g.words.operand(raw, 0)?);
        let (conv, from, to) = alu::conversion(raw.op).ok_or(self.refuse(raw, "converts nothing"))?;
        let (row, ty) = (self.slots(word, id)?, self.element(raw, id, from)?);
        let result = self.g.types.element(raw.ty).filter(|&d| to.has(d));
        let result = result.ok_or(self.refuse(raw, "converts to another kind of number"))?;
        if row.len() != self.g.types.scalars(raw.ty) as usize {
            return Err(self.refuse(raw, "has operands of different sizes"));
        }
        let dst = self.alloc(row.len() as u32)?;
        for (&a, dst) in row.iter().zip(dst..) {
            self.emit(inst(Kind::Convert(conv, result), ty, dst, a, word))?;
        }
        self.define_run(raw, dst, row.len());
        Ok(())
    }

    fn select(&mut self, raw: &Raw) -> Decoded<()> {
        if self.g.types.is_matrix(raw.ty) {
            return self.select_matrix(raw);
        }
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        self.element(raw, ops[0], Class::Bool)?;
        let (cond, yes, no) =
            (self.slots(word, ops[0])?, self.slots(word, ops[1])?, self.slots(word, ops[2])?);
        let same = self.g.type_of(word, ops[1])? == raw.ty && self.g.type_of(word, ops[2])? == raw.ty;
        if !same || !(cond.len() == 1 || cond.len() == yes.len()) {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let dst = self.alloc(yes.len() as u32)?;
        for (i, (&b, &c)) in yes.iter().zip(no.iter()).enumerate() {
            let a = if cond.len() == 1 { cond[0] } else { cond[i] };
            self.emit(Inst { b, c, ..inst(Kind::Tri(Tri::Select), Number::U32, dst + i as u32, a, word) })?;
        }
        self.define_run(raw, dst, yes.len());
        Ok(())
    }

    fn scale(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let (row, ty) = (self.slots(word, ops[0])?, self.element(raw, ops[0], Class::Float)?);
        let (b, factor) = self.scalar(word, ops[1], Number::is_float)?;
        if self.g.type_of(word, ops[0])? != raw.ty || factor != ty {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let dst = self.alloc(row.len() as u32)?;
        for (&a, dst) in row.iter().zip(dst..) {
            self.emit(Inst { b, ..inst(Kind::Bin(Bin::FMul), ty, dst, a, word) })?;
        }
        self.define_run(raw, dst, row.len());
        Ok(())
    }

    fn dot(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let (x, y) = (self.slots(word, ops[0])?, self.slots(word, ops[1])?);
        let ty = self.element(raw, ops[0], Class::Float)?;
        let same = self.g.type_of(word, ops[0])? == self.g.type_of(word, ops[1])?;
        if !same || self.g.types.element(raw.ty) != Some(ty) || self.g.types.scalars(raw.ty) != 1 {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let mut sum = None;
        for (&a, &b) in x.iter().zip(y.iter()) {
            let product = self.alloc(1)?;
            self.emit(Inst { b, ..inst(Kind::Bin(Bin::FMul), ty, product, a, word) })?;
            sum = Some(match sum {
                None => product,
                Some(a) => {
                    let dst = self.alloc(1)?;
                    self.emit(Inst { b: product, ..inst(Kind::Bin(Bin::FAdd), ty, dst, a, word) })?;
                    dst
                }
            });
        }
        self.define(raw, sum.into_iter().collect::<Vec<_>>());
        Ok(())
    }

    fn mul_extended(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let (x, y) = (self.slots(word, ops[0])?, self.slots(word, ops[1])?);
        let ty = self.element(raw, ops[0], Class::Int)?;
        let parts = match self.g.types.get(word, raw.ty)? {
            Type::Struct(m) if m.len() == 2 => [m[0].ty, m[1].ty],
            _ => return Err(self.refuse(raw, "needs a struct of two numbers as result")),
        };
        let operand = self.g.type_of(word, ops[0])?;
        if parts != [operand; 2] || self.g.type_of(word, ops[1])? != operand {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let dst = self.alloc(2 * x.len() as u32)?;
        let mut next = dst;
        for op in [Bin::MulLow, Bin::MulHigh] {
            for (&a, &b) in x.iter().zip(y.iter()) {
                self.emit(Inst { b, ..inst(Kind::Bin(op), ty, next, a, word) })?;
                next += 1;
            }
        }
        self.define_run(raw, dst, 2 * x.len());
        Ok(())
    }

    fn fold(&mut self, raw: &Raw, op: Bin) -> Decoded<()> {
        let (word, id) = (raw.word, self.g.words.operand(raw, 0)?);
        self.element(raw, id, Class::Bool)?;
        if self.g.types.element(raw.ty) != Some(Number::Bool) || self.g.types.scalars(raw.ty) != 1 {
            return Err(self.refuse(raw, "has a bool as result"));
        }
        let row = self.slots(word, id)?;
        let mut all = row[0];
        for &b in &row[1..] {
            let dst = self.alloc(1)?;
            self.emit(Inst { b, ..inst(Kind::Bin(op), Number::Bool, dst, all, word) })?;
            all = dst;
        }
        self.define(raw, vec![all]);
        Ok(())
    }

    fn packed_dot(&mut self, raw: &Raw, op: Bin) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let wide = |d| matches!(d, Number::U32 | Number::I32);
        let (a, b) = (self.scalar(word, ops[0], wide)?.0, self.scalar(word, ops[1], wide)?.0);
        if !matches!(self.g.types.get(word, raw.ty)?, Type::Scalar(Number::U32 | Number::I32)) {
            return Err(self.refuse(raw, "has a 32-bit result only"));
        }
        let dst = self.alloc(1)?;
        self.emit(Inst { b, ..inst(Kind::Bin(op), Number::U32, dst, a, word) })?;
        self.define(raw, vec![dst]);
        Ok(())
    }
}

/// Whether an operation's result is a truth value whatever its operands are.
const fn tests(kind: Kind) -> bool {
    use Bin::{
        FEqual, FGreater, FGreaterEqual, FLess, FLessEqual, FNotEqual, IEqual, INotEqual, SGreater,
        SGreaterEqual, SLess, SLessEqual, UGreater, UGreaterEqual, ULess, ULessEqual,
    };
    match kind {
        Kind::Un(op) => matches!(op, Un::IsNan | Un::IsInf),
        Kind::Bin(op) => matches!(
            op,
            IEqual
                | INotEqual
                | UGreater
                | UGreaterEqual
                | ULess
                | ULessEqual
                | SGreater
                | SGreaterEqual
                | SLess
                | SLessEqual
                | FEqual
                | FNotEqual
                | FLess
                | FGreater
                | FLessEqual
                | FGreaterEqual
        ),
        _ => false,
    }
}

pub(super) const fn inst(kind: Kind, ty: Number, dst: Slot, a: u32, word: u32) -> Inst {
    Inst { kind, ty, dst, a, b: 0, c: 0, word }
}
