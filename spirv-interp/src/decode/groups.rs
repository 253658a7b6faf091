//! Subgroup operations, one scalar at a time.

use kiln_abi::spirv::{GroupOperation, Scope};

use super::{alu, error::Decoded, lower::Lower, reader::Raw, values::inst};
use crate::{
    number::Number,
    program::{Exchange, Inst, Kind},
};

impl Lower<'_> {
    fn subgroup_scope(&self, raw: &Raw) -> Decoded<()> {
        self.outside_callbacks(raw.word)?;
        match self.g.scalar(self.g.words.operand(raw, 0)?).and_then(Scope::from_number) {
            Some(Scope::Subgroup) => Ok(()),
            _ => Err(self.refuse(raw, "needs the constant scope Subgroup")),
        }
    }

    /// Elect, All, Any and Ballot: at most one bool in, one bool or four words out.
    pub(super) fn vote(&mut self, raw: &Raw, what: Exchange) -> Decoded<()> {
        self.subgroup_scope(raw)?;
        let word = raw.word;
        let a = match self.g.words.operands(raw).get(1) {
            Some(&id) => self.scalar(word, id, |d| d == Number::Bool)?.0,
            None => 0,
        };
        let (n, elem) = if what == Exchange::Ballot { (4, Number::U32) } else { (1, Number::Bool) };
        if self.g.types.scalars(raw.ty) != n || self.g.types.element(raw.ty) != Some(elem) {
            return Err(self.refuse(raw, "has a result of another type"));
        }
        let dst = self.alloc(n)?;
        self.emit(inst(Kind::Subgroup(what), Number::Bool, dst, a, word))?;
        self.define_run(raw, dst, n as usize);
        Ok(())
    }

    pub(super) fn exchange(&mut self, raw: &Raw, what: Exchange) -> Decoded<()> {
        self.subgroup_scope(raw)?;
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let (row, ty) = (self.slots(word, ops[1])?, self.g.types.element(raw.ty));
        let ty = ty.filter(|_| self.g.type_of(word, ops[1]) == Ok(raw.ty));
        let ty = ty.ok_or(self.refuse(raw, "has a result of another type"))?;
        let b = match ops.get(2) {
            Some(&id) => self.scalar(word, id, |d| matches!(d, Number::U32 | Number::I32))?.0,
            None => 0,
        };
        let dst = self.alloc(row.len() as u32)?;
        for (&a, dst) in row.iter().zip(dst..) {
            self.emit(Inst { b, ..inst(Kind::Subgroup(what), ty, dst, a, word) })?;
        }
        self.define_run(raw, dst, row.len());
        Ok(())
    }

    pub(super) fn combine(&mut self, raw: &Raw) -> Decoded<()> {
        self.subgroup_scope(raw)?;
        let (word, ops) = (raw.word, self.g.words.operands(raw));
        let found = alu::combination(raw.op).zip(GroupOperation::from_number(ops[1]));
        let ((op, class), group) = found.ok_or(self.refuse(raw, "combines nothing"))?;
        let (row, ty) = (self.slots(word, ops[2])?, self.element(raw, ops[2], class)?);
        if self.g.type_of(word, ops[2])? != raw.ty {
            return Err(self.refuse(raw, "has a result of another type"));
        }
        let dst = self.alloc(row.len() as u32)?;
        for (&a, dst) in row.iter().zip(dst..) {
            self.emit(inst(Kind::Subgroup(Exchange::Combine(op, group)), ty, dst, a, word))?;
        }
        self.define_run(raw, dst, row.len());
        Ok(())
    }
}
