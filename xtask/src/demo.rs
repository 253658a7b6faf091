//! `cargo xtask demo`: from nothing to an answer.

use crate::process::Result;
use crate::setup::{self, Artefact, MODEL};
use crate::{cache, cargo};

const PROMPT: &str = "Name the capital of France.";

/// Fetches the model, builds kiln, and asks. The exit status is kiln's.
pub(crate) fn demo() -> Result<()> {
    setup::setup(&[Artefact::Model])?;
    let model = cache::root()?.join(MODEL);
    let model = model.to_str().ok_or("the cache's path is not UTF-8; set KILN_CACHE to one that is")?;
    cargo::run(&["build", "--release", "-p", "kiln-engine", "--bin", "kiln"], &[])?;
    eprintln!("\nThe f32 reference answers on the CPU: every number is plain Rust, no GPU is involved.");
    let kiln = ["run", "--release", "--quiet", "-p", "kiln-engine", "--bin", "kiln", "--"];
    let ask = ["run", model, "-p", PROMPT, "--temp", "0", "--device", "reference"];
    cargo::run(&[&kiln[..], &ask[..]].concat(), &[])
}
