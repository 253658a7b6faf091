//! What a caller chooses when a device is opened.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use kiln_abi::spirv::Capability;

/// How a device is opened. `RuntimeOptions::default()` is what the product uses.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Index or case-insensitive part of a name; `None` takes the best device.
    pub device: Option<String>,
    /// Turns the validation layer on, synchronization checks included.
    pub validation: bool,
    /// Where compiled pipelines are kept.
    pub cache: CacheDir,
    /// How long a wait lasts before it is an error.
    pub timeout: Duration,
    /// Capabilities to do without although the device has them.
    pub without: BTreeSet<Capability>,
    /// Copies through the staging ring even where device memory is host visible.
    pub force_staging: bool,
    /// A full barrier before every recorded command, whatever the hazards say.
    pub paranoid: bool,
    /// Failures to provoke, for tests.
    pub faults: Faults,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            device: None,
            validation: false,
            cache: CacheDir::Standard,
            timeout: Duration::from_secs(60),
            without: BTreeSet::new(),
            force_staging: false,
            paranoid: false,
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
