//! Which variants run at which subgroup size: all of them, or so many that every pair of their traits has met.

use std::collections::{HashMap, HashSet};
use std::num::NonZero;

use kiln_kernels::{Registry, Variant, conformance::Random, kernel_of};

/// What a run is asked for by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every variant at every size, with the cases that take long.
    All,
    /// A cover, chosen by this text.
    Cover(String),
    /// The variants with this text in their name, or made for the format of this name, at every size.
    Named(String),
}

impl Extent {
    /// `KILN_KERNEL` names some; `KILN_LONG` asks for everything; `KILN_SEED` chooses a cover and the schedules, the
    /// commit's hash in CI.
    pub fn of_environment() -> Self {
        match (std::env::var("KILN_KERNEL"), std::env::var_os("KILN_LONG")) {
            (Ok(name), _) => Extent::Named(name),
            (_, Some(_)) => Extent::All,
            (_, None) => Extent::Cover(std::env::var("KILN_SEED").unwrap_or_default()),
        }
    }

    /// With the cases that take long.
    pub fn is_long(&self) -> bool {
        *self == Extent::All || std::env::var_os("KILN_LONG").is_some()
    }

    /// What the interpreter's schedules are drawn from.
    pub fn schedule(&self) -> u64 {
        match self {
            Extent::All | Extent::Named(_) => 0,
            Extent::Cover(seed) => hash(seed),
        }
    }

    /// Whether a variant is of the part whose turn it is, where all are in so many parts: in a cover, by the seed.
    pub fn has_turn(&self, name: &str, parts: u64) -> bool {
        match self {
            Extent::Cover(seed) => has_turn(name, hash(seed), parts),
            Extent::All | Extent::Named(_) => true,
        }
    }

    /// The names of the variants that run at each of the sizes; of a cover, one for so many parts of all variants as
    /// `parts` says, whose turn goes by the seed.
    pub fn names(&self, registry: &Registry, sizes: &[u32], parts: u64) -> Vec<HashSet<String>> {
        let variants: Vec<&Variant> = registry.variants().collect();
        let seed = match self {
            Extent::Cover(seed) => seed,
            Extent::Named(text) => return vec![names_with(text, &variants); sizes.len()],
            Extent::All => return vec![names_with("", &variants); sizes.len()],
        };
        let variants: Vec<&Variant> =
            variants.into_iter().filter(|v| self.has_turn(&v.name, parts)).collect();
        let mut names = vec![HashSet::new(); sizes.len()];
        for Candidate { variant, size, .. } in cover(&candidates(&variants, sizes), hash(seed)) {
            names[*size].insert(variants[*variant].name.clone());
        }
        names
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Extent::All => write!(f, "everything"),
            Extent::Cover(seed) => write!(f, "the cover of KILN_SEED={seed:?}"),
            Extent::Named(text) => write!(f, "kernels named `{text}`"),
        }
    }
}

/// What a run says that was asked for kernels of which there are none.
pub fn none_named(extent: &Extent) -> String {
    format!("there are no {extent}; `kiln kernels list` has the names")
}

fn names_with(text: &str, variants: &[&Variant]) -> HashSet<String> {
    variants.iter().filter(|v| v.is_called(text)).map(|v| v.name.clone()).collect()
}

/// A number of a text (FNV-1a).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a variant is of the part whose turn it is.
fn has_turn(name: &str, seed: u64, parts: u64) -> bool {
    hash(name) % parts == seed % parts
}

/// A variant at one of the sizes, with the pairs of traits that it meets.
struct Candidate {
    variant: usize,
    size: usize,
    pairs: Vec<Pair>,
}

/// Two traits, by number.
type Pair = (usize, usize);

/// Every variant at every size that it runs at: one that asks for a size runs at that alone.
fn candidates(variants: &[&Variant], sizes: &[u32]) -> Vec<Candidate> {
    let asked = asked_sizes(variants);
    let mut numbers = HashMap::new();
    let mut number = |of: (usize, String)| {
        let next = numbers.len();
        *numbers.entry(of).or_insert(next)
    };
    let mut found = Vec::new();
    for (variant, asked) in asked.into_iter().enumerate() {
        for (size, _) in
            sizes.iter().enumerate().filter(|(_, size)| asked.is_none_or(|asked| asked == **size))
        {
            let traits: Vec<usize> =
                traits(variants[variant], sizes[size]).into_iter().enumerate().map(&mut number).collect();
            let with = |i: usize| traits[..i].iter().map(move |t| (*t, i));
            let pairs = (0..traits.len()).flat_map(with).map(|(t, i)| (t, traits[i])).collect();
            found.push(Candidate { variant, size, pairs });
        }
    }
    found
}

