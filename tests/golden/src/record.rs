//! Recorded lists of lines: one file, compared line by line, rewritten on request.

use std::{collections::BTreeSet, env, fs, io, path::Path};

use kiln_abi::StagedKernel;
use kiln_spirv_emit::disasm::hash;
use thiserror::Error;

/// Why a list is not as recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Lines differ.
    #[error(
        "{path} is not what the kernels give now; review the change, then set KILN_UPDATE_GOLDENS=1\n{}{}",
        .gone.iter().map(|l| format!("- {l}\n")).collect::<String>(),
        .new.iter().map(|l| format!("+ {l}\n")).collect::<String>()
    )]
    Differs {
        /// The file.
        path: String,
        /// Recorded lines that are not there now.
        gone: Vec<String>,
        /// Lines that are not recorded.
        new: Vec<String>,
    },
}

/// One line per kernel: name, number of words, hash of the words.
pub fn manifest(kernels: &[StagedKernel]) -> Vec<String> {
    kernels.iter().map(|k| format!("{} {} {:016x}", k.name, k.words.len(), hash(&k.words))).collect()
}

/// Compares lines with the recorded ones, as sets; with `KILN_UPDATE_GOLDENS` set, records them instead.
///
/// # Errors
/// The lines that differ, or a file that cannot be read.
pub fn check_lines(path: &Path, lines: impl IntoIterator<Item = String>) -> Result<(), RecordError> {
    let now: BTreeSet<String> = lines.into_iter().collect();
    let io = |source| RecordError::Io { path: path.display().to_string(), source };
    if env::var_os("KILN_UPDATE_GOLDENS").is_some() {
        let text: String = now.iter().map(|l| format!("{l}\n")).collect();
        return fs::write(path, text).map_err(io);
    }
    let recorded = fs::read_to_string(path).map_err(io)?;
    compare(&path.display().to_string(), &recorded, &now)
}

/// Compares lines with a recorded text, as sets.
///
/// # Errors
/// The lines that differ.
pub fn compare(path: &str, recorded: &str, now: &BTreeSet<String>) -> Result<(), RecordError> {
    let recorded: BTreeSet<String> = recorded.lines().map(str::to_owned).collect();
    let lines = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    let (gone, new) = (lines(&recorded, now), lines(now, &recorded));
    if gone.is_empty() && new.is_empty() {
        return Ok(());
    }
    Err(RecordError::Differs { path: path.to_owned(), gone, new })
}
