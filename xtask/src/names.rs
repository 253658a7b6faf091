//! Names of what `new-format` and `new-kernel` write: what Rust or the crate has already is refused before anything is written.

use std::path::{Path, PathBuf};

use crate::process::{Result, capture};

/// Words of Rust that are no name of a module or a function, those kept for later among them.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final \
    fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait \
    true try type typeof union unsafe unsized use virtual where while yield";
/// Crates that a path may begin with, and the file that would be a program.
const CRATES: [&str; 4] = ["alloc", "core", "main", "std"];

/// The repository's root, from any folder of it.
pub(crate) fn root() -> Result<PathBuf> {
    let root = capture(std::process::Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
    Ok(PathBuf::from(root.trim()))
}

/// Refuses what cannot be a module.
pub(crate) fn check_module(name: &str) -> Result<()> {
    if KEYWORDS.split_whitespace().chain(CRATES).any(|word| word == name) {
        return Err(format!("expected a name that Rust has no other use for; found {name:?}"));
    }
    Ok(())
}

/// Refuses a module that a folder has as a file or a folder.
pub(crate) fn check_free(folder: &Path, shown: &str, name: &str) -> Result<()> {
    for taken in [format!("{name}.rs"), name.to_owned()] {
        if folder.join(&taken).exists() {
            return Err(format!("expected a name that is free; {shown}/{taken} is there already"));
        }
    }
    Ok(())
}

/// Refuses a word that a text has already, where it would mean two things.
pub(crate) fn check_unused(word: &str, text: &str, shown: &str) -> Result<()> {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    if words.any(|used| used == word) {
        return Err(format!("expected a name that is free; {shown} has another `{word}`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rust_and_the_crate_have_is_refused() {
        for taken in ["self", "type", "struct", "where", "try", "gen", "core", "main"] {
            assert!(check_module(taken).is_err(), "{taken}");
        }
        for free in ["q6_0", "selfish", "row_norm"] {
            check_module(free).unwrap();
        }
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/src/formats");
        for taken in ["grids", "layout", "q4_0"] {
            let said = check_free(&formats, "formats", taken).unwrap_err();
            assert!(said.contains(&format!("formats/{taken}")), "{said}");
        }
        check_free(&formats, "formats", "q6_0").unwrap();
        assert!(check_unused("Unit", "fn f(u: &Unit)", "x").is_err());
        check_unused("Uni", "fn f(u: &Unit, uni: u32)", "x").unwrap();
    }
}