/// The subgroup size that each variant asks for.
fn asked_sizes(variants: &[&Variant]) -> Vec<Option<u32>> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let asked = |v: &&Variant| v.stage().ok().and_then(|kernel| kernel.layout.subgroup_size);
    std::thread::scope(|scope| {
        let parts = variants.chunks(variants.len().div_ceil(threads).max(1));
        let running: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(asked).collect::<Vec<_>>())).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Kernel, format, arm, size, and what else its kind varies.
fn traits(variant: &Variant, size: u32) -> Vec<String> {
    let kernel = kernel_of(&variant.name);
    // What has neither a format nor a cut is told by its name alone, and meets every size.
    let named = if variant.cut.is_empty() { &variant.name } else { "" };
    let traits = [kernel, variant.format.unwrap_or(named), variant.arm.unwrap_or_default()];
    traits.map(str::to_owned).into_iter().chain([size.to_string()]).chain(variant.cut.clone()).collect()
}

/// So many of them that every pair which any has is in one. Greedy, in an order of the seed.
fn cover(candidates: &[Candidate], seed: u64) -> Vec<&Candidate> {
    let mut left: Vec<&Candidate> = candidates.iter().collect();
    let mut random = Random::new(seed);
    for i in (1..left.len()).rev() {
        left.swap(i, random.below(i as u32 + 1) as usize);
    }
    let (mut met, mut chosen) = (HashSet::new(), Vec::new());
    let most = left.iter().map(|c| c.pairs.len()).max().unwrap_or(0);
    for gain in (1..=most).rev() {
        left.retain(|candidate| {
            let new = candidate.pairs.iter().filter(|pair| !met.contains(*pair)).count();
            if new < gain {
                return new > 0;
            }
            met.extend(candidate.pairs.iter().copied());
            chosen.push(*candidate);
            false
        });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_kernel_runs_at_every_size_and_no_other_does() {
        let registry = Registry::builtin();
        let names = Extent::Named("get_rows<Q".to_owned()).names(&registry, &[4, 32], 3);
        let all: Vec<&Variant> = registry.variants().collect();
        assert_eq!(names, vec![names_with("get_rows<Q", &all); 2]);
        assert!(names[0].iter().all(|name| name.contains("get_rows<Q")));
        assert!((1..all.len() / 10).contains(&names[0].len()), "{}", names[0].len());
        assert!(names_with("no kernel is called this", &all).is_empty());
    }

    #[test]
    fn a_format_is_named_as_in_files_or_as_in_kernels() {
        let registry = Registry::builtin();
        let all: Vec<&Variant> = registry.variants().collect();
        let of = |format| all.iter().filter(|v| v.format == Some(format)).map(|v| v.name.clone()).collect();
        let of_file: HashSet<String> = of("IQ4_NL");
        assert!(of_file.len() > 1);
        for name in ["IQ4_NL", "iq4_nl", "Iq4Nl"] {
            assert_eq!(names_with(name, &all), of_file, "{name}");
        }
        // Part of a format's name is part of kernels' names or nothing.
        assert!(names_with("IQ4_N", &all).is_empty());
        assert!(names_with("Iq4", &all).len() > of_file.len());
    }

    #[test]
    fn every_variant_has_a_turn_and_parts_are_alike() {
        let registry = Registry::builtin();
        let names: Vec<String> = registry.variants().map(|v| v.name.clone()).collect();
        let of = |seed| names.iter().filter(|name| has_turn(name, seed, 3)).collect::<HashSet<_>>();
        let parts = [of(0), of(1), of(2)];
        assert_eq!(parts.iter().map(HashSet::len).sum::<usize>(), names.len());
        assert!(parts.iter().all(|part| part.len() > names.len() / 4), "{:?}", parts.map(|p| p.len()));
        assert_eq!(of(3), of(0));
    }

    #[test]
    fn a_cover_has_every_pair_and_turns_with_its_seed() {
        let registry = Registry::builtin();
        let variants: Vec<&Variant> = registry.variants().collect();
        let candidates = candidates(&variants, &[4, 8, 32]);
        let pairs = |of: &[&Candidate]| of.iter().flat_map(|c| c.pairs.clone()).collect::<HashSet<Pair>>();
        let chosen = |seed| cover(&candidates, seed);
        let places = |of: &[&Candidate]| of.iter().map(|c| (c.variant, c.size)).collect::<Vec<_>>();
        let one = chosen(1);
        assert_eq!(pairs(&one), pairs(&candidates.iter().collect::<Vec<_>>()));
        // The control: the last was chosen for a pair that none before it has.
        assert_ne!(pairs(&one[..one.len() - 1]), pairs(&one));
        assert!(one.len() < variants.len() * 3 / 2, "{} of {}", one.len(), variants.len());
        assert_eq!(places(&one), places(&chosen(1)));
        assert_ne!(places(&one), places(&chosen(2)));
    }
}
