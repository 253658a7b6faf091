//! Tokens per second of a model on a device, printed only after the results of the same weights were shown to be right.
//!
//! `load → gate → warm-up → repetitions → report`: [`gate`] holds every kind of launch against plain Rust and eight
//! forced tokens against the plain plan; `speed` measures as llama-bench does. Never: prints a speed of a model whose
//! gate did not pass.

mod buffers;
mod expect;
mod expect_runs;
pub mod gate;
pub mod profile;
mod report;
mod speed;

use kiln_kernels::{Registry, kv_type::KvType};
use kiln_runtime::Gpu;

pub use self::gate::{Falsify, GateError, Parity};
pub use self::report::{Format, Report};
pub use self::speed::Measured;
use crate::forward::ForwardError;
use crate::plan::{AccuracyClass, ContextWish, PlanOptions};
use crate::session::{Error, ModelFile};
use crate::submit::DeviceModel;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BenchOptions {
    /// Ids fed as one prompt; 0 for no such test.
    pub n_prompt: usize,
    /// Ids generated one by one; 0 for no such test.
    pub n_gen: usize,
    /// Positions that are there before either starts.
    pub depth: usize,
    /// Repetitions that count.
    pub repeats: usize,
    /// How keys and values are kept.
    pub kv_type: KvType,
    /// Steps that run ahead of the id that the host has read, while ids are generated.
    pub run_ahead: usize,
    /// How exact the arithmetic is.
    pub class: AccuracyClass,
    /// Whether attention never takes keys in parts.
    pub whole_keys: bool,
    /// Whether steps are taken apart afterward.
    pub profile: bool,
    /// Something to get wrong on purpose, to see the gate refuse it.
    pub falsify: Option<Falsify>,
}

impl BenchOptions {
    /// Positions that all of it takes.
    pub fn n_ctx(&self) -> usize {
        self.depth + self.n_prompt.max(self.n_gen).max(gate::N_FORCED)
    }
}

/// Why there is no speed to report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The model or the device.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Results that are not right.
    #[error("no speed is reported: {0}")]
    Gate(#[from] GateError),
}

impl From<ForwardError> for BenchError {
    fn from(error: ForwardError) -> Self {
        Self::Engine(error.into())
    }
}

/// Told what is being done, and how much of it.
pub type Stage<'a> = &'a (dyn Fn(&'static str, usize, usize) + Sync);

/// Loads, gates and measures.
///
/// # Errors
/// A model that does not load, a gate that does not pass, or a device that fails.
pub fn run(
    file: &ModelFile,
    registry: &Registry,
    gpu: &Gpu,
    options: &BenchOptions,
    stage: Stage,
) -> Result<Report, BenchError> {
    let context = ContextWish::Exactly(options.n_ctx());
    let plan_options = PlanOptions {
        kv_type: options.kv_type,
        class: options.class,
        whole_keys: options.whole_keys,
        ..PlanOptions::new(context)
    };
    let (gguf, graph) = (&file.gguf, &file.model.graph);
    let uploading = |done, total| stage("uploading", done, total);
    let model = DeviceModel::load(gpu, gguf, graph, registry, plan_options, &uploading);
    let model = model.map_err(Error::from)?;
    model.slots().set_run_ahead(options.run_ahead);
    let parity = gate::check(gpu, &model, file, registry, options.falsify, stage)?;
    let measured = speed::measure(&model, file, options, stage)?;
    let profile = || profile::profile(gpu, &model, graph, options.depth, usize::MAX, stage);
    let profile = options.profile.then(profile).transpose();
    let profile = profile.map_err(|why| Error::from(ForwardError::from(why)))?;
    Ok(Report::new(file, &model, parity, measured, profile))
}
