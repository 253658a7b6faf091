//! Reads the repository: its tracked files and cargo's view of its crates.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tracked file as text.
#[derive(Clone)]
pub struct Text {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The repository's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every tracked file that is text and still there.
///
/// # Errors
/// When git cannot list the files.
pub fn tracked() -> Result<Vec<Text>, String> {
    let listed = stdout(Command::new("git").args(["ls-files", "-z"]).current_dir(root()))?;
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(Text { path: path.to_string(), text })
    };
    Ok(listed.split('\0').filter(|path| !path.is_empty()).filter_map(read).collect())
}

/// `cargo metadata` of the workspace without its dependencies.
///
/// # Errors
/// When cargo fails or prints something else.
pub fn metadata() -> Result<serde_json::Value, String> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(root());
    serde_json::from_str(&stdout(&mut cargo)?).map_err(|e| e.to_string())
}

/// `cargo tree` of a crate of the folder `inside` that was copied elsewhere and of which only the paths in its manifest
/// were edited.
///
/// # Errors
/// When it cannot be copied, or cargo says what else it lacks.
pub fn tree_of_copy(inside: &str) -> Result<String, String> {
    let to =
        std::env::temp_dir().join(format!("kiln-copy-{}-{}", std::process::id(), inside.replace('/', "-")));
    let root = root().canonicalize().map_err(|e| e.to_string())?;
    let copied = tracked()?.into_iter().filter_map(|text| {
        let path = text.path.strip_prefix(inside)?.strip_prefix('/')?.to_string();
        let text = match path.as_str() {
            "Cargo.toml" => text.text.replace("\"../..", &format!("\"{}", root.display())),
            _ => text.text,
        };
        Some(Text { path, text })
    });
    let write = |Text { path, text }: Text| {
        let path = to.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, text)
    };
    let tree = || {
        copied.into_iter().try_for_each(write).map_err(|e| e.to_string())?;
        std::fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).map_err(|e| e.to_string())?;
        stdout(cargo().args(["tree", "--offline", "--depth=1"]).current_dir(&to))
    };
    let tree = tree();
    std::fs::remove_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
    tree
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn stdout(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}
