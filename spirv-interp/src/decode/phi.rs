//! Phi instructions: each block that leads to one leaves the value in a place of its own, and the phi takes it there.
//!
//! Lanes carry their own copy, so that those which wait for others keep what they came with.

use std::{collections::HashMap, rc::Rc};

use kiln_abi::spirv::Op;

use super::{
    error::{DecodeError, Decoded},
    lower::{Lower, Value},
    reader::{Raw, Words},
    types::MAX_VALUE_SCALARS,
    values::inst,
};
use crate::{number::Number, program::Kind};

/// The module's phi instructions.
#[derive(Default)]
pub(super) struct Phis {
    /// Per label of a block, the phis that it leads to, each with the value that it leaves.
    inputs: HashMap<u32, Vec<(u32, u32)>>,
    /// Type, and slots or registers in which the values are left, by phi.
    places: HashMap<u32, (u32, Rc<[u32]>)>,
}

impl Phis {
    pub(super) fn collect(words: &Words<'_>) -> Decoded<Self> {
        let mut inputs: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
        for raw in words.list.iter().filter(|r| r.op == Op::Phi) {
            for pair in words.operands(raw).chunks(2) {
                let &[value, label] = pair else {
                    return Err(DecodeError::WrongLength { word: raw.word, op: raw.op.name(), words: 0 });
                };
                inputs.entry(label).or_default().push((raw.id, value));
            }
        }
        Ok(Phis { inputs, places: HashMap::new() })
    }
}

impl Lower<'_> {
    /// Makes room for a phi of a function about to be laid out: its result, and the place where values are left.
    pub(super) fn reserve_phi(&mut self, raw: &Raw) -> Decoded<()> {
        let n = self.g.types.scalars(raw.ty);
        if n == 0 || n > MAX_VALUE_SCALARS {
            return Err(self.refuse(raw, "needs a type whose values have a fixed size"));
        }
        let (place, result) = if self.g.types.is_matrix(raw.ty) {
            let shapes = self.g.types.shapes(raw.word, raw.ty)?;
            let (place, result) = (self.registers(&shapes)?, self.registers(&shapes)?);
            (place, Value::Matrices((result..result + n).collect()))
        } else {
            let (place, result) = (self.alloc(n)?, self.alloc(n)?);
            (place, Value::Slots((result..result + n).collect()))
        };
        self.phis.places.insert(raw.id, (raw.ty, (place..place + n).collect()));
        self.values.insert(raw.id, result);
        Ok(())
    }

    /// The end of the block `label`: its values go where the phis behind it look.
    pub(super) fn leave(&mut self, label: u32, word: u32) -> Decoded<()> {
        let Some(inputs) = self.phis.inputs.get(&label).cloned() else { return Ok(()) };
        for (phi, value) in inputs {
            let Some((ty, place)) = self.phis.places.get(&phi).cloned() else { continue };
            if self.g.type_of(word, value)? != ty {
                return Err(DecodeError::WrongId { word, id: value, expected: "a value of the phi's type" });
            }
            if self.g.types.is_matrix(ty) {
                self.copy_matrices(word, ty, &place, value)?;
                continue;
            }
            let row = self.slots(word, value)?;
            for (&dst, &a) in place.iter().zip(row.iter()) {
                self.emit(inst(Kind::Mov, Number::U32, dst, a, word))?;
            }
        }
        Ok(())
    }

    /// The phi itself: what was left becomes its result.
    pub(super) fn phi(&mut self, raw: &Raw) -> Decoded<()> {
        let missing = self.refuse(raw, "stands in no block of a function");
        let (ty, place) = self.phis.places.get(&raw.id).cloned().ok_or(missing)?;
        match self.values.get(&raw.id).cloned() {
            Some(Value::Slots(row)) => {
                for (&dst, &a) in row.iter().zip(place.iter()) {
                    self.emit(inst(Kind::Mov, Number::U32, dst, a, raw.word))?;
                }
                Ok(())
            }
            Some(Value::Matrices(row)) => self.move_matrices(raw.word, ty, &row, &place),
            _ => Err(self.refuse(raw, "stands in no block of a function")),
        }
    }
}
