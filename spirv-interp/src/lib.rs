//! Runs SPIR-V words on the CPU and checks everything a driver would let pass.
//!
//! `words → decode (Program) → schedule (workgroups, subgroups) → exec (lanes) → Counters or Trap`
//!
//! Guards: bounds, uninitialized data, data races, memory-model flags, divergence, integer faults, wrapped addresses,
//! endless loops; a kernel that passes here does none of it for the inputs given. No option turns a check off.
//! Matrices that a scope shares are dense; what a device is free in is drawn from the seed or is an option: which lane
//! holds which element, in which order a product and a reduction sum. A decode function and its vector twin are both
//! called and compared.
//! Never: looks at anything but words and the source map beside them, or at what a kernel is for.
//!
//! Reading order: [`device`], `decode`, `program`, `schedule`, `exec`, `race`, `order`.
//!
//! ```
//! use kiln_abi::Device;
//! use kiln_spirv_interp::{InterpOptions, Interpreter};
//!
//! let interp = Interpreter::new(InterpOptions { subgroup_size: 16, ..Default::default() });
//! let buffer = interp.allocate(256, "weights")?;
//! interp.write(buffer, 0, &[0; 256])?;
//! # Ok::<(), kiln_abi::DeviceError>(())
//! ```
#![forbid(unsafe_code)]

mod buffers;
mod counters;
mod decode;
pub mod device;
mod exec;
mod matrix;
mod number;
mod options;
mod order;
mod program;
mod race;
mod schedule;
mod trap;

pub use counters::{Counters, MatrixCounters, Traffic};
pub use decode::DecodeError;
pub use device::Interpreter;
pub use options::{InterpOptions, ReduceOrder, SUBGROUP_SIZES};
pub use trap::{Trap, TrapKind};
