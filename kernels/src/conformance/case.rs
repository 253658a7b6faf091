//! One launch with its inputs and what must come out.

use kiln_abi::{BufferRange, LaunchArgs};

/// A binding's content before the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Given bytes; the kernel must leave them as they are.
    Input(Vec<u8>),
    /// Written by the kernel, this many bytes.
    Output(usize),
}

impl Buffer {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Buffer::Input(data) => data.len(),
            Buffer::Output(n) => *n,
        }
    }
}

/// What an f32 output must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The binding.
    pub binding: usize,
    /// The exact values, from the plain-Rust reference.
    pub values: Vec<f64>,
    /// For each value, the largest difference that the kernel's roundings explain (0: bit-equal).
    pub bounds: Vec<f64>,
}

/// Makes launch arguments of the ranges that a case's buffers were put in.
pub type Bind = Box<dyn Fn(&[BufferRange]) -> LaunchArgs + Send + Sync>;

/// A launch with known answers.
pub struct Case {
    /// The shape and what is special about it.
    pub name: String,
    /// One per binding, in binding order.
    pub buffers: Vec<Buffer>,
    /// One per output.
    pub expected: Vec<Expected>,
    /// Ranges → launch arguments (push constants, grid, length contracts).
    pub bind: Bind,
}

/// Little-endian bytes of f32 values.
pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
