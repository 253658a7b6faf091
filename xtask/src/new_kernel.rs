//! `cargo xtask new-kernel NAME`: a kernel that runs, its reference, and their rows.

use std::fs;
use std::path::Path;

use crate::cargo;
use crate::names;
use crate::process::Result;

const KERNELS: &str = "kernels/src";

/// Writes the files and the rows; the suite runs the kernel from then on.
pub(crate) fn new_kernel(name: &str) -> Result<()> {
    check_name(name)?;
    let folder = names::root()?.join(KERNELS);
    check_taken(&folder, name)?;
    let new = [(format!("{name}.rs"), KERNEL), (format!("reference/{name}.rs"), REFERENCE)];
    let mut edits = Vec::new();
    for (file, edit) in ROWS {
        let path = folder.join(file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let edited = edit(&text, name).ok_or_else(|| format!("{KERNELS}/{file} has no place for a row"))?;
        edits.push((path, edited));
    }
    // Nothing is written before everything is known to fit.
    edits.extend(new.iter().map(|(file, template)| (folder.join(file), named(template, name))));
    for (path, text) in edits {
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    cargo::run(&["fmt", "-p", "kiln-kernels"], &[])?;
    println!(
        "wrote {KERNELS}/{name}.rs and {KERNELS}/reference/{name}.rs, which compute y = 2x\n\
         next: change both, then `cargo xtask conformance {name}` and `cargo xtask golden`; \
         docs/kernels.md has the way"
    );
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !starts || !plain {
        return Err(format!("expected a name such as `row_norm`, in lower case; found {name:?}"));
    }
    names::check_module(name)
}

/// Whether the modules, the function, its reference and its types are free.
fn check_taken(folder: &Path, name: &str) -> Result<()> {
    names::check_free(folder, KERNELS, name)?;
    names::check_free(&folder.join("reference"), &format!("{KERNELS}/reference"), name)?;
    let references = folder.join("reference/mod.rs");
    let text = fs::read_to_string(&references).map_err(|e| format!("{}: {e}", references.display()))?;
    names::check_unused(name, &text, "kernels/src/reference/mod.rs")?;
    for template in [KERNEL, REFERENCE] {
        names::check_unused(name, template, "a kernel's file")?;
        names::check_unused(&type_name(name), template, "a kernel's file")?;
    }
    Ok(())
}

/// The template under another name: `row_norm` is a function, `RowNorm` its type.
fn named(template: &str, name: &str) -> String {
    template.replace("Twice", &type_name(name)).replace("twice", name)
}

fn type_name(name: &str) -> String {
    let mut camel = String::new();
    for word in name.split('_') {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        camel.extend(chars);
    }
    camel
}

type Edit = fn(&str, &str) -> Option<String>;

/// Files that get a row, and how.
const ROWS: [(&str, Edit); 3] =
    [("lib.rs", module), ("reference/mod.rs", reference), ("registry.rs", variants)];

/// `line` among the lines that start with `start`, in order.
fn among(text: &str, start: &str, line: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let alike = |l: &&str| l.starts_with(start);
    let after = lines.iter().rposition(|l| alike(l) && *l < line);
    let at = after.map(|at| at + 1).or_else(|| lines.iter().position(alike))?;
    lines.insert(at, line);
    Some(lines.join("\n") + "\n")
}

fn module(text: &str, name: &str) -> Option<String> {
    among(text, "pub mod ", &format!("pub mod {name};"))
}

fn reference(text: &str, name: &str) -> Option<String> {
    let text = among(text, "mod ", &format!("mod {name};"))?;
    among(&text, "pub use ", &format!("pub use {name}::{name};"))
}

/// The last of the kernels that no format multiplies.
fn variants(text: &str, name: &str) -> Option<String> {
    let (rows, rest) = text.split_once("        ]\n        .concat();")?;
    Some(format!("{rows}            crate::{name}::variants(),\n        ]\n        .concat();{rest}"))
}

const KERNEL: &str = r#"//! `y[i] = 2 · x[i]`
//!
//! Shapes: x, y `[n]` f32. One invocation owns one element. Traffic: 8 bytes per output, memory-bound.
//! Numerics: exact.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Random, f32_bytes},
    reference,
};

/// Push constants of `twice`.
#[derive(Clone, Copy, Debug, Push)]
pub struct TwicePush {
    /// Elements.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.n.div_ceil(LOCAL_SIZE))]
pub fn twice(#[len(p.n)] x: &Buf<f32>, #[len(p.n)] y: &BufMut<f32>, #[push] p: TwicePush) {
    let i = global_id_x();
    if i < p.n {
        y[i] = 2.0 * x[i];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    let sizes = [1, 63, 64, 65, 1000];
    vec![Variant::new("twice", Twice::new(), move || sizes.map(case).into())]
}

fn case(n: u32) -> Case {
    let x = Random::new(n.into()).units(n as usize);
    Case {
        name: format!("n = {n}"),
        buffers: vec![Buffer::Input(f32_bytes(&x)), Buffer::Output(4 * n as usize)],
        expected: vec![reference::twice(&x).at(1)],
        bind: Box::new(move |r| {
            let (x, y) = (r[0].into(), r[1].into());
            Twice::new().bind(&TwiceArgs { x, y, p: TwicePush { n } })
        }),
    }
}
"#;

const REFERENCE: &str = r#"//! y = 2x.

use super::Bounded;

/// Twice each of `x`, exactly.
pub fn twice(x: &[f32]) -> Bounded {
    let values: Vec<f64> = x.iter().map(|x| 2.0 * f64::from(*x)).collect();
    let bounds = vec![0.0; values.len()];
    Bounded { values, bounds }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_place_for_a_row() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(KERNELS);
        for (file, edit) in ROWS {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let edited = edit(&text, "row_norm").unwrap();
            let count = edited.lines().count() - text.lines().count();
            assert_eq!(count, edited.lines().filter(|l| l.contains("row_norm")).count(), "{file}");
            assert!((1..=2).contains(&count), "{file}");
        }
    }

    #[test]
    fn rows_stand_in_order() {
        assert_eq!(
            module("//! A.\n\npub mod a;\npub mod c;\n", "b").unwrap(),
            "//! A.\n\npub mod a;\npub mod b;\npub mod c;\n"
        );
        assert_eq!(module("//! A.\n", "b"), None);
        assert_eq!(variants("nothing", "b"), None);
    }

    #[test]
    fn a_name_is_a_function_and_a_type() {
        assert_eq!(named("Twice::twice", "row_norm_2"), "RowNorm2::row_norm_2");
        for bad in ["", "Norm", "2d", "row-norm", "../x", "fn"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("row_norm").is_ok());
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(KERNELS);
        for keyword in ["self", "type", "struct", "where", "yield", "core"] {
            assert!(check_name(keyword).is_err(), "{keyword}");
        }
        // Files, folders, a function of the references, a function and types of the file itself.
        for taken in ["rope", "reference", "gemm", "lib", "kv", "gated", "case", "variant", "buffer", "vec"] {
            assert!(check_taken(&folder, taken).is_err(), "{taken}");
        }
        assert_eq!(check_taken(&folder, "row_norm"), Ok(()));
    }
}
