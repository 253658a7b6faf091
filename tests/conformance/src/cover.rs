//! Which variants run at which subgroup size: all of them, or so many that every pair of their traits has met.

use std::collections::HashSet;

use kiln_kernels::{Registry, Variant, conformance::Random};

/// What a run is asked for by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every variant at every size, with the cases that take long.
    All,
    /// A cover, chosen by this text.
    Cover(String),
}

impl Extent {
    /// `KILN_LONG` asks for everything; `KILN_SEED` chooses a cover and the schedules, the commit's hash in CI.
    pub fn of_environment() -> Self {
        match std::env::var_os("KILN_LONG") {
            Some(_) => Extent::All,
            None => Extent::Cover(std::env::var("KILN_SEED").unwrap_or_default()),
        }
    }

    /// What the interpreter's schedules are drawn from.
    pub fn schedule(&self) -> u64 {
        match self {
            Extent::All => 0,
            Extent::Cover(seed) => hash(seed),
        }
    }

    /// The names of the variants that run at each of the sizes.
    pub fn names(&self, registry: &Registry, sizes: &[u32]) -> Vec<HashSet<String>> {
        let variants: Vec<&Variant> = registry.variants().collect();
        let chosen = match self {
            Extent::All => return vec![variants.iter().map(|v| v.name.clone()).collect(); sizes.len()],
            Extent::Cover(seed) => cover(&variants, sizes, hash(seed)),
        };
        let mut names = vec![HashSet::new(); sizes.len()];
        chosen.into_iter().for_each(|(v, size)| _ = names[size].insert(variants[v].name.clone()));
        names
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Extent::All => write!(f, "everything"),
            Extent::Cover(seed) => write!(f, "the cover of KILN_SEED={seed:?}"),
        }
    }
}

/// A number of a text (FNV-1a).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

type Pair = ((usize, String), (usize, String));

/// Variants with the index of a size, so that every pair of a kernel, format, arm, cut and size that a variant has is
/// in one of them. Greedy, in an order of the seed; a variant that asks for a size runs at that one alone.
fn cover(variants: &[&Variant], sizes: &[u32], seed: u64) -> Vec<(usize, usize)> {
    let mut candidates: Vec<(usize, usize)> = (0..variants.len())
        .flat_map(|v| {
            let asked = variants[v].stage().ok().and_then(|k| k.layout.subgroup_size);
            let runs = move |i: &usize| asked.is_none_or(|asked| asked == sizes[*i]);
            (0..sizes.len()).filter(runs).map(move |i| (v, i))
        })
        .collect();
    let mut random = Random::new(seed);
    for i in (1..candidates.len()).rev() {
        candidates.swap(i, random.below(i as u32 + 1) as usize);
    }
    let (mut met, mut chosen) = (HashSet::new(), Vec::new());
    let most = candidates.first().map_or(0, |&c| pairs(variants, c).len()).max(32);
    for gain in (1..=most).rev() {
        candidates.retain(|&candidate| {
            let new = pairs(variants, candidate).into_iter().filter(|p| !met.contains(p)).collect::<Vec<_>>();
            if new.len() < gain {
                return !new.is_empty();
            }
            met.extend(new);
            chosen.push(candidate);
            false
        });
    }
    chosen
}

fn pairs(variants: &[&Variant], (v, size): (usize, usize)) -> Vec<Pair> {
    let variant = variants[v];
    let kernel = variant.name.split(['<', '(']).next().unwrap_or_default();
    // What has neither a format nor a cut is told by its name alone, and meets every size.
    let named = if variant.cut.is_empty() { &variant.name } else { "" };
    let traits = [kernel, variant.format.unwrap_or(named), variant.arm.unwrap_or_default()];
    let traits = traits.map(str::to_owned).into_iter().chain([size.to_string()]).chain(variant.cut.clone());
    let traits: Vec<(usize, String)> = traits.enumerate().collect();
    let with = |i: usize| traits[..i].iter().cloned();
    (0..traits.len()).flat_map(|i| with(i).map(|t| (t, traits[i].clone())).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_has_every_pair_and_turns_with_its_seed() {
        let registry = Registry::builtin();
        let variants: Vec<&Variant> = registry.variants().collect();
        let sizes = [4, 8, 32];
        let all: HashSet<Pair> = (0..variants.len())
            .flat_map(|v| [0, 1, 2].map(|i| (v, i)))
            .filter(|&(v, i)| variants[v].stage().unwrap().layout.subgroup_size.is_none_or(|s| s == sizes[i]))
            .flat_map(|c| pairs(&variants, c))
            .collect();
        let one = cover(&variants, &sizes, 1);
        let met: HashSet<Pair> = one.iter().flat_map(|&c| pairs(&variants, c)).collect();
        assert_eq!(met, all);
        assert!(one.len() < variants.len() * 3 / 2, "{} of {}", one.len(), variants.len());
        assert_eq!(one, cover(&variants, &sizes, 1));
        assert_ne!(one, cover(&variants, &sizes, 2));
    }
}
