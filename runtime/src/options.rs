//! What a caller chooses when a device is opened.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use kiln_abi::{DeviceKind, spirv::Capability};

/// How a device is opened. `RuntimeOptions::default()` is what the product uses.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Index or case-insensitive part of a name; `None` takes the best device.
    pub device: Option<String>,
    /// Turns the validation layer on, synchronization checks included.
    pub validation: bool,
    /// Where compiled pipelines are kept.
    pub cache: CacheDir,
    /// How long a wait lasts before it is an error: a minute, but an hour where the processor is the device, which is
    /// slow when a GPU would have hung.
    pub timeout: Option<Duration>,
    /// Capabilities to do without although the device has them.
    pub without: BTreeSet<Capability>,
    /// Copies through the staging ring even where device memory is host visible.
    pub force_staging: bool,
    /// A full barrier before every recorded command, whatever the hazards say.
    pub paranoid: bool,
    /// Asks the driver what it says of each pipeline's code ([`crate::Prepared::statistics`]), where it says anything.
    pub statistics: bool,
    /// Failures to provoke, for tests.
    pub faults: Faults,
}

impl RuntimeOptions {
    pub(crate) fn timeout_on(&self, kind: DeviceKind) -> Duration {
        let usual = if kind == DeviceKind::Cpu { Duration::from_secs(3600) } else { Duration::from_secs(60) };
        self.timeout.unwrap_or(usual)
    }
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            device: None,
            validation: false,
            cache: CacheDir::Standard,
            timeout: None,
            without: BTreeSet::new(),
            force_staging: false,
            paranoid: false,
            statistics: false,
            faults: Faults::default(),
        }
    }
}

/// Where compiled pipelines are kept between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheDir {
    /// `$KILN_CACHE`, else `$XDG_CACHE_HOME/kiln`, else `$HOME/.cache/kiln`; nowhere when none is set.
    Standard,
    /// This folder.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// Failures to provoke, so that the paths behind them can be tested on a healthy device. Counts start at 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The allocation that reports no memory.
    pub fail_allocation: Option<u64>,
    /// The room that is left, whatever the system says.
    pub room_bytes: Option<u64>,
    /// The kernel whose pipeline cannot be made.
    pub fail_pipeline: Option<String>,
    /// The submit that loses the device (uploads and readbacks through staging count).
    pub lose_at_submit: Option<u64>,
    /// Leaves out every hazard barrier: the negative control of the synchronization checks.
    pub drop_barriers: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_is_waited_for_longer_unless_told_otherwise() {
        let usual = RuntimeOptions::default();
        let [cpu, gpu] = [DeviceKind::Cpu, DeviceKind::Discrete].map(|kind| usual.timeout_on(kind));
        assert!(cpu > gpu, "{cpu:?} against {gpu:?}");
        let told = RuntimeOptions { timeout: Some(Duration::from_secs(7)), ..usual };
        assert_eq!(
            [DeviceKind::Cpu, DeviceKind::Discrete].map(|kind| told.timeout_on(kind)),
            [Duration::from_secs(7); 2]
        );
    }
}
