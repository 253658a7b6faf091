//! Files that `cargo xtask setup` fetches. Their absence is a failure, never a skip.

use std::path::PathBuf;

/// The path that `variable` names, or else `place` in the cache.
pub fn path(variable: &str, place: &str) -> PathBuf {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || {
        var("KILN_CACHE")
            .or_else(|| Some(var("XDG_CACHE_HOME")?.join("kiln")))
            .or_else(|| Some(var("HOME")?.join(".cache/kiln")))
    };
    let path = var(variable).or_else(|| Some(cache()?.join(place))).expect("HOME is set");
    assert!(path.exists(), "{} is missing: run `cargo xtask setup`", path.display());
    path
}

/// SmolLM2-135M-Instruct, Q4_1.
#[allow(dead_code, reason = "not every test binary runs a model")]
pub fn model() -> PathBuf {
    path("KILN_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf")
}
