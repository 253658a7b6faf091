//! Composites by renaming slots: nothing of it is executed, but for an index that is not constant.

use std::rc::Rc;

use kiln_abi::spirv::Op;

use super::{
    error::Decoded,
    lower::Lower,
    reader::Raw,
    types::{MAX_VALUE_SCALARS, Type},
    values::inst,
};
use crate::{
    number::Number,
    program::{Inst, Kind, Slot},
};

impl Lower<'_> {
    pub(super) fn extract_dynamic(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let row = self.slots(word, ops[0])?;
        let ty = match self.g.types.get(word, self.g.type_of(word, ops[0])?)? {
            Type::Vector { elem, dtype, .. } if *elem == raw.ty => *dtype,
            _ => return Err(self.refuse(raw, "needs a vector and its component type")),
        };
        let a = self.scalar(word, ops[1], Number::is_int)?.0;
        let (dst, b) = (self.alloc(1)?, self.program.picks.len() as u32);
        self.program.picks.push(row.to_vec());
        self.emit(Inst { b, ..inst(Kind::Pick, ty, dst, a, word) })?;
        self.define(raw, vec![dst]);
        Ok(())
    }

    pub(super) fn shuffle(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let elem = |id| match self.g.types.get(word, id) {
            Ok(Type::Vector { elem, .. }) => Ok(*elem),
            _ => Err(self.refuse(raw, "needs vectors")),
        };
        let (x, y) = (self.slots(word, ops[0])?, self.slots(word, ops[1])?);
        let from = [elem(self.g.type_of(word, ops[0])?)?, elem(self.g.type_of(word, ops[1])?)?];
        if from != [elem(raw.ty)?; 2] || ops.len() - 2 != self.g.types.scalars(raw.ty) as usize {
            return Err(self.refuse(raw, "has operands of different types"));
        }
        let pick = |&i: &u32| {
            let found = x.iter().chain(y.iter()).nth(i as usize);
            found.copied().ok_or(self.refuse(raw, "picks a component that is not there"))
        };
        let slots = ops[2..].iter().map(pick).collect::<Decoded<Vec<_>>>()?;
        self.define(raw, slots);
        Ok(())
    }

    pub(super) fn construct(&mut self, raw: &Raw) -> Decoded<()> {
        if self.g.types.is_matrix(raw.ty) {
            return self.construct_matrices(raw);
        }
        let mut all = Vec::new();
        for &id in self.g.words.operands(raw) {
            all.extend_from_slice(&self.slots(raw.word, id)?);
        }
        let fits = 1..=MAX_VALUE_SCALARS as usize;
        if !fits.contains(&all.len()) || all.len() != self.g.types.scalars(raw.ty) as usize {
            return Err(self.refuse(raw, "has another number of scalars than its type"));
        }
        self.define(raw, all);
        Ok(())
    }

    /// CompositeExtract and CompositeInsert: the part's slots by literal indices.
    pub(super) fn part(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let insert = raw.op == Op::CompositeInsert;
        let (object, whole, indices) =
            if insert { (Some(ops[0]), ops[1], &ops[2..]) } else { (None, ops[0], &ops[1..]) };
        if self.g.types.is_matrix(self.g.type_of(word, whole)?) {
            return self.matrix_part(raw);
        }
        let (row, mut ty, mut at) = (self.slots(word, whole)?, self.g.type_of(word, whole)?, 0);
        let missing = || self.refuse(raw, "names a part that is not there");
        for &i in indices {
            let (elem, place) = match self.g.types.get(word, ty)? {
                Type::Vector { elem, n, .. } if i < *n => (*elem, i),
                Type::Array { elem, len, .. } if i < *len => (*elem, i * self.g.types.scalars(*elem)),
                Type::Struct(m) if (i as usize) < m.len() => {
                    (m[i as usize].ty, self.g.types.member(word, m, i as usize, false)?)
                }
                _ => return Err(missing()),
            };
            (ty, at) = (elem, at + place);
        }
        let n = self.g.types.scalars(ty);
        let range = at as usize..(at + n) as usize;
        let part = row.get(range.clone()).ok_or_else(missing)?;
        let slots: Rc<[Slot]> = match object {
            None if ty == raw.ty => part.into(),
            Some(id) if self.g.type_of(word, id)? == ty && self.g.type_of(word, whole)? == raw.ty => {
                let mut all = row.to_vec();
                all[range].copy_from_slice(&self.slots(word, id)?);
                all.into()
            }
            _ => return Err(self.refuse(raw, "has another type than the part")),
        };
        self.define(raw, slots);
        Ok(())
    }
}
