//! The registered kernels, and which of them people review as text.

use std::{
    collections::BTreeSet,
    iter,
    panic::resume_unwind,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use kiln_abi::{StageErrors, StagedKernel};
use kiln_kernels::{Registry, Variant};

/// Every registered variant, staged once in a process, on all its processors.
///
/// # Errors
/// The first variant that cannot be staged.
pub fn stage_all() -> Result<Vec<StagedKernel>, StageErrors> {
    static STAGED: OnceLock<Result<Vec<StagedKernel>, StageErrors>> = OnceLock::new();
    STAGED.get_or_init(|| stage(&Registry::builtin().variants().collect::<Vec<_>>())).clone()
}

/// These variants, staged side by side.
///
/// # Errors
/// The first variant that cannot be staged.
pub fn stage(variants: &[&Variant]) -> Result<Vec<StagedKernel>, StageErrors> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let worker = || {
        let mine = || variants.get(next.fetch_add(1, Ordering::Relaxed)).map(|v| v.stage());
        iter::from_fn(mine).collect::<Result<Vec<_>, _>>()
    };
    let parts: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|w| w.join().unwrap_or_else(|e| resume_unwind(e))).collect()
    });
    let mut all: Vec<StagedKernel> = Vec::with_capacity(variants.len());
    for part in parts {
        all.extend(part?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Names of the variants whose text is kept: each role once, each arm once, and of each packed format the product that
/// has the fewest words on the arm of packed integers; the manifest has a hash of every other.
pub fn readable(staged: &[StagedKernel]) -> Vec<String> {
    let registry = Registry::builtin();
    let words = |v: &Variant| staged.iter().find(|k| k.name == v.name).map_or(usize::MAX, |k| k.words.len());
    let (mut roles, mut arms) = (BTreeSet::new(), BTreeSet::new());
    let ones = registry.variants().filter(|v| {
        let role = roles.insert(v.role);
        let arm = v.arm.is_some_and(|arm| arms.insert(arm));
        role || arm
    });
    let products = registry.formats().filter_map(|row| {
        let packed = row.variants.iter().filter(|v| v.role == "gemv" && v.arm == Some(PACKED));
        packed.min_by_key(|v| words(v))
    });
    ones.chain(products).map(|v| v.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The arm on which a format's lanes, scales and offsets can all be read.
const PACKED: &str = "dot4";

/// A variant's name as a file's: runs of other characters than letters and digits become one `_`.
pub fn file_name(variant: &str) -> String {
    let parts = variant.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}
