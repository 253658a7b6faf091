//! What CI consists of: one row per stage. A new suite is a new row.

use std::fmt;
use std::path::PathBuf;

use crate::setup::Driver;

/// Stages that share a budget in minutes, on 2 cores from a cold clone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Setup,
    Build,
    Lints,
    Tests,
    Interpreter,
    Lavapipe,
    Models,
}

impl Group {
    pub(crate) const ALL: [Group; 7] = [
        Group::Setup,
        Group::Build,
        Group::Lints,
        Group::Tests,
        Group::Interpreter,
        Group::Lavapipe,
        Group::Models,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Setup => "setup",
            Group::Build => "build",
            Group::Lints => "lints",
            Group::Tests => "tests",
            Group::Interpreter => "interpreter",
            Group::Lavapipe => "lavapipe",
            Group::Models => "models",
        }
    }

    /// Minutes; none for the set-up, which waits for the network.
    pub(crate) fn budget_minutes(self) -> Option<f64> {
        match self {
            Group::Setup => None,
            Group::Build => Some(8.0),
            Group::Lints => Some(3.0),
            Group::Tests => Some(4.0),
            Group::Interpreter => Some(4.0),
            Group::Lavapipe => Some(3.0),
            Group::Models => Some(3.0),
        }
    }
}

/// A budget passed by half fails its group.
pub(crate) const OVERRUN: f64 = 1.5;
/// From a cold clone on 2 cores.
pub(crate) const TOTAL_MINUTES: f64 = 25.0;
/// The kernels crate alone, dev profile, 2 cores: generics must not multiply the build.
pub(crate) const KERNELS_SECONDS: f64 = 60.0;

/// What a stage does.
pub(crate) enum Action {
    Setup,
    /// Everything, with the kernels crate's own compile time.
    Build,
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// The examples in documentation.
    DocTests,
    /// Test binaries of these packages.
    Test(&'static [Pick], Where),
}

/// Which test binaries a stage runs.
#[derive(Clone, Copy)]
pub(crate) enum Pick {
    /// Those of a package that no stage names one by one.
    Package(&'static str),
    /// One target of a package.
    Target(&'static str, &'static str),
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pick::Package(package) => write!(f, "{package}"),
            Pick::Target(package, target) => write!(f, "{package} {target}"),
        }
    }
}

/// Whether a stage with these picks runs the binary.
pub(crate) fn picks(picks: &[Pick], package: &str, target: &str) -> bool {
    picks.iter().any(|pick| match *pick {
        Pick::Target(p, t) => (p, t) == (package, target),
        Pick::Package(p) => p == package && !is_named(package, target),
    })
}

fn is_named(package: &str, target: &str) -> bool {
    let picks = STAGES.iter().filter_map(|stage| match &stage.action {
        Action::Test(picks, _) => Some(*picks),
        _ => None,
    });
    picks.flatten().any(|pick| matches!(pick, Pick::Target(p, t) if (*p, *t) == (package, target)))
}

/// Where test binaries run.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    Host,
    /// On the CPU Vulkan driver, with vectors of this many bits: 128, 256, 512 are subgroups of 4, 8, 16.
    Lavapipe {
        vector_bits: u32,
        /// Whether it optimizes what it compiles: for a kernel that runs a few times, that takes longer than it saves.
        optimized: bool,
    },
    /// On the GPU of this machine, if there is one.
    Gpu,
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Host => write!(f, "on this processor"),
            Where::Gpu => write!(f, "on the GPU"),
            Where::Lavapipe { vector_bits, .. } => {
                write!(f, "on the CPU driver, vectors of {vector_bits} bits")
            }
        }
    }
}

impl Where {
    /// Whether a device takes part, which the tests then name in what they print.
    pub(crate) fn is_device(self) -> bool {
        !matches!(self, Where::Host)
    }

    /// Whether test programs run side by side, each with its share of threads: tests of one would compile the same kernels
    /// at once, and a device of the CPU driver compiles on one thread.
    pub(crate) fn is_side_by_side(self) -> bool {
        matches!(self, Where::Lavapipe { optimized: true, .. })
    }

    /// Why these tests cannot run, if so.
    pub(crate) fn blocked(self, driver: &Driver) -> Option<&str> {
        match (self, driver) {
            (Where::Lavapipe { .. }, Driver::Missing(why)) => Some(why),
            _ => None,
        }
    }

    /// The program that starts test binaries, if they cannot start by themselves.
    pub(crate) fn launcher(self, driver: &Driver) -> Option<PathBuf> {
        match (self, driver) {
            (Where::Lavapipe { .. }, Driver::Prefix(dir)) => Some(dir.join("run")),
            _ => None,
        }
    }
}

/// One row.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    pub(crate) action: Action,
}

pub(crate) const CLIPPY: &[&str] =
    &["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-Dwarnings"];
pub(crate) const DOC: &[&str] = &["doc", "--workspace", "--no-deps", "--keep-going"];
pub(crate) const DOC_ENV: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-Dwarnings")];

/// Their tests need the driver, and run under its launcher.
pub(crate) const DEVICE_PACKAGES: [&str; 2] = ["kiln-runtime", "kiln-conformance"];

