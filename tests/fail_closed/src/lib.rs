//! What the kernel language refuses, and for each refusal the twin that it accepts.
//!
//! `ui/NAME.rs` must fail to compile with exactly `ui/NAME.stderr`, which holds line and column; the control of the same
//! name differs in nothing but the fault, compiles and stages. `tests/staging.rs` holds the errors found while staging.
#![forbid(unsafe_code)]

pub mod controls;

use kiln_abi::{StageErrors, StagedKernel};

/// A fixture's name, and the staging of its control twin.
pub type Control = (&'static str, fn() -> Result<StagedKernel, StageErrors>);
