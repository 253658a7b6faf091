//! Puts what all sequences share on the device, each weight once, straight from the mapped file.

use kiln_abi::{BufferId, Device, DeviceError};
use kiln_kernels::{DequantizeError, Registry};
use kiln_runtime::Gpu;

use crate::gguf::{Gguf, Tensor};
use crate::graph::{Graph, Rope, TensorId};
use crate::plan::{Holds, Plan, PlannedBuffer};

/// Why the weights are not on the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A tensor that the file no longer has, or no longer in its planned size.
    #[error("tensor `{tensor}` is gone: the file changed while it was read")]
    Gone {
        /// Full name.
        tensor: String,
    },
    /// A tensor whose values cannot be read.
    #[error("tensor `{tensor}`: {source}")]
    Blocks {
        /// Full name.
        tensor: String,
        /// The format's reason.
        source: DequantizeError,
    },
}

/// The shared buffers of a plan on a device; dropping them gives the memory back.
pub struct Shared {
    gpu: Gpu,
    /// By index in the plan; none for a sequence's own.
    buffers: Vec<Option<BufferId>>,
}

impl Shared {
    /// Where a buffer of the plan is, if it is shared.
    pub fn get(&self, index: usize) -> Option<BufferId> {
        self.buffers.get(index).copied().flatten()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.buffers.iter().flatten().for_each(|id| self.gpu.free(*id));
    }
}

/// Uploads; `progress` is told bytes done and in all.
///
/// # Errors
/// No room on the device, or a tensor that cannot be read; nothing stays on the device then.
pub fn upload(
    gpu: &Gpu,
    plan: &Plan,
    gguf: &Gguf,
    graph: &Graph,
    registry: &Registry,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Shared, UploadError> {
    let total = plan.bytes().0 as usize;
    let mut shared = Shared { gpu: gpu.clone(), buffers: vec![None; plan.buffers.len()] };
    let source = Source { gguf, graph, registry };
    let mut done = 0;
    for (index, buffer) in plan.buffers.iter().enumerate().filter(|(_, b)| b.holds.is_shared()) {
        let id = gpu.allocate(buffer.bytes, &buffer.name)?;
        shared.buffers[index] = Some(id);
        source.write(gpu, id, buffer, plan)?;
        done += buffer.bytes as usize;
        progress(done, total);
    }
    Ok(shared)
}

struct Source<'a> {
    gguf: &'a Gguf,
    graph: &'a Graph,
    registry: &'a Registry,
}

impl<'a> Source<'a> {
    fn write(&self, gpu: &Gpu, id: BufferId, buffer: &PlannedBuffer, plan: &Plan) -> Result<(), UploadError> {
        match &buffer.holds {
            Holds::Blocks { tensor, first, m } => {
                let found = self.tensor(*tensor)?;
                let row = found.data.len() / self.graph.tensors[tensor.0].shape[0].max(1);
                let (first, m) = (*first as usize, *m as usize);
                let piece = found.data.get(first * row..(first + m) * row);
                let piece =
                    piece.filter(|p| p.len() as u64 == buffer.bytes).ok_or_else(|| self.gone(*tensor))?;
                gpu.write(id, 0, piece)?;
            }
            Holds::Floats(tensor) => gpu.write(id, 0, &bytes(&self.floats(*tensor)?))?,
            Holds::Angles(rope) => {
                let factors = rope.factors.map(|t| self.floats(t)).transpose()?;
                gpu.write(id, 0, &bytes(&angles(rope, factors.as_deref(), plan.context.n_ctx)))?;
            }
            Holds::Keys { .. }
            | Holds::Values { .. }
            | Holds::PageTable
            | Holds::Step
            | Holds::OutputStep
            | Holds::Scratch
            | Holds::Logits
            | Holds::Chosen
            | Holds::Ring => {}
        }
        Ok(())
    }

    fn gone(&self, tensor: TensorId) -> UploadError {
        UploadError::Gone { tensor: self.graph.tensors[tensor.0].name.clone() }
    }

    fn tensor(&self, tensor: TensorId) -> Result<Tensor<'a>, UploadError> {
        self.gguf.tensor(&self.graph.tensors[tensor.0].name).ok_or_else(|| self.gone(tensor))
    }

    fn floats(&self, tensor: TensorId) -> Result<Vec<f32>, UploadError> {
        let found = self.tensor(tensor)?;
        let format = self.registry.format(found.type_id).ok_or_else(|| self.gone(tensor))?;
        let mut values = vec![0.0; self.graph.tensors[tensor.0].n_elems()];
        let name = || self.graph.tensors[tensor.0].name.clone();
        let failed = |source| UploadError::Blocks { tensor: name(), source };
        format.dequantize(found.data, &mut values).map_err(failed)?;
        Ok(values)
    }
}

/// Cosine and sine of each position and pair, computed in f64: `[n_ctx, n_rot / 2, 2]`.
fn angles(rope: &Rope, factors: Option<&[f32]>, n_ctx: u32) -> Vec<f32> {
    let frequencies = rope.frequencies(factors);
    let mut angles = Vec::with_capacity(n_ctx as usize * rope.n_rot);
    for position in 0..n_ctx {
        for frequency in &frequencies {
            let (sin, cos) = (f64::from(position) * frequency).sin_cos();
            angles.extend([cos, sin].map(|x| (x * rope.magnitude) as f32));
        }
    }
    angles
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
