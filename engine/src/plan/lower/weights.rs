//! Weights of a plan: each once, in pieces that a binding takes.

use kiln_kernels::FormatRow;

use super::{PIECE_ROWS, Piece, Planner, index};
use crate::graph::{Rope, TensorId, TensorRole};
use crate::plan::{Holds, PlanError};

impl<'a> Planner<'a> {
    pub(super) fn format(&self, tensor: TensorId) -> Result<&'a FormatRow, PlanError> {
        let row = (self.type_id)(tensor).and_then(|id| self.registry.format(id));
        row.ok_or_else(|| PlanError::NoFormat { tensor: self.graph.tensors[tensor.0].name.clone() })
    }

    /// The pieces of a matrix, each within a binding.
    pub(super) fn matrix(&mut self, tensor: TensorId) -> Result<(&'a FormatRow, Vec<Piece>), PlanError> {
        let format = self.format(tensor)?;
        if let Some(pieces) = self.shared.get(&tensor) {
            return Ok((format, pieces.clone()));
        }
        let spec = &self.graph.tensors[tensor.0];
        debug_assert!(matches!(spec.role, TensorRole::Embedding | TensorRole::Matrix));
        let (m, row) = (spec.shape[0], spec.shape[1]);
        if !row.is_multiple_of(format.row_multiple as usize) {
            let (tensor, multiple) = (spec.name.clone(), format.row_multiple);
            return Err(PlanError::RowLength { tensor, row, multiple });
        }
        let bytes = |rows: u64| (format.device_bytes)(rows * row as u64);
        let m = index("a matrix's number of rows", m)?;
        let fitting = self.caps.limits.max_binding_bytes / bytes(PIECE_ROWS).max(1) * PIECE_ROWS;
        let most = u32::try_from(fitting.max(PIECE_ROWS)).unwrap_or(u32::MAX);
        let mut pieces = Vec::new();
        for first in (0..m).step_by(most as usize) {
            let rows = most.min(m - first);
            let holds = Holds::Blocks { tensor, first, m: rows };
            let buffer = self.buffer(spec.name.clone(), bytes(rows.into()), holds);
            pieces.push(Piece { buffer, first, m: rows });
        }
        self.shared.insert(tensor, pieces.clone());
        Ok((format, pieces))
    }

    pub(super) fn floats(&mut self, tensor: TensorId) -> usize {
        if let Some(buffer) = self.shared.get(&tensor).and_then(|p| p.first()).map(|p| p.buffer) {
            return buffer;
        }
        let spec = &self.graph.tensors[tensor.0];
        let buffer = self.buffer(spec.name.clone(), 4 * spec.n_elems() as u64, Holds::Floats(tensor));
        self.shared.insert(tensor, vec![Piece { buffer, first: 0, m: 1 }]);
        buffer
    }

    pub(super) fn angles(&mut self, rope: Rope) -> usize {
        if let Some((_, buffer)) = self.angles.iter().find(|(known, _)| *known == rope) {
            return *buffer;
        }
        let bytes = 4 * rope.n_rot as u64 * u64::from(self.context.n_ctx);
        let buffer = self.buffer("rotation angles", bytes, Holds::Angles(rope));
        self.angles.push((rope, buffer));
        buffer
    }
}
