//! Names, lengths and opening lines of files.

use crate::Fault;
use crate::repo::Text;
use crate::source::is_fixture;

/// A name must say what is inside; these say that nobody knew.
const NAMELESS: [&str; 6] = ["util", "common", "helper", "base", "misc", "manager"];

/// A Rust file longer than this needs a waiver.
pub const MAX_LINES: usize = 600;
/// ARCHITECTURE.md is read in one sitting.
pub const MAX_ARCHITECTURE_LINES: usize = 200;

/// A file over the budget and why it stays whole.
pub struct Waiver {
    /// The file.
    pub path: &'static str,
    /// The reason, for the reader of this table.
    pub reason: &'static str,
}

/// Long files with a reason.
pub const WAIVERS: &[Waiver] = &[];

/// No part of a path is a word that names nothing.
pub fn names(texts: &[Text]) -> Vec<Fault> {
    let nameless = |part: &str| {
        let part = part.to_lowercase();
        NAMELESS.into_iter().find(|word| part == *word || part == format!("{word}s"))
    };
    let check = |text: &Text| {
        let word = text.path.split(['/', '_', '-', '.']).find_map(nameless)?;
        Some(Fault::new(&text.path, 0, format!("`{word}` names nothing; name the file for what it holds")))
    };
    texts.iter().filter_map(check).collect()
}

/// Files within their budgets; a waiver that is not needed is a fault too.
pub fn lengths(texts: &[Text], waivers: &[Waiver]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for text in texts {
        let lines = text.text.lines().count();
        let waived = waivers.iter().any(|waiver| waiver.path == text.path);
        if text.path.ends_with(".rs") && lines > MAX_LINES && !waived {
            faults.push(Fault::new(
                &text.path,
                lines,
                format!("over {MAX_LINES} lines; split it by purpose"),
            ));
        }
        if waived && lines <= MAX_LINES {
            faults.push(Fault::new(&text.path, 0, "within the budget; drop its waiver"));
        }
        if text.path == "ARCHITECTURE.md" && lines > MAX_ARCHITECTURE_LINES {
            faults.push(Fault::new(&text.path, lines, format!("over {MAX_ARCHITECTURE_LINES} lines")));
        }
    }
    for waiver in waivers {
        if waiver.reason.is_empty() || !texts.iter().any(|text| text.path == waiver.path) {
            faults.push(Fault::new(waiver.path, 0, "a waiver needs a reason and a file"));
        }
    }
    faults
}

/// Every Rust file but fixtures opens by saying what it is for.
pub fn openings(texts: &[Text]) -> Vec<Fault> {
    let check = |text: &Text| {
        let opens = text.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 12);
        (!opens)
            .then(|| Fault::new(&text.path, 1, "opens without a `//!` line that says what the file is for"))
    };
    let rust = texts.iter().filter(|text| text.path.ends_with(".rs") && !is_fixture(&text.path));
    rust.filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, text: impl Into<String>) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn nameless_names_are_found() {
        for bad in ["a/src/util.rs", "a/src/Utils/x.rs", "a/test_helper.rs", "a/base.py"] {
            assert_eq!(names(&[text(bad, "")]).len(), 1, "{bad}");
        }
        assert_eq!(names(&[text("a/src/database.rs", ""), text("a/src/baseline.rs", "")]), []);
    }

    #[test]
    fn long_files_and_idle_waivers_are_found() {
        let long = || "x\n".repeat(MAX_LINES + 1);
        let waiver = || [Waiver { path: "a.rs", reason: "a table" }];
        assert_eq!(lengths(&[text("a.rs", long())], &[]).len(), 1);
        assert_eq!(lengths(&[text("a.rs", long())], &waiver()), []);
        assert_eq!(lengths(&[text("a.rs", "x\n".repeat(MAX_LINES))], &[]), []);
        assert_eq!(lengths(&[text("a.rs", "x\n")], &waiver()).len(), 1);
        assert_eq!(lengths(&[], &waiver()).len(), 1);
        assert_eq!(lengths(&[text("ARCHITECTURE.md", "x\n".repeat(201))], &[]).len(), 1);
        assert_eq!(lengths(&[text("README.md", "x\n".repeat(900))], &[]), []);
    }

    #[test]
    fn silent_openings_are_found() {
        assert_eq!(openings(&[text("a.rs", "//! Reads GGUF headers.\nuse x;\n")]), []);
        for bad in ["use x;\n", "// Reads GGUF headers.\n", "//!\n", "\n//! Reads GGUF headers.\n"] {
            assert_eq!(openings(&[text("a.rs", bad)]).len(), 1, "{bad:?}");
        }
    }
}
