//! Tensor layouts and views: runs of slots, of which each instruction replaces some.

use kiln_abi::spirv::{MemoryOperands, Op};

use super::{
    error::{DecodeError, Decoded},
    lower::Lower,
    reader::Raw,
    types::Type,
    values::inst,
};
use crate::{
    matrix::{Layout, LayoutSlots, View, ViewSlots},
    number::Number,
    program::{Bin, Inst, Kind, Slot},
};

impl Lower<'_> {
    pub(super) fn layout(&self, word: u32, id: u32) -> Decoded<Layout> {
        match *self.g.types.get(word, self.g.type_of(word, id)?)? {
            Type::TensorLayout { dim, clamp } => {
                Ok(Layout { dim, clamp, slots: self.slots(word, id)?.to_vec() })
            }
            _ => Err(DecodeError::WrongId { word, id, expected: "a tensor layout" }),
        }
    }

    pub(super) fn view(&self, word: u32, id: u32) -> Decoded<View> {
        match *self.g.types.get(word, self.g.type_of(word, id)?)? {
            Type::TensorView(ty) => Ok(View { ty, slots: self.slots(word, id)?.to_vec() }),
            _ => Err(DecodeError::WrongId { word, id, expected: "a tensor view" }),
        }
    }

    /// What stands behind the memory operands that begin `words`.
    pub(super) fn behind_memory(words: &[u32]) -> &[u32] {
        let mask = words.first().copied().unwrap_or(0);
        let extras = [MemoryOperands::ALIGNED, MemoryOperands::MAKE_AVAILABLE, MemoryOperands::MAKE_VISIBLE];
        let n = 1 + extras.iter().filter(|&&bit| mask & bit != 0).count();
        words.get(n..).unwrap_or_default()
    }

    fn calculate(&mut self, word: u32, op: Bin, ty: Number, a: Slot, b: Slot) -> Decoded<Slot> {
        let dst = self.alloc(1)?;
        self.emit(Inst { b, ..inst(Kind::Bin(op), ty, dst, a, word) })?;
        Ok(dst)
    }

    pub(super) fn create_tensor(&mut self, raw: &Raw) -> Decoded<()> {
        let [zero, one, all] = [0, 1, u32::MAX].map(|bits| self.known.get(&Some(bits)).copied().unwrap_or(0));
        let slots = match (raw.op, self.g.types.get(raw.word, raw.ty)?) {
            (Op::CreateTensorLayoutNV, Type::TensorLayout { dim, .. }) => {
                let places = LayoutSlots { dim: *dim };
                let mut slots = vec![zero; places.count() as usize];
                (0..*dim).for_each(|i| slots[places.block(i)] = one);
                slots
            }
            (Op::CreateTensorViewNV, Type::TensorView(view)) => {
                let places = ViewSlots { dim: view.dim };
                let mut slots = vec![zero; places.count() as usize];
                [1, 3].into_iter().for_each(|i| slots[places.clip(i)] = all);
                slots
            }
            _ => return Err(self.refuse(raw, "creates a tensor layout or view of its type")),
        };
        self.define(raw, slots);
        Ok(())
    }

    /// The numbers that a layout or view instruction sets; `n` of them.
    fn numbers(&self, raw: &Raw, n: u32) -> Decoded<Vec<Slot>> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        if self.g.type_of(word, ops[0])? != raw.ty || ops.len() != 1 + n as usize {
            return Err(self.refuse(raw, "has another type or number of operands than its result calls for"));
        }
        let number = |&id: &u32| Ok(self.scalar(word, id, |d| matches!(d, Number::U32 | Number::I32))?.0);
        ops[1..].iter().map(number).collect()
    }

    pub(super) fn set_layout(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, old) = (raw.word, self.layout(raw.word, self.g.words.operand(raw, 0)?)?);
        let (dim, mut slots) = (old.dim, old.slots);
        let places = LayoutSlots { dim };
        match raw.op {
            Op::TensorLayoutSetBlockSizeNV => {
                let given = self.numbers(raw, dim)?;
                (0..dim).zip(given).for_each(|(i, n)| slots[places.block(i)] = n);
            }
            Op::TensorLayoutSetStrideNV => {
                let given = self.numbers(raw, dim)?;
                (0..dim).zip(given).for_each(|(i, n)| slots[places.stride(i)] = n);
            }
            Op::TensorLayoutSetClampValueNV => slots[places.clamp_value()] = self.numbers(raw, 1)?[0],
            Op::TensorLayoutSliceNV => {
                let given = self.numbers(raw, 2 * dim)?;
                for (i, pair) in (0..dim).zip(given.chunks(2)) {
                    // Offsets are signed: only that sum counts as wrapped which leaves their range.
                    let at = &mut slots[places.offset(i)];
                    *at = self.calculate(word, Bin::IAdd, Number::I32, *at, pair[0])?;
                    slots[places.span(i)] = pair[1];
                }
            }
            _ => {
                let given = self.numbers(raw, dim)?;
                let zero = self.known.get(&Some(0)).copied().unwrap_or(0);
                let one = self.known.get(&Some(1)).copied().unwrap_or(0);
                let mut stride = one;
                for (i, &n) in (0..dim).zip(&given).rev() {
                    (slots[places.dimension(i)], slots[places.span(i)]) = (n, n);
                    (slots[places.offset(i)], slots[places.stride(i)]) = (zero, stride);
                    if i > 0 {
                        let block = slots[places.block(i)];
                        let past = self.calculate(word, Bin::IAdd, Number::U32, n, block)?;
                        let last = self.calculate(word, Bin::ISub, Number::U32, past, one)?;
                        let blocks = self.calculate(word, Bin::UDiv, Number::U32, last, block)?;
                        stride = self.calculate(word, Bin::IMul, Number::U32, stride, blocks)?;
                    }
                }
            }
        }
        self.define(raw, slots);
        Ok(())
    }

    pub(super) fn set_view(&mut self, raw: &Raw) -> Decoded<()> {
        let old = self.view(raw.word, self.g.words.operand(raw, 0)?)?;
        let (dim, mut slots) = (old.ty.dim, old.slots);
        let places = ViewSlots { dim };
        match raw.op {
            Op::TensorViewSetClipNV => {
                let given = self.numbers(raw, 4)?;
                (0..4).zip(given).for_each(|(i, n)| slots[places.clip(i)] = n);
            }
            Op::TensorViewSetStrideNV => {
                let given = self.numbers(raw, dim)?;
                (0..dim).zip(given).for_each(|(i, n)| slots[places.stride(i)] = n);
            }
            _ => {
                let given = self.numbers(raw, dim)?;
                let mut stride = self.known.get(&Some(1)).copied().unwrap_or(0);
                for (i, &n) in (0..dim).zip(&given).rev() {
                    (slots[places.dimension(i)], slots[places.stride(i)]) = (n, stride);
                    if i > 0 {
                        stride = self.calculate(raw.word, Bin::IMul, Number::U32, stride, n)?;
                    }
                }
            }
        }
        self.define(raw, slots);
        Ok(())
    }
}
