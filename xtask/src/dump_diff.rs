//! `cargo xtask dump-diff REV [NAME]`: what the kernels' words are now against what they were at a revision.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::process::{Result, capture, run};

/// The program that writes words; an older revision is given it too.
const DUMP: &str = "tests/golden/examples/dump.rs";

/// Stages every kernel here and at `rev`, and prints what changed; in full where `name` is part of a kernel's.
pub(crate) fn dump_diff(rev: &str, name: Option<&str>) -> Result<()> {
    let root = capture(Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
    let root = Path::new(root.trim());
    let commit = format!("{rev}^{{commit}}");
    let commit = capture(Command::new("git").args(["rev-parse", "--verify", "--short=12", &commit]))?;
    let commit = commit.trim();
    let folder = root.join("target").join("dump-diff");
    let (tree, old, new) = (folder.join("tree"), folder.join(commit), folder.join("now"));
    dump(root, None, &new)?;
    if !old.join("index.txt").exists() {
        check_out(root, commit, &tree)?;
        let dumped = fs::create_dir_all(tree.join("tests/golden/examples"))
            .and_then(|()| fs::copy(root.join(DUMP), tree.join(DUMP)))
            .map_err(|e| format!("{DUMP}: {e}"))
            .and_then(|_| dump(&tree, Some(&folder.join("build")), &old));
        remove(root, &tree)?;
        dumped?;
    }
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let mut args = vec!["run", "--quiet", "-p", "kiln-golden", "--example", "dump_diff", "--", &old, &new];
    args.extend(name);
    cargo::run_in(root, None, &args)
}

/// The words of every kernel of the sources at `root`.
fn dump(root: &Path, target: Option<&Path>, into: &Path) -> Result<()> {
    if into.exists() {
        fs::remove_dir_all(into).map_err(|e| format!("{}: {e}", into.display()))?;
    }
    let into = into.display().to_string();
    cargo::run_in(root, target, &["run", "--quiet", "-p", "kiln-golden", "--example", "dump", "--", &into])
}

fn check_out(root: &Path, commit: &str, tree: &Path) -> Result<()> {
    remove(root, tree)?;
    let mut add = Command::new("git");
    add.current_dir(root).args(["worktree", "add", "--force", "--detach"]).arg(tree).arg(commit);
    run(&mut add)
}

fn remove(root: &Path, tree: &Path) -> Result<()> {
    if !tree.exists() {
        return Ok(());
    }
    run(Command::new("git").current_dir(root).args(["worktree", "remove", "--force"]).arg(tree))
}
