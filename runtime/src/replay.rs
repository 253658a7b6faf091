//! A finished recording: submitted any number of times, timed, and kept alive while it runs.

use std::{
    collections::BTreeMap,
    mem::ManuallyDrop,
    sync::{Arc, Mutex},
};

use kiln_abi::DeviceError;

use crate::{Gpu, Prepared, Ticket, Timing, command::Commands, memory::Allocation, sync::lock};

/// The buffers a recording keeps alive, each once, by address.
#[derive(Default)]
pub(crate) struct Held(BTreeMap<usize, Arc<Allocation>>);

impl Held {
    pub(crate) fn add(&mut self, allocation: &Arc<Allocation>) {
        self.0.entry(Arc::as_ptr(allocation).addr()).or_insert_with(|| allocation.clone());
    }
}

/// A finished recording. It holds its kernels and buffers: freeing a buffer leaves it intact for the recording.
pub struct Recorded {
    gpu: Gpu,
    what: Arc<str>,
    timed: bool,
    steps: Vec<(String, String)>,
    last: Mutex<Option<Ticket>>,
    parts: ManuallyDrop<Parts>,
}

struct Parts {
    commands: Commands,
    _held: (Vec<Prepared>, Held),
}

impl Recorded {
    pub(crate) fn new(
        gpu: Gpu,
        name: &str,
        steps: Vec<(String, String)>,
        timed: bool,
        commands: Commands,
        held: (Vec<Prepared>, Held),
    ) -> Self {
        let what = describe(name, &steps).into();
        let parts = ManuallyDrop::new(Parts { commands, _held: held });
        Self { gpu, what, timed, steps, last: Mutex::default(), parts }
    }

    /// Starts a run, after those that were submitted before it.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] or a Vulkan failure.
    pub fn submit(&self) -> Result<Ticket, DeviceError> {
        let mut last = lock(&self.last);
        // SAFETY: the buffer is finished, allows several pending runs, and `drop` waits for the last of them.
        let ticket = unsafe { self.gpu.0.queue.submit(self.parts.commands.buffer, &self.what) }?;
        *last = Some(ticket.clone());
        Ok(ticket)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// As for [`Recorded::submit`] and [`Gpu::wait`].
    pub fn run(&self) -> Result<(), DeviceError> {
        let ticket = self.submit()?;
        self.gpu.wait(&ticket, None)
    }

    /// What each command of the last run took, after waiting for it; `None` when it was recorded without
    /// timestamps, when the queue has none, or before the first run.
    ///
    /// # Errors
    /// As for [`Gpu::wait`].
    pub fn timings(&self) -> Result<Option<Vec<Timing>>, DeviceError> {
        let last = lock(&self.last).clone();
        let (Some(ticket), Some(clock), true) = (last, self.gpu.info().timestamps, self.timed) else {
            return Ok(None);
        };
        self.gpu.wait(&ticket, None)?;
        let stamps = self.parts.commands.read_stamps(&self.what)?;
        let timing = |((label, command), pair): (&(String, String), &[u64])| Timing {
            label: label.clone(),
            command: command.clone(),
            ns: clock.between_ns(pair[0], pair[1]),
        };
        Ok(Some(self.steps.iter().zip(stamps.windows(2)).map(timing).collect()))
    }

    /// Number of recorded commands.
    pub fn commands(&self) -> usize {
        self.steps.len()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let over = match lock(&self.last).as_ref() {
            Some(ticket) => self.gpu.0.queue.is_over(ticket),
            None => true,
        };
        if over {
            // SAFETY: nothing runs any more, and `parts` is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        } else {
            // Destroying what still runs is undefined; what hangs for longer than the timeout is left alone.
            tracing::error!(what = %self.what, "still running; its memory is not given back");
        }
    }
}

/// What errors call a recording: its only command, or its name with the commands it consists of.
fn describe(name: &str, steps: &[(String, String)]) -> String {
    const LISTED: usize = 8;
    let mut commands: Vec<&str> = Vec::new();
    for (_, command) in steps {
        if !commands.contains(&command.as_str()) {
            commands.push(command);
        }
    }
    match commands.as_slice() {
        [] => name.to_string(),
        [only] => only.to_string(),
        several => {
            let more = if several.len() > LISTED { ", ..." } else { "" };
            format!("{name} ({}{more})", several[..several.len().min(LISTED)].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn errors_name_the_kernels_of_a_recording() {
        let steps =
            |names: &[&str]| -> Vec<_> { names.iter().map(|n| (String::new(), n.to_string())).collect() };
        assert_eq!(describe("step", &[]), "step");
        assert_eq!(describe("step", &steps(&["gemv", "gemv"])), "gemv");
        assert_eq!(describe("step", &steps(&["norm", "gemv", "norm"])), "step (norm, gemv)");
        let many = steps(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
        assert_eq!(describe("step", &many), "step (a, b, c, d, e, f, g, h, ...)");
    }
}
