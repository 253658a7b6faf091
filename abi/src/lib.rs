//! Plain data that the compiler, the interpreter, the runtime and the engine share.
//!
//! `kernel (staged) → words + KernelLayout + SourceMap → Device::launch`
//!
//! Guards: one definition of each table (SPIR-V opcodes, element types, capabilities) and the checks that every
//! launch passes before a device sees it.
//! Never: does IO, holds a Vulkan handle, knows a format, a kernel or a model.
//!
//! Reading order: [`dtype`], [`layout`], [`matrix`], [`caps`], [`kernel`], [`device`], [`data`], [`mod@launch`], [`spirv`].
#![forbid(unsafe_code)]

pub mod caps;
pub mod data;
pub mod device;
pub mod dtype;
pub mod geometry;
pub mod kernel;
pub mod launch;
pub mod layout;
pub mod matrix;
pub mod source;
pub mod spirv;

pub use caps::{DeviceCaps, DeviceKind, Floor, Limits};
pub use device::{BufferId, BufferRange, Device, DeviceError, Dispatch};
pub use dtype::DType;
pub use geometry::BlockGeometry;
pub use kernel::{Kernel, StageError, StageErrors, StagedKernel};
pub use launch::{BufferRef, LaunchArgs, LaunchError, launch};
pub use layout::{Access, BindingLayout, Grid, KernelLayout, PushField};
pub use matrix::{FlexibleProduct, MatrixCaps, MatrixElem, MatrixProduct};
pub use source::{Location, SourceMap};
