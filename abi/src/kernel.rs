//! A kernel as the macro emits it, and what staging makes of it.

use std::fmt;

use thiserror::Error;

use crate::{KernelLayout, LaunchArgs, Location, SourceMap};

/// A kernel variant: a value whose fields are the kernel's comptime parameters.
pub trait Kernel {
    /// The named-field launch arguments: buffers and push constants.
    type Args<'a>;

    /// The variant's name: kernel, type parameters, comptime parameters.
    fn name(&self) -> String;

    /// Runs the staged function: words, layout and source map, or every error at once.
    ///
    /// # Errors
    /// [`StageErrors`], each with the place of the user's token.
    fn stage(&self) -> Result<StagedKernel, StageErrors>;

    /// Ranges, push bytes, grid and length contracts of one launch.
    fn bind(&self, args: &Self::Args<'_>) -> LaunchArgs;
}

/// What staging makes of a kernel variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedKernel {
    /// The variant's name.
    pub name: String,
    /// The SPIR-V module.
    pub words: Vec<u32>,
    /// Word offset → source place.
    pub source: SourceMap,
    /// The interface.
    pub layout: KernelLayout,
}

/// One thing wrong with a kernel, found while it was staged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message} at {at}")]
pub struct StageError {
    /// Stable code, such as `E003`.
    pub code: &'static str,
    /// What was expected, what was found, what to do.
    pub message: String,
    /// The user's token.
    pub at: Location,
}

/// Everything wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct StageErrors {
    /// The kernel variant's name.
    pub kernel: String,
    /// The errors, in source order; never empty.
    pub errors: Vec<StageError>,
}

impl fmt::Display for StageErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} cannot be staged:", self.kernel)?;
        self.errors.iter().try_for_each(|e| write!(f, "\n  {e}"))
    }
}
