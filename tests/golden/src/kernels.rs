//! The registered kernels, and which of them people review as text.

use kiln_abi::{StageErrors, StagedKernel};
use kiln_kernels::{Registry, Variant};

/// Every registered variant, staged.
///
/// # Errors
/// The first variant that cannot be staged.
pub fn stage_all() -> Result<Vec<StagedKernel>, StageErrors> {
    Registry::builtin().variants().map(Variant::stage).collect()
}

/// Names of the variants whose text is kept: each role once, each arm once, and the matrix-vector product of each
/// format; the manifest has a hash of every other.
pub fn readable() -> Vec<String> {
    let (mut roles, mut arms, mut formats) = (Vec::new(), Vec::new(), Vec::new());
    let registry = Registry::builtin();
    let star = registry.variants().filter(|v| {
        let role = first(&mut roles, v.role);
        let arm = v.arm.is_some_and(|arm| first(&mut arms, arm));
        let format = v.role == "gemv" && v.format.is_some_and(|format| first(&mut formats, format));
        role || arm || format
    });
    star.map(|v| v.name.clone()).collect()
}

/// Whether `name` is new to the list, to which it is added.
fn first(seen: &mut Vec<&'static str>, name: &'static str) -> bool {
    let new = !seen.contains(&name);
    if new {
        seen.push(name);
    }
    new
}

/// A variant's name as a file's: runs of other characters than letters and digits become one `_`.
pub fn file_name(variant: &str) -> String {
    let parts = variant.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}
