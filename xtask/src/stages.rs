//! What CI consists of: one row per stage. A new suite is a new row.

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
    /// Times the kernels crate by itself, then builds everything.
    Build,
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// `cargo test` with these arguments.
    Test(&'static [&'static str], Where),
}

/// Where test binaries run.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    Host,
    /// On the CPU Vulkan driver, with vectors of this many bits: 128, 256, 512 are subgroups of 4, 8, 16.
    Lavapipe {
        vector_bits: u32,
    },
}

impl Where {
    /// Why these tests cannot run, if so.
    pub(crate) fn blocked(self, driver: &Driver) -> Option<&str> {
        match (self, driver) {
            (Where::Lavapipe { .. }, Driver::Missing(why)) => Some(why),
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

pub(crate) const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"];
pub(crate) const DOC: &[&str] = &["doc", "--workspace", "--no-deps"];
pub(crate) const DOC_ENV: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-Dwarnings")];

/// Their tests need the driver, and run under its launcher.
pub(crate) const DEVICE_PACKAGES: [&str; 2] = ["kiln-runtime", "kiln-conformance"];

const fn stage(name: &'static str, group: Group, action: Action) -> Stage {
    Stage { name, group, action }
}

/// In the order they run.
pub(crate) const STAGES: &[Stage] = &[
    stage("setup", Group::Setup, Action::Setup),
    stage("fmt", Group::Lints, Action::Cargo(&["fmt", "--all", "--check"], &[])),
    stage("build", Group::Build, Action::Build),
    stage("clippy", Group::Lints, Action::Cargo(CLIPPY, &[])),
    stage("doc", Group::Lints, Action::Cargo(DOC, DOC_ENV)),
    stage(
        "unit",
        Group::Tests,
        Action::Test(
            &[
                "-p",
                "kiln-abi",
                "-p",
                "kiln-dsl-macros",
                "-p",
                "kiln-dsl",
                "-p",
                "kiln-spirv-emit",
                "-p",
                "kiln-kernels",
                "-p",
                "kiln-engine",
                "-p",
                "kiln-xtask",
                "-p",
                "kiln-tidy",
            ],
            Where::Host,
        ),
    ),
    stage("golden", Group::Tests, Action::Test(&["-p", "kiln-golden"], Where::Host)),
    stage("fail-closed", Group::Tests, Action::Test(&["-p", "kiln-fail-closed"], Where::Host)),
    stage("interpreter", Group::Interpreter, Action::Test(&["-p", "kiln-spirv-interp"], Where::Host)),
    stage(
        "runtime",
        Group::Lavapipe,
        Action::Test(&["-p", "kiln-runtime"], Where::Lavapipe { vector_bits: 256 }),
    ),
    stage(
        "conformance-8",
        Group::Lavapipe,
        Action::Test(&["-p", "kiln-conformance"], Where::Lavapipe { vector_bits: 256 }),
    ),
    stage(
        "conformance-4",
        Group::Lavapipe,
        Action::Test(&["-p", "kiln-conformance"], Where::Lavapipe { vector_bits: 128 }),
    ),
    stage(
        "conformance-16",
        Group::Lavapipe,
        Action::Test(&["-p", "kiln-conformance"], Where::Lavapipe { vector_bits: 512 }),
    ),
];
