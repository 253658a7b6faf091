//! The end of a step: what follows each output.

use kiln_abi::Limits;
use kiln_kernels::{
    Call,
    advance::{Advance, AdvanceArgs, AdvancePush},
    sample::{
        self,
        best::{SampleBest, SampleBestArgs, SamplePush},
        gather::{SampleGather, SampleGatherArgs},
        pick::{SamplePick, SamplePickArgs},
    },
    soft_cap::{SoftCap, SoftCapArgs, SoftCapPush},
};

use super::{Planner, Step, index};
use crate::plan::{PlanError, RING_LINES, StepClass};

/// As many outputs as have room for all their candidates in one binding.
pub(super) fn choices(limits: &Limits, n_vocab: u32) -> u32 {
    let outputs = limits.max_binding_bytes / (8 * u64::from(n_vocab.max(1)));
    u32::try_from(outputs).unwrap_or(u32::MAX).max(1)
}

impl Planner<'_> {
    /// Caps the logits where they are.
    pub(super) fn cap_logits(&mut self, step: &mut Step, cap: f32) -> Result<(), PlanError> {
        let n = index("the vocabulary", self.graph.n_vocab())?;
        let args = SoftCapArgs {
            x: self.logits(step.class).into(),
            step: self.range(self.fixed.output_step).into(),
            p: SoftCapPush { rows: step.class.outputs, n, cap },
        };
        step.launch("soft cap", Call::new(SoftCap::new(), &args));
        Ok(())
    }

    /// The choice of each output, which becomes a row of the next step.
    pub(super) fn choose(&mut self, step: &mut Step) {
        let StepClass { rows, outputs, .. } = step.class;
        let (n, n_slots) = (self.graph.n_vocab() as u32, self.context.n_slots);
        let outputs = outputs.min(self.n_choices);
        let p = SamplePush { rows, outputs, n, chunk: sample::chunk(n), n_slots };
        let (x, samplers) = (self.logits(step.class), self.range(self.fixed.samplers));
        let (best, counts) = (self.range(self.fixed.firsts), self.range(self.fixed.counts));
        let (list, block) = (self.range(self.fixed.candidates), self.range(self.fixed.step));
        let chosen = self.range(self.fixed.chosen);
        let args = SampleBestArgs {
            x: x.into(),
            step: block.into(),
            samplers: samplers.into(),
            best: best.into(),
            counts: counts.into(),
            p,
        };
        step.launch("best", Call::new(SampleBest::new(), &args));
        let args = SampleGatherArgs {
            x: x.into(),
            step: block.into(),
            samplers: samplers.into(),
            best: best.into(),
            counts: counts.into(),
            list: list.into(),
            p,
        };
        step.launch("gather", Call::new(SampleGather::new(), &args));
        let args = SamplePickArgs {
            step: block.into(),
            samplers: samplers.into(),
            best: best.into(),
            counts: counts.into(),
            list: list.into(),
            chosen: chosen.into(),
            p,
        };
        step.launch("pick", Call::new(SamplePick::new(), &args));
        let width = self.n_choices;
        let args = AdvanceArgs {
            chosen: chosen.into(),
            step: block.into(),
            samplers: samplers.into(),
            ring: self.range(self.fixed.ring).into(),
            p: AdvancePush { rows, outputs, width, ring_len: RING_LINES * width, n_slots },
        };
        step.launch("advance", Call::new(Advance::new(), &args));
    }
}
