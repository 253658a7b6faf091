//! Why a run stopped: the kind of fault, where in the source, and in which invocation.

use std::fmt;

use kiln_abi::Location;
use thiserror::Error;

use crate::decode::DecodeError;

/// What a kernel did that the interpreter forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrapKind {
    /// The words are not a module that the interpreter can run.
    Module(Box<DecodeError>),
    /// The dispatch itself is wrong: a missing binding, a range outside its buffer.
    Dispatch,
    /// An access outside the bound range or the array's length.
    OutOfBounds,
    /// A value that nothing wrote decides a branch, an address or a buffer's content.
    Uninitialized,
    /// Two invocations touch the same bytes, one of them stores, and nothing orders them.
    Race,
    /// A barrier or subgroup operation that not every invocation reaches.
    Divergence,
    /// Division by zero, an overflowing division, a shift past the width, a conversion out of range.
    Integer,
    /// An address computed with 32-bit arithmetic that wrapped.
    IndexWrap,
    /// A subgroup exchange that reads a lane which is not there.
    InactiveLane,
    /// A matrix or tensor operand outside its rules: a stride, a span, a block, an alignment.
    Matrix,
    /// Two functions, or two orders of operands, that have to agree differ.
    Mismatch,
    /// The instruction budget ran out.
    Fuel,
    /// Control reached `OpUnreachable`.
    Unreachable,
}

impl TrapKind {
    const fn sentence(&self) -> &'static str {
        match self {
            TrapKind::Module(_) => "module refused",
            TrapKind::Dispatch => "dispatch refused",
            TrapKind::OutOfBounds => "access out of bounds",
            TrapKind::Uninitialized => "use of uninitialized data",
            TrapKind::Race => "data race",
            TrapKind::Divergence => "divergence",
            TrapKind::Integer => "integer fault",
            TrapKind::IndexWrap => "wrapped address",
            TrapKind::InactiveLane => "inactive lane read",
            TrapKind::Matrix => "matrix operand out of its rules",
            TrapKind::Mismatch => "results that differ",
            TrapKind::Fuel => "no end in sight",
            TrapKind::Unreachable => "unreachable code reached",
        }
    }
}

/// A stopped run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Trap {
    /// The kernel's name.
    pub kernel: String,
    /// What happened.
    pub kind: TrapKind,
    /// Source place of the instruction, when the module came with a source map.
    pub at: Option<Location>,
    /// Offset of the instruction's first word (0 when no instruction is at fault).
    pub word: u32,
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// The invocation's flat index in its workgroup.
    pub invocation: u32,
    /// What was expected and what was found.
    pub detail: String,
}

impl Trap {
    /// The trap without the kernel's name.
    pub fn text(&self) -> String {
        let place = match self.at {
            Some(at) => format!("{at}"),
            None => format!("word {}", self.word),
        };
        match &self.kind {
            TrapKind::Module(e) => format!("{}: {e}", self.kind.sentence()),
            TrapKind::Dispatch => format!("{}: {}", self.kind.sentence(), self.detail),
            kind => {
                let [x, y, z] = self.workgroup;
                let who = format!("workgroup ({x}, {y}, {z}), invocation {}", self.invocation);
                format!("{} at {place}, {who}: {}", kind.sentence(), self.detail)
            }
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.text())
    }
}

/// A fault as an instruction reports it; the scheduler adds kernel, place and workgroup.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: TrapKind,
    /// Lane within the subgroup.
    pub(crate) lane: u32,
    pub(crate) detail: String,
    /// An instruction other than the one being executed, such as the loop that does not end.
    pub(crate) word: Option<u32>,
}

impl Fault {
    pub(crate) fn new(kind: TrapKind, lane: u32, detail: impl Into<String>) -> Self {
        Fault { kind, lane, detail: detail.into(), word: None }
    }
}
