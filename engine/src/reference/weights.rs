//! Every weight of a graph as f32.

use std::sync::{Mutex, PoisonError};
use std::thread;

use kiln_kernels::DequantizeError;

use super::Threads;
use crate::graph::{Graph, TensorId, TensorSpec};

/// The weights of one model, shared by its sequences.
#[derive(Debug)]
pub struct Weights {
    tensors: Vec<Vec<f32>>,
}

/// Why the weights are not in memory.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// f32 takes more room than there is.
    #[error(
        "the reference holds all weights as f32 and needs {} MiB, this machine has {} MiB free: use a smaller model",
        needed_bytes >> 20,
        available_bytes >> 20
    )]
    Memory {
        /// For the weights.
        needed_bytes: u64,
        /// As the system says.
        available_bytes: u64,
    },
    /// A tensor of the graph that the file no longer has.
    #[error("tensor `{name}` is gone: the file changed while it was read")]
    Gone {
        /// Full name.
        name: String,
    },
    /// A tensor in a format that the registry lacks.
    #[error("tensor `{name}` is of type {type_id}, which no registered format has")]
    NoFormat {
        /// Full name.
        name: String,
        /// ggml's id.
        type_id: u32,
    },
    /// A tensor whose bytes are not its shape's.
    #[error("tensor `{name}`: {source}")]
    Blocks {
        /// Full name.
        name: String,
        /// The format's reason.
        source: DequantizeError,
    },
}

impl Weights {
    /// Dequantizes every tensor of `graph` through `read`, which gets a tensor and fills its `n_elems` values;
    /// `loaded` is told the number of values after each.
    ///
    /// # Errors
    /// No room, or the first tensor that `read` refuses.
    pub fn load(
        graph: &Graph,
        threads: Threads,
        read: impl Fn(&TensorSpec, &mut [f32]) -> Result<(), LoadError> + Sync,
        loaded: impl Fn(usize) + Sync,
    ) -> Result<Self, LoadError> {
        let needed_bytes = 4 * graph.n_weight_elems() as u64;
        if let Some(available_bytes) = available_memory_bytes().filter(|&available| needed_bytes > available)
        {
            return Err(LoadError::Memory { needed_bytes, available_bytes });
        }
        let mut tensors = vec![Vec::new(); graph.tensors.len()];
        let queue = Mutex::new(graph.tensors.iter().zip(&mut tensors));
        let failure = Mutex::new(None);
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            while let Some((spec, values)) = next() {
                *values = vec![0.0; spec.n_elems()];
                if let Err(error) = read(spec, values) {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
                loaded(spec.n_elems());
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.count() {
                scope.spawn(run);
            }
            run();
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure),
            None => Ok(Self { tensors }),
        }
    }

    /// The values of a tensor, slowest dimension first.
    pub fn tensor(&self, id: TensorId) -> &[f32] {
        &self.tensors[id.0]
    }
}

/// Memory that new allocations can have, where the system says so.
fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
