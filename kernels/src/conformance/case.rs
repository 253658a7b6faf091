//! One launch with its inputs and what must come out.

use kiln_abi::{BufferRange, LaunchArgs};

use crate::{
    kv_type::KvType,
    step::{StepRow, step_block},
};

/// A binding's content before the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Given bytes; the kernel must leave them as they are.
    Input(Vec<u8>),
    /// Written by the kernel, this many bytes.
    Output(usize),
    /// Given bytes that the kernel changes.
    Changed(Vec<u8>),
}

impl Buffer {
    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Buffer::Input(data) | Buffer::Changed(data) => data.len(),
            Buffer::Output(n) => *n,
        }
    }
}

/// What an output must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The binding.
    pub binding: usize,
    /// Its content.
    pub content: Content,
}

/// The content of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// f32 values, each within its bound.
    Near {
        /// The exact values, from the plain-Rust reference.
        values: Vec<f64>,
        /// For each value, the largest difference that the kernel's roundings explain.
        bounds: Vec<f64>,
    },
    /// Rows of `k` values in blocks of integers, each within its bound.
    Blocks {
        /// Elements of a row.
        k: usize,
        /// As for `Near`.
        values: Vec<f64>,
        /// As for `Near`, with what the blocks round.
        bounds: Vec<f64>,
    },
    /// Lines of keys or values in pages that are else as before the launch; each value within its bound.
    Lines {
        /// The first word of each line.
        places: Vec<usize>,
        /// Elements of a line.
        head_dim: usize,
        /// How they lie in it.
        ty: KvType,
        /// As for `Near`, line by line.
        values: Vec<f64>,
        /// As for `Near`, with what the type rounds.
        bounds: Vec<f64>,
    },
    /// 32-bit words, bit by bit.
    Words(Vec<u32>),
    /// Pairs of 32-bit words, bit by bit, in any order.
    Pairs(Vec<[u32; 2]>),
}

impl Expected {
    /// Number of values or words.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Near { values, .. } | Content::Blocks { values, .. } | Content::Lines { values, .. } => {
                values.len()
            }
            Content::Words(words) => words.len(),
            Content::Pairs(pairs) => 2 * pairs.len(),
        }
    }

    /// Whether nothing is compared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// f32 values, equal but for the sign of a zero.
    pub fn equal(binding: usize, values: &[f32]) -> Self {
        let values: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        Expected { binding, content: Content::Near { bounds: vec![0.0; values.len()], values } }
    }

    /// Counts, indices, packed words: each equal.
    pub fn words(binding: usize, words: &[u32]) -> Self {
        Expected { binding, content: Content::Words(words.to_vec()) }
    }

    /// f32 values, bit by bit.
    pub fn exactly(binding: usize, values: &[f32]) -> Self {
        Self::words(binding, &values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>())
    }
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
    let mut bytes = Vec::with_capacity(4 * values.len());
    values.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()));
    bytes
}

/// Little-endian bytes of words.
pub fn u32_bytes(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * words.len());
    words.iter().for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
    bytes
}

/// The bytes of a step block of `rows` rows for kernels that only count them.
pub fn plain_step(rows: u32) -> Vec<u8> {
    let row = StepRow { token: 0, position: 0, slot: 0 };
    u32_bytes(&step_block(&vec![row; rows as usize], &[], rows))
}
