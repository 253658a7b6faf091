//! Functions that instructions call: what they may see of the kernel, and what is handed to them instead.

use std::collections::BTreeMap;

use kiln_abi::{Location, spirv::BuiltIn};

use super::Builder;
use crate::ir::{Callee, Function, Region, RegionId, TypeId, ValueId, ValueKind};

/// A callee under construction.
pub(super) struct OpenCallee {
    params: Vec<ValueId>,
    /// Its own variables.
    pub(super) locals: Vec<ValueId>,
    /// Builtins that it has loaded.
    pub(super) builtins: BTreeMap<BuiltIn, ValueId>,
    /// Regions open around it; only those inside it are visible.
    pub(super) floor: usize,
    /// Loops open around it.
    pub(super) loops: Vec<RegionId>,
}

impl Builder {
    /// Starts a callee; until [`Builder::close_callee`] instructions go into it, and it sees constants, buffers,
    /// push constants, builtins and its parameters. A callee has no callees.
    pub fn open_callee(&mut self, params: &[TypeId], at: Location) -> Vec<ValueId> {
        if self.callee.is_some() {
            self.error("E023", "a function that an instruction calls calls none itself".to_owned(), at);
        }
        let params: Vec<ValueId> =
            params.iter().map(|&ty| self.value(ty, ValueKind::Param, None, at)).collect();
        self.callee = Some(OpenCallee {
            params: params.clone(),
            locals: Vec::new(),
            builtins: BTreeMap::new(),
            floor: self.open.len(),
            loops: std::mem::take(&mut self.loop_headers),
        });
        self.open_region();
        params
    }

    /// Ends the callee with the value it gives; returns its index.
    pub fn close_callee(&mut self, returns: ValueId, at: Location) -> usize {
        self.check_operands(&[crate::ir::Operand::Value(returns)], at);
        let body: Region = self.close_region();
        if let Some(open) = self.callee.take() {
            self.loop_headers = open.loops;
            let function = Function { locals: open.locals, prologue: Vec::new(), body };
            self.module.callees.push(Callee { params: open.params, function, returns, at });
        }
        self.module.callees.len().saturating_sub(1)
    }
}
