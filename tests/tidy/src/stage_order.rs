//! Data moves one way through the engine: a stage imports earlier stages only.

use crate::Fault;
use crate::source::{Source, Visitor, walk};

/// The engine's top modules, earliest first. A module may import from its own row and from rows above it.
pub const ORDER: &[&[&str]] = &[
    &["size"],
    &["gguf"],
    &["tokenizer"],
    &["chat"],
    &["graph"],
    &["models"],
    &["sample"],
    &["forward"],
    &["reference"],
    &["plan"],
    &["upload"],
    &["record"],
    &["submit"],
    &["session"],
    &["bench"],
    &["cli"],
];

/// Every import of `engine/src` points up the table, and every top module is in it.
pub fn check(sources: &[Source], order: &[&[&str]]) -> Vec<Fault> {
    let rank = |module: &str| order.iter().position(|row| row.contains(&module));
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let Some(module) = module_path(&source.path) else { continue };
        let Some(own) = module.first() else { continue };
        let Some(own_rank) = rank(own) else {
            faults.push(Fault::new(&source.path, 0, format!("stage `{own}` is not in the order of stages")));
            continue;
        };
        let mut imports = Imports { module: &module, found: Vec::new() };
        walk(source, &mut imports);
        for (stage, line) in imports.found {
            let later = rank(&stage).is_some_and(|rank| rank > own_rank);
            let beside = rank(&stage) == Some(own_rank) && stage != *own;
            if later || beside {
                let what = format!("`{own}` imports `{stage}`, which does not come before it");
                faults.push(Fault::new(&source.path, line, what));
            }
        }
    }
    faults
}

/// `engine/src/gguf/header.rs` → [gguf, header]; nothing for the crate's roots and binaries.
fn module_path(path: &str) -> Option<Vec<String>> {
    let rel = path.strip_prefix("engine/src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<String> = rel.split('/').map(str::to_string).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    (!matches!(parts[0].as_str(), "lib" | "main" | "bin")).then_some(parts)
}

struct Imports<'a> {
    module: &'a [String],
    found: Vec<(String, usize)>,
}

impl Visitor for Imports<'_> {
    fn path(&mut self, segments: &[String], depth: usize, line: usize) {
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        let stage = match segments[0].as_str() {
            "crate" => segments.get(1),
            // Out of the inline modules and of this file's own path, up to the crate's root.
            "super" if supers == depth + self.module.len() => segments.get(supers),
            _ => None,
        };
        self.found.extend(stage.filter(|stage| *stage != "*").map(|stage| (stage.clone(), line)));
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::planted;

    fn count(path: &str, text: &str) -> usize {
        check(&planted(path, text), &[&["gguf"], &["models", "sampler"], &["cli"]]).len()
    }

    #[test]
    fn an_import_of_a_later_stage_is_found() {
        assert_eq!(count("engine/src/gguf/mod.rs", "use crate::models::Llama;"), 1);
        assert_eq!(count("engine/src/gguf/header.rs", "fn f() { crate::cli::run(); }"), 1);
        assert_eq!(count("engine/src/gguf/header.rs", "use super::super::cli::run;"), 1);
        assert_eq!(count("engine/src/gguf.rs", "mod m { use super::super::cli::run; }"), 1);
        assert_eq!(
            count("engine/src/models/llama.rs", "use crate::sampler::X;"),
            1,
            "stages of one row are apart"
        );
        assert_eq!(count("engine/src/gguf.rs", "fn f() { g!(crate::cli::run()) }"), 1);
        assert_eq!(count("engine/src/novel.rs", ""), 1, "a stage outside the table");
    }

    #[test]
    fn imports_of_earlier_stages_pass() {
        assert_eq!(
            count(
                "engine/src/models/llama.rs",
                "use crate::gguf::File; use super::Graph; use crate::models::X;"
            ),
            0
        );
        assert_eq!(count("engine/src/cli/run.rs", "use crate::{gguf::File, sampler::Sampler};"), 0);
        assert_eq!(count("engine/src/lib.rs", "use crate::cli::run;"), 0);
    }
}
