//! Runs `spirv-val`, the outside judge of every module.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use kiln_spirv_emit::{strip::without_decode_vector, words::DecodeError};
use thiserror::Error;

/// Why a module was not accepted.
#[derive(Debug, Error)]
pub enum SpirvValError {
    /// The tool is not where it was looked for.
    #[error(
        "spirv-val cannot be run as {program:?} ({source}); run `cargo xtask setup`, or set KILN_SPIRV_TOOLS to the \
         directory that holds it"
    )]
    Missing {
        /// The program tried.
        program: OsString,
        /// The system's answer.
        source: io::Error,
    },
    /// The words are no module.
    #[error(transparent)]
    Words(#[from] DecodeError),
    /// The tool started and failed before it gave a verdict.
    #[error("spirv-val stopped early: {0}")]
    Broken(#[from] io::Error),
    /// The module is not valid.
    #[error("spirv-val refuses the module:\n{0}")]
    Refused(String),
}

/// Checks a module against the rules of SPIR-V 1.6 in Vulkan 1.3, without its four-wide decoding functions: the tool
/// does not know them.
///
/// # Errors
/// The validator's message, or that it is not installed: a module that nobody judged does not pass.
pub fn spirv_val(words: &[u32]) -> Result<(), SpirvValError> {
    let program = tool();
    let words = without_decode_vector(words)?;
    let mut child = Command::new(&program)
        .args(["--target-env", "vulkan1.3", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| SpirvValError::Missing { program, source })?;
    if let Some(mut stdin) = child.stdin.take() {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        // A validator that gives up early closes the pipe; its message says more than the broken pipe does.
        let _ = stdin.write_all(&bytes);
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(SpirvValError::Refused(String::from_utf8_lossy(&text).into_owned()))
}

/// `KILN_SPIRV_TOOLS`, else where `cargo xtask setup` installs it, else the search path.
fn tool() -> OsString {
    let name = format!("spirv-val{}", env::consts::EXE_SUFFIX);
    if let Some(dir) = env::var_os("KILN_SPIRV_TOOLS") {
        return PathBuf::from(dir).join(name).into();
    }
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    match cache.map(|c| c.join("kiln/tools/spirv/bin").join(&name)) {
        Some(installed) if installed.exists() => installed.into(),
        _ => name.into(),
    }
}
