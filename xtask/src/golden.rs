//! `cargo xtask golden`: accepts the snapshots and shows what that changed, for review.

use std::process::Command;

use crate::process::{Result, run};
use crate::{cargo, setup};

/// Rewrites the snapshots from what the code emits now.
pub(crate) fn accept() -> Result<()> {
    let mut env = setup::test_env()?;
    env.extend([("INSTA_UPDATE", "always".into()), ("KILN_UPDATE_GOLDENS", "1".into())]);
    // The package's other tests judge what is emitted, and take no snapshot.
    let (_, ended) = cargo::test(&["-p", "kiln-golden", "--test", "goldens", "--test", "issue"], &env);
    run(Command::new("git").args(["diff", "--stat", "--", "tests/golden"]))?;
    run(Command::new("git").args(["status", "--short", "--", "tests/golden"]))?;
    ended
}
