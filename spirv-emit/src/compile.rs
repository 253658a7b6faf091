//! The passes, in order.

use kiln_abi::{StageErrors, StagedKernel};

use crate::{ir::Module, lower::lower, verify::verify};

/// Turns a built module into a staged kernel.
///
/// # Errors
/// Every rule that the module breaks, each at the user's token.
pub fn compile(module: Module) -> Result<StagedKernel, StageErrors> {
    let verified = verify(module)?;
    Ok(lower(&verified))
}
