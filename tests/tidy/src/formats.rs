//! Quantization formats are named by their files and the registry, nowhere else.

use crate::Fault;
use crate::source::{Source, Visitor, walk};

/// Where code may name a format.
pub const HOMES: &[&str] = &[
    "kernels/src/formats/",
    "kernels/src/registry.rs",
    // The types of a KV cache, of which one is stored as a format's blocks are.
    "kernels/src/kv_type.rs",
    "kernels/src/attention/",
    "kernels/src/reference/kv.rs",
    // A study with kernels of its own: how the blocks of two formats could lie on a device.
    "engine/examples/layouts.rs",
    "tests/",
    "xtask/",
];

/// No identifier or string names a format outside its places.
pub fn check(sources: &[Source], homes: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !homes.iter().any(|home| source.path.starts_with(home))) {
        walk(source, &mut Names { path: &source.path, faults: &mut faults });
    }
    faults
}

struct Names<'a> {
    path: &'a str,
    faults: &'a mut Vec<Fault>,
}

impl Visitor for Names<'_> {
    fn ident(&mut self, name: &str, line: usize) {
        self.text(name, line);
    }
    fn string(&mut self, value: &str, line: usize) {
        self.text(value, line);
    }
}

impl Names<'_> {
    fn text(&mut self, text: &str, line: usize) {
        if let Some(name) = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find_map(format_in) {
            let what = format!("names the format {name}; ask the registry instead");
            self.faults.push(Fault::new(self.path, line, what));
        }
    }
}

/// The first format that a word names, whole or between underscores: `Q8_0`, `block_q4_1`, `Q4K`, `IQ2_XXS`, `MXFP4`.
fn format_in(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let parts: Vec<&str> = word.split('_').collect();
    parts.iter().enumerate().find_map(|(i, part)| {
        if matches!(*part, "mxfp4" | "nvfp4") || is_joined(part) {
            return Some(part.to_string());
        }
        let suffix = parts.get(i + 1)?;
        (is_head(part) && is_suffix(suffix)).then(|| format!("{part}_{suffix}"))
    })
}

/// `q4`, `iq2`, `tq1`: the family and the bits.
fn is_head(part: &str) -> bool {
    let bits = part.trim_start_matches(['i', 't']).strip_prefix('q');
    bits.is_some_and(|bits| !bits.is_empty() && bits.chars().all(|c| c.is_ascii_digit()))
}

fn is_suffix(part: &str) -> bool {
    matches!(part, "0" | "1" | "k" | "xxs" | "xs" | "s" | "m" | "nl")
}

/// `q4k`, as a type spells it.
fn is_joined(part: &str) -> bool {
    part.strip_suffix('k').is_some_and(is_head)
}

#[cfg(test)]
mod tests {
    use super::{HOMES, check};
    use crate::source::planted;

    #[test]
    fn a_format_named_in_code_is_found() {
        for bad in [
            "fn f() { g(\"Q8_0\") }",
            "struct Q4K;",
            "fn dequantize_q4_1() {}",
            "fn f() { g!(Kind::Q6_K) }",
            "const A: &str = \"type iq2_xxs here\";",
            "enum E { Mxfp4 }",
        ] {
            assert_eq!(check(&planted("engine/src/a.rs", bad), HOMES).len(), 1, "{bad}");
            assert_eq!(check(&planted("kernels/src/formats/x.rs", bad), HOMES), [], "{bad}");
        }
    }

    #[test]
    fn names_that_only_look_alike_pass() {
        for good in [
            "fn f(q: u32, q4: u32, qs: u32, k_q8: u32) {}",
            "/// Like Q8_0.\nfn attn_q() {}",
            "fn seq_0(q_norm: u32, bf16: u32) {}",
            "#[cfg(test)]\nmod tests { fn f() { g(\"Q8_0\") } }",
        ] {
            assert_eq!(check(&planted("engine/src/a.rs", good), HOMES), [], "{good}");
        }
    }
}
