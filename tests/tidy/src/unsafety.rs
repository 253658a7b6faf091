//! Unsafe code lives in two places, and every other crate forbids it.

use crate::Fault;
use crate::source::Source;

/// Crates that may hold unsafe code. The engine's is its one memory-mapping file; it denies the rest by itself.
pub const UNSAFE: [&str; 2] = ["runtime", "engine"];

/// Every crate root but those two opens with `#![forbid(unsafe_code)]`; the engine's denies it.
pub fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        let Some(folder) = crate_of_root(&source.path) else { continue };
        let wanted: &[&str] = match folder {
            "runtime" => continue,
            "engine" => &["deny", "forbid"],
            _ => &["forbid"],
        };
        if !source.syntax.attrs.iter().any(|attr| says(attr, wanted)) {
            faults.push(Fault::new(&source.path, 1, format!("lacks #![{}(unsafe_code)]", wanted[0])));
        }
    }
    faults
}

/// The crate's folder, for a library or binary root.
fn crate_of_root(path: &str) -> Option<&str> {
    path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs"))
}

fn says(attr: &syn::Attribute, levels: &[&str]) -> bool {
    let syn::Meta::List(list) = &attr.meta else { return false };
    levels.iter().any(|level| list.path.is_ident(level))
        && list.tokens.to_string().split(',').any(|lint| lint.trim() == "unsafe_code")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::planted;

    #[test]
    fn a_root_that_allows_unsafe_code_is_found() {
        let count = |path: &str, text: &str| check(&planted(path, text)).len();
        assert_eq!(count("abi/src/lib.rs", "//! x"), 1);
        assert_eq!(count("abi/src/lib.rs", "#![deny(unsafe_code)]"), 1);
        assert_eq!(count("abi/src/lib.rs", "#![forbid(missing_docs)]"), 1);
        assert_eq!(count("abi/src/lib.rs", "#![forbid(unsafe_code)]"), 0);
        assert_eq!(count("engine/src/lib.rs", "//! x"), 1);
        assert_eq!(count("engine/src/lib.rs", "#![deny(unsafe_code)]"), 0);
        assert_eq!(count("runtime/src/lib.rs", "//! x"), 0);
        assert_eq!(count("abi/src/dtype.rs", "//! x"), 0);
    }
}
