//! Which launches of a step wait for earlier ones: the same rule that puts barriers into a recording.

use kiln_runtime::hazard::{Hazards, Stages, Touch};

use super::{Plan, PlannedStep};

impl Plan {
    /// For each launch of `step` whether a barrier stands before it.
    pub fn barriers(&self, step: &PlannedStep) -> Vec<bool> {
        let mut hazards = Hazards::default();
        let mut wait = |launch: &super::PlannedLaunch| {
            let args = &launch.call.args;
            let accesses = self.kernels.get(&launch.call.name).map(|k| &k.staged.layout.bindings);
            let touches: Vec<Touch> = accesses
                .into_iter()
                .flatten()
                .zip(&args.bindings)
                .map(|(binding, range)| Touch {
                    buffer: range.buffer,
                    start: range.offset_bytes,
                    end: range.offset_bytes + range.bytes,
                    access: binding.access,
                    stage: Stages::COMPUTE,
                })
                .collect();
            !args.grid.is_empty() && hazards.before(&touches).is_some()
        };
        step.launches.iter().map(&mut wait).collect()
    }
}
