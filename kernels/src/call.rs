//! A kernel with the arguments of one launch, its types erased: what a plan is made of.

use std::sync::Arc;

use kiln_abi::{Kernel, LaunchArgs, StageErrors, StagedKernel};

/// One launch of one kernel variant.
#[derive(Clone)]
pub struct Call {
    /// The variant's name; equal names are equal kernels.
    pub name: String,
    /// Ranges, push constants, grid, length contracts.
    pub args: LaunchArgs,
    stage: Arc<dyn Fn() -> Result<StagedKernel, StageErrors> + Send + Sync>,
}

impl Call {
    /// `kernel` with `args`.
    pub fn new<K: Kernel + Send + Sync + 'static>(kernel: K, args: &K::Args<'_>) -> Self {
        let (name, args) = (kernel.name(), kernel.bind(args));
        Call { name, args, stage: Arc::new(move || kernel.stage()) }
    }

    /// Words, layout and source map of the kernel.
    ///
    /// # Errors
    /// Everything wrong with the kernel.
    pub fn stage(&self) -> Result<StagedKernel, StageErrors> {
        (self.stage)()
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("name", &self.name).field("args", &self.args).finish()
    }
}
