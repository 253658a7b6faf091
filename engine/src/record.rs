//! Records a planned step for replay. It takes the plan's launches and the buffers, and nothing else of the model.

use std::collections::BTreeMap;

use kiln_abi::{BufferId, BufferRange, LaunchArgs, LaunchError};
use kiln_runtime::{Gpu, Prepared, RecordOptions, Recorded};

use crate::plan::PlannedStep;

/// Pipelines by the name of their kernel, made as they are needed.
#[derive(Default)]
pub struct Pipelines {
    made: BTreeMap<String, Prepared>,
}

impl Pipelines {
    /// Number of pipelines made so far.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }
}

/// Records steps after each other as one command, each over its buffers, which are by index in the plan.
///
/// # Errors
/// A kernel that cannot be staged or made, or a launch that is refused, with the kernel's name.
pub fn record(
    gpu: &Gpu,
    steps: &[(&PlannedStep, &[BufferId])],
    pipelines: &mut Pipelines,
    options: RecordOptions,
) -> Result<Recorded, LaunchError> {
    let room = |(step, _): &(&PlannedStep, &[BufferId])| {
        format!("step of {} rows, {} outputs", step.class.rows, step.class.outputs)
    };
    let name = steps.iter().map(room).collect::<Vec<_>>().join(" beside a ");
    let mut recorder = gpu.recorder(&name, options)?;
    let all = steps.iter().flat_map(|(step, buffers)| step.launches.iter().map(move |l| (l, *buffers)));
    for (launch, buffers) in all {
        let call = &launch.call;
        if !pipelines.made.contains_key(&call.name) {
            pipelines.made.insert(call.name.clone(), gpu.prepare(&call.stage()?)?);
        }
        recorder.label(&launch.label);
        recorder.launch(&pipelines.made[&call.name], &placed(&call.args, buffers))?;
    }
    Ok(recorder.finish()?)
}

/// The arguments with the plan's buffer numbers replaced by buffers of the device.
fn placed(args: &LaunchArgs, buffers: &[BufferId]) -> LaunchArgs {
    let place = |range: &BufferRange| BufferRange { buffer: buffers[range.buffer.0 as usize], ..*range };
    LaunchArgs { bindings: args.bindings.iter().map(place).collect(), ..args.clone() }
}
