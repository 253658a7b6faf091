//! The GGUF reader: what good files say, and a named refusal for everything that can be wrong with one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damaged;
mod file;
mod reads;
mod refused;
mod split;
mod written;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kiln_engine::gguf::{Gguf, GgufError};
use kiln_kernels::Registry;

/// Made once: thousands of damaged files are read with it.
static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::builtin);

fn read(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
    Gguf::from_bytes(bytes, &REGISTRY)
}

/// The error, which is one line.
#[track_caller]
fn refusal(bytes: Vec<u8>) -> GgufError {
    let error = read(bytes).expect_err("the reader should refuse this file");
    let message = error.to_string();
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
    error
}

/// A folder that goes away with the test.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gguf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
