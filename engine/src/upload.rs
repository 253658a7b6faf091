//! Puts what all sequences share on the device, each weight once, straight from the mapped file.

use kiln_abi::{BufferId, BufferRange, Device, DeviceError, LaunchError, launch::launch_staged};
use kiln_kernels::{DequantizeError, Registry, repack::Repack};
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
    /// A matrix that cannot be put into planes.
    #[error("a matrix cannot be rearranged for the device: {source}")]
    Repack {
        /// The launch's reason.
        source: Box<LaunchError>,
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

/// Bytes of a file that are on their way at once, at most.
const RUN_BYTES: usize = 16 << 20;

/// A buffer that is given back.
struct Lent {
    gpu: Gpu,
    id: BufferId,
}

impl Lent {
    fn new(gpu: &Gpu, bytes: u64, name: &str) -> Result<Self, DeviceError> {
        Ok(Self { gpu: gpu.clone(), id: gpu.allocate(bytes, name)? })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.gpu.free(self.id);
    }
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
                let piece = piece.ok_or_else(|| self.gone(*tensor))?;
                let format = self.registry.format(found.type_id).ok_or_else(|| self.gone(*tensor))?;
                let n_elems = m as u64 * self.graph.tensors[tensor.0].shape[1] as u64;
                if (format.device_bytes)(n_elems) != buffer.bytes {
                    return Err(self.gone(*tensor));
                }
                self.repack(gpu, (id, buffer), piece, &(format.repack)(n_elems))?;
            }
            Holds::Floats(tensor) => gpu.write(id, 0, &bytes(&self.floats(*tensor)?))?,
            Holds::Angles(rope) => {
                let factors = rope.factors.map(|t| self.floats(t)).transpose()?;
                gpu.write(id, 0, &bytes(&angles(rope, factors.as_deref(), plan.context.n_ctx)))?;
            }
            Holds::Keys { .. }
            | Holds::Values { .. }
            | Holds::PageTable { .. }
            | Holds::Step
            | Holds::OutputStep
            | Holds::Scratch
            | Holds::Parts
            | Holds::Logits
            | Holds::Samplers
            | Holds::Candidates
            | Holds::Chosen
            | Holds::Ring => {}
        }
        Ok(())
    }

    /// Puts a matrix's blocks into planes, a bounded run at a time.
    fn repack(
        &self,
        gpu: &Gpu,
        (y, buffer): (BufferId, &PlannedBuffer),
        blocks: &[u8],
        repack: &Repack,
    ) -> Result<(), UploadError> {
        let whole = |buffer, bytes| BufferRange { buffer, offset_bytes: 0, bytes };
        if let Some((words, at)) = &repack.table {
            let table: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            gpu.write(y, *at, &table)?;
        }
        let (file_bytes, block_bytes) = (repack.file_bytes() as usize, repack.block_bytes() as usize);
        let run = (RUN_BYTES / block_bytes / repack.run as usize).max(1) * repack.run as usize;
        let most = run.min(blocks.len() / file_bytes);
        let staging_bytes = (most * block_bytes).next_multiple_of(4) as u64;
        let moves: Vec<u8> = repack.moves.iter().flat_map(|w| w.to_le_bytes()).collect();
        let staging = Lent::new(gpu, staging_bytes, &format!("blocks of {}", buffer.name))?;
        let table = Lent::new(gpu, moves.len() as u64, &format!("moves of {}", buffer.name))?;
        gpu.write(table.id, 0, &moves)?;
        for (i, part) in blocks.chunks(run * file_bytes).enumerate() {
            let part = repack.recoded(part);
            gpu.write(staging.id, 0, &part)?;
            let n_blocks = u32::try_from(part.len() / block_bytes).unwrap_or(u32::MAX);
            let (from, to) = (whole(staging.id, staging_bytes), whole(y, buffer.bytes));
            let calls =
                repack.calls(from, whole(table.id, moves.len() as u64), to, (i * run) as u64, n_blocks);
            for call in calls {
                let refused = |source: LaunchError| UploadError::Repack { source: Box::new(source) };
                let kernel = call.stage().map_err(|errors| refused(errors.into()))?;
                launch_staged(gpu, &kernel, &call.args).map_err(refused)?;
            }
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
