//! Vulkan, and nothing but Vulkan: devices, memory, pipelines, recorded commands, timestamps.
//!
//! `options → Gpu::open → allocate, write → prepare → record → submit → wait → read`
//!
//! Guards: the only unsafe calls of the workspace; barriers that follow from each kernel's derived accesses; objects
//! that live as long as anything submitted uses them; a lost device, a full memory and a failing pipeline are errors
//! with a name.
//! Never: knows a format, a kernel or a model, writes a kernel's words, or decides what a plan should contain.
//!
//! Reading order: [`options`], `choose`, `caps`, `memory`, `pipeline`, `hazard`, [`record`], [`replay`], `submit`, [`gpu`].

mod buffers;
mod cache;
mod caps;
mod choose;
mod command;
pub mod error;
mod features;
pub mod gpu;
mod handle;
pub mod hazard;
pub mod info;
mod instance;
mod matrix;
mod memory;
pub mod options;
mod pipeline;
mod ranges;
pub mod record;
pub mod replay;
pub mod room;
mod statistics;
mod submit;
mod sync;
pub mod timing;
mod transfer;

pub use error::RuntimeError;
pub use gpu::{Gpu, devices};
pub use info::{ApiVersion, Cooperative, CooperativeShape, DeviceInfo, Heap, kind_name};
pub use instance::ValidationLog;
pub use memory::{MemoryUse, Placement};
pub use options::{CacheDir, Faults, RuntimeOptions};
pub use pipeline::{CacheUse, Prepared};
pub use record::{RecordOptions, Recorder};
pub use replay::Recorded;
pub use room::{Room, RoomBound};
pub use statistics::Statistic;
pub use submit::Ticket;
pub use timing::{TimestampClock, Timing};
pub use transfer::RING_BYTES;
