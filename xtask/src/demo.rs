//! `cargo xtask demo`: from nothing to an answer.

use crate::process::Result;
use crate::setup::{self, Artefact, Driver, MODEL};
use crate::{cache, cargo};

const PROMPT: &str = "Name the capital of France.";
/// Starts a built program through another one.
const RUNNER: &str = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";

/// Fetches model and driver, builds kiln, and asks. The exit status is kiln's.
pub(crate) fn demo() -> Result<()> {
    setup::setup(&[Artefact::Model, Artefact::Driver])?;
    let model = cache::root()?.join(MODEL);
    let model = model.to_str().ok_or("the cache's path is not UTF-8; set KILN_CACHE to one that is")?;
    cargo::run(&["build", "--release", "-p", "kiln-engine", "--bin", "kiln"], &[])?;
    let kiln = |args: &[&'static str]| {
        [&["run", "--release", "--quiet", "-p", "kiln-engine", "--bin", "kiln", "--"], args].concat()
    };
    let mut ask = kiln(&["run", "-p", PROMPT, "--temp", "0", "--ctx", "1024"]);
    ask.push(model);

    if cargo::capture(&kiln(&["devices"])).is_ok() {
        eprintln!("\nThis machine's own Vulkan device answers.");
        return cargo::run(&ask, &[]);
    }
    match setup::find_driver()? {
        Driver::Prefix(dir) => {
            eprintln!("\nNo Vulkan device here: Mesa's driver for CPUs answers, slowly.");
            let runner = dir.join("run");
            let runner =
                runner.to_str().ok_or("the cache's path is not UTF-8; set KILN_CACHE to one that is")?;
            cargo::run(&ask, &[(RUNNER, runner)])
        }
        Driver::System(_) | Driver::Missing(_) => cargo::run(&ask, &[]),
    }
}
