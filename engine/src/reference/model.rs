//! A model whose weights are f32 in memory, ready for sequences.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_kernels::Registry;

use super::{LoadError, Reference, Threads, Weights};
use crate::forward::{Backend, Forward, ForwardError};
use crate::gguf::Gguf;
use crate::graph::{Graph, TensorSpec};

/// Graph and weights, shared by all sequences.
#[derive(Debug)]
pub struct Model {
    graph: Arc<Graph>,
    weights: Arc<Weights>,
    threads: Threads,
}

impl Model {
    /// Dequantizes the weights of `graph`; `progress` is told the number of weights done and in all.
    ///
    /// # Errors
    /// No room for f32 weights, or a tensor that cannot be read.
    pub fn load(
        gguf: &Gguf,
        graph: &Graph,
        registry: &Registry,
        threads: Threads,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Self, LoadError> {
        let read = |spec: &TensorSpec, values: &mut [f32]| {
            let tensor = gguf.tensor(&spec.name).ok_or(LoadError::Gone { name: spec.name.clone() })?;
            let format = registry.format(tensor.type_id);
            let format =
                format.ok_or(LoadError::NoFormat { name: spec.name.clone(), type_id: tensor.type_id })?;
            let failed = |source| LoadError::Blocks { name: spec.name.clone(), source };
            format.dequantize(tensor.data, values).map_err(failed)
        };
        let (done, total) = (AtomicUsize::new(0), graph.n_weight_elems());
        let loaded = |n| progress(done.fetch_add(n, Ordering::Relaxed) + n, total);
        let weights = Arc::new(Weights::load(graph, threads, read, loaded)?);
        Ok(Self { graph: Arc::new(graph.clone()), weights, threads })
    }
}

impl Backend for Model {
    fn sequence(&self, n_ctx: usize) -> Result<Box<dyn Forward>, ForwardError> {
        let (graph, weights) = (Arc::clone(&self.graph), Arc::clone(&self.weights));
        Ok(Box::new(Reference::new(graph, weights, self.threads, n_ctx)))
    }
}
