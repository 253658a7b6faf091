//! Running other programs: every command is shown before it runs, and a failure names it.

use std::process::{Command, Stdio};

/// Failures are sentences for a person; nothing in this crate matches on them.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The command as a person would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = command.get_program();
    let name = std::path::Path::new(program).file_name().filter(|name| *name == "cargo").unwrap_or(program);
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn failure(command: &Command, end: impl std::fmt::Display) -> String {
    format!("`{}` failed: {end}", line(command))
}

/// Shows the command, runs it, and fails unless it exits with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command.status().map_err(|e| failure(command, e))?;
    if status.success() { Ok(()) } else { Err(failure(command, status)) }
}

/// The command's stdout; its stderr joins the message when it fails.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| failure(command, e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}\n{}", failure(command, output.status), stderr.trim_end()))
}

/// Whether the command starts and exits with 0; what it prints is dropped.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