const fn stage(name: &'static str, group: Group, action: Action) -> Stage {
    Stage { name, group, action }
}

const UNIT: &[Pick] = &[
    Pick::Package("kiln-abi"),
    Pick::Package("kiln-dsl-macros"),
    Pick::Package("kiln-dsl"),
    Pick::Package("kiln-spirv-emit"),
    Pick::Package("kiln-kernels"),
    Pick::Package("kiln-runtime"),
    Pick::Package("kiln-engine"),
    Pick::Package("kiln-xtask"),
    Pick::Package("kiln-tidy"),
];
const GOLDEN: &[Pick] = &[Pick::Package("kiln-golden")];
const FAIL_CLOSED: &[Pick] = &[Pick::Package("kiln-fail-closed")];
const INTERPRETER: &[Pick] = &[
    Pick::Package("kiln-spirv-interp"),
    Pick::Package("kiln-conformance"),
    Pick::Package("kiln-ternary-format"),
];
const RUNTIME: &[Pick] = &[Pick::Target("kiln-runtime", "vulkan")];
const MODELS: &[Pick] = &[Pick::Target("kiln-engine", "smollm2")];
/// Side by side in this order: what takes longest, beside it what compiles most kernels of the others, then those.
const DEVICE_MODELS: &[Pick] = &[
    Pick::Target("kiln-engine", "device"),
    Pick::Target("kiln-engine", "loads"),
    Pick::Target("kiln-engine", "sampling"),
    Pick::Target("kiln-engine", "sequences"),
    Pick::Target("kiln-engine", "bench"),
    Pick::Target("kiln-engine", "windows"),
    Pick::Target("kiln-engine", "device_architectures"),
];
const CONFORMANCE: &[Pick] = &[Pick::Target("kiln-conformance", "vulkan")];

/// Whole models.
const LAVAPIPE: Where = Where::Lavapipe { vector_bits: 256, optimized: true };
/// Kernels by themselves, in subgroups of 8, 4 and 16.
pub(crate) const LAVAPIPE_8: Where = Where::Lavapipe { vector_bits: 256, optimized: false };
const LAVAPIPE_4: Where = Where::Lavapipe { vector_bits: 128, optimized: false };
const LAVAPIPE_16: Where = Where::Lavapipe { vector_bits: 512, optimized: false };

/// The suites of every kernel against its reference.
pub(crate) const KERNEL_SUITES: &[((&str, &str), Where)] = &[
    (("kiln-conformance", "interpreter"), Where::Host),
    (("kiln-conformance", "vulkan"), LAVAPIPE_8),
    (("kiln-conformance", "vulkan"), LAVAPIPE_4),
    (("kiln-conformance", "vulkan"), LAVAPIPE_16),
];

/// The suites that everything has beside these: products with their elements held in every way, and the GPU where there is
/// one.
pub(crate) const MORE_SUITES: &[((&str, &str), Where)] =
    &[(("kiln-conformance", "products"), Where::Host), (("kiln-conformance", "vulkan"), Where::Gpu)];

/// In the order they run.
pub(crate) const STAGES: &[Stage] = &[
    stage("setup", Group::Setup, Action::Setup),
    stage("fmt", Group::Lints, Action::Cargo(&["fmt", "--all", "--check"], &[])),
    stage("build", Group::Build, Action::Build),
    stage("clippy", Group::Lints, Action::Cargo(CLIPPY, &[])),
    stage("doc", Group::Lints, Action::Cargo(DOC, DOC_ENV)),
    stage("unit", Group::Tests, Action::Test(UNIT, Where::Host)),
    stage("doctest", Group::Tests, Action::DocTests),
    stage("golden", Group::Tests, Action::Test(GOLDEN, Where::Host)),
    stage("fail-closed", Group::Tests, Action::Test(FAIL_CLOSED, Where::Host)),
    stage("interpreter", Group::Interpreter, Action::Test(INTERPRETER, Where::Host)),
    stage("runtime", Group::Lavapipe, Action::Test(RUNTIME, LAVAPIPE_8)),
    stage("conformance-8", Group::Lavapipe, Action::Test(CONFORMANCE, LAVAPIPE_8)),
    stage("conformance-4", Group::Lavapipe, Action::Test(CONFORMANCE, LAVAPIPE_4)),
    stage("conformance-16", Group::Lavapipe, Action::Test(CONFORMANCE, LAVAPIPE_16)),
    stage("models", Group::Models, Action::Test(MODELS, Where::Host)),
    stage("device-models", Group::Models, Action::Test(DEVICE_MODELS, LAVAPIPE)),
];

#[cfg(test)]
mod tests {
    use super::{MODELS, UNIT, picks};

    #[test]
    fn a_target_named_by_one_stage_leaves_its_package_in_the_others() {
        assert!(picks(MODELS, "kiln-engine", "smollm2"));
        assert!(!picks(UNIT, "kiln-engine", "smollm2"));
        assert!(picks(UNIT, "kiln-engine", "kiln_engine"));
        assert!(!picks(MODELS, "kiln-engine", "kiln_engine"));
        assert!(!picks(UNIT, "kiln-new", "kiln_new"));
    }
}
