//! The chain against plain definitions and exact probabilities; each comparison is shown to fail once.

use kiln_kernels::reference::{Candidate, min_p, penalize, top_k, top_p, uniform};

use super::*;

/// A row of `n` logits that only `row` decides, spread like a model's.
fn random_row(row: u64, n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| 12.0 * uniform(7, row, i) + 6.0 * uniform(8, row, i).powi(8)).collect()
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|x| (x - max).exp()).sum();
    logits.iter().map(|x| (x - max).exp() / sum).collect()
}

fn ids(candidates: &[Candidate]) -> Vec<u32> {
    candidates.iter().map(|candidate| candidate.id).collect()
}

/// An id belongs to the k best when fewer than k others beat it.
fn plain_top_k(logits: &[f32], k: usize) -> Vec<u32> {
    let beaten_by = |i: usize| {
        logits.iter().enumerate().filter(|&(j, &x)| x > logits[i] || (x == logits[i] && j < i)).count()
    };
    let mut kept: Vec<usize> = (0..logits.len()).filter(|&i| beaten_by(i) < k).collect();
    kept.sort_by_key(|&i| beaten_by(i));
    kept.into_iter().map(|i| i as u32).collect()
}

/// An id belongs to the nucleus when those before it do not reach p yet.
fn plain_top_p(logits: &[f32], p: f64) -> Vec<u32> {
    let order = plain_top_k(logits, logits.len());
    let probability = softmax(&logits.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let before = |at: usize| order[..at].iter().map(|&id| probability[id as usize]).sum::<f64>();
    (0..order.len()).filter(|&at| at == 0 || before(at) < p).map(|at| order[at]).collect()
}

fn plain_min_p(logits: &[f32], p: f64) -> Vec<u32> {
    let probability = softmax(&logits.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let best = probability.iter().copied().fold(0.0, f64::max);
    let order = plain_top_k(logits, logits.len());
    order.into_iter().filter(|&id| probability[id as usize] >= p * best * (1.0 - 1e-6)).collect()
}

fn plain_penalties(logits: &[f32], recent: &[u32], p: Penalties) -> Vec<f32> {
    let penalized = |(i, &x): (usize, &f32)| {
        let n = recent.iter().filter(|&&id| id as usize == i).count() as f32;
        if n == 0.0 {
            return x;
        }
        (if x > 0.0 { x * (1.0 / p.repeat) } else { x * p.repeat }) - (n * p.frequency + p.presence)
    };
    logits.iter().enumerate().map(penalized).collect()
}

#[test]
fn filters_equal_their_plain_definitions_on_1000_rows() {
    let penalties = Penalties { repeat: 1.3, presence: 0.4, frequency: 0.2 };
    let mut kept_shares = [0usize; 3];
    for row in 0..1000 {
        let n = 20 + (row as usize * 7) % 180;
        let mut logits = random_row(row, n);
        logits[n / 2] = logits[0]; // a tie
        let draw = |i| uniform(9, row, i);

        let k = 1 + (draw(0) * 60.0) as usize;
        let best = top_k(&logits, k);
        assert_eq!(ids(&best), plain_top_k(&logits, k), "row {row}");
        kept_shares[0] += best.len();

        let p = draw(1);
        let mut nucleus = top_k(&logits, 0);
        top_p(&mut nucleus, p);
        assert_eq!(ids(&nucleus), plain_top_p(&logits, f64::from(p)), "row {row}, p {p}");
        kept_shares[1] += nucleus.len();

        let p = draw(2) * 0.5;
        let mut likely = top_k(&logits, 0);
        min_p(&mut likely, p);
        assert_eq!(ids(&likely), plain_min_p(&logits, f64::from(p)), "row {row}, p {p}");
        kept_shares[2] += likely.len();

        let recent: Vec<u32> = (0..40).map(|i| (draw(10 + i) * n as f32) as u32).collect();
        let mut penalized = logits.iter().map(|x| x - 6.0).collect::<Vec<_>>();
        let expected = plain_penalties(&penalized, &recent, penalties);
        penalize(&mut penalized, recent, penalties);
        assert_eq!(penalized, expected, "row {row}");
    }
    assert!(kept_shares.iter().all(|&n| n > 2000), "the filters were exercised: {kept_shares:?}");
}

#[test]
fn filters_one_off_are_caught() {
    let mut differs = [0; 3];
    for row in 0..1000 {
        let mut logits = random_row(row, 100);
        logits[50] = logits[0];
        let mut nucleus = top_k(&logits, 0);
        top_p(&mut nucleus, 0.7);
        nucleus.pop(); // the crossing id left out
        differs[0] += usize::from(ids(&nucleus) != plain_top_p(&logits, 0.7));
        let mut likely = top_k(&logits, 0);
        min_p(&mut likely, 0.05);
        differs[1] += usize::from(ids(&likely) != plain_min_p(&logits, 0.06));
        let mut best = ids(&top_k(&logits, 100));
        best.reverse();
        best.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize])); // ties to the higher id
        differs[2] += usize::from(best != plain_top_k(&logits, 100));
    }
    assert_eq!(differs[0], 1000);
    assert_eq!(differs[2], 1000);
    assert!(differs[1] > 100, "{differs:?}");
}

/// Σ (observed − expected)² / expected over the ids that can be drawn.
fn chi_square(counts: &[u32], probability: &[f64]) -> f64 {
    let n: f64 = counts.iter().map(|&c| f64::from(c)).sum();
    let term = |(&count, &p): (&u32, &f64)| (f64::from(count) - n * p).powi(2) / (n * p);
    counts.iter().zip(probability).filter(|(_, p)| **p > 0.0).map(term).sum()
}

fn frequencies(logits: &[f32], options: SampleOptions, n: u64) -> Vec<u32> {
    let mut counts = vec![0; logits.len()];
    for draw in 0..n {
        // Both halves of the counter move, as in a batch.
        let sampler = Sampler::new(options, draw % 16);
        counts[sampler.choose(logits, draw / 16).unwrap() as usize] += 1;
    }
    counts
}

fn options(temperature: f32) -> SampleOptions {
    SampleOptions { temperature, top_k: 0, top_p: 1.0, min_p: 0.0, penalties: Penalties::NONE, seed: 42 }
}

/// Quantile 0.999 of χ² with 11 degrees of freedom.
const CHI_SQUARE_11: f64 = 31.26;

#[test]
fn draws_follow_the_exact_distribution() {
    let logits: Vec<f32> = (0..12).map(|i| [0.3, 2.0, -1.0, 1.1][i % 4] - 0.1 * i as f32).collect();
    let at = |t: f64| softmax(&logits.iter().map(|&x| f64::from(x) / t).collect::<Vec<_>>());
    let counts = frequencies(&logits, options(0.8), 160_000);
    let good = chi_square(&counts, &at(f64::from(0.8f32)));
    let control = chi_square(&counts, &at(0.85));
    assert!(good < CHI_SQUARE_11, "χ² = {good}");
    assert!(control > 3.0 * CHI_SQUARE_11, "χ² against another temperature = {control}");
}

#[test]
fn filtered_draws_follow_the_renormalized_distribution() {
    let logits: Vec<f32> = (0..20).map(|i| 3.0 - 0.2 * i as f32).collect();
    let mut exact = softmax(&logits[..12].iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    exact.resize(20, 0.0);
    let counts = frequencies(&logits, SampleOptions { top_k: 12, ..options(1.0) }, 160_000);
    assert!(counts[12..].iter().all(|&n| n == 0));
    let good = chi_square(&counts, &exact);
    assert!(good < CHI_SQUARE_11, "χ² = {good}");
    exact.swap(3, 4);
    let control = chi_square(&counts, &exact);
    assert!(control > 3.0 * CHI_SQUARE_11, "χ² against two shares swapped = {control}");
}

#[test]
fn greedy_takes_the_lowest_of_equals_after_penalties() {
    let mut sampler = Sampler::new(options(0.0), 0);
    assert_eq!(sampler.choose(&[1.0, 5.0, 5.0, -0.0, 0.0], 0), Ok(1));
    assert_eq!(sampler.choose(&[-0.0, 0.0], 0), Ok(0), "zeros of both signs are equal");
    sampler.options.penalties = Penalties { presence: 1.0, ..Penalties::NONE };
    sampler.accept(1);
    assert_eq!(sampler.choose(&[1.0, 5.0, 5.0], 0), Ok(2));
    for id in 0..PENALTY_WINDOW as u32 {
        sampler.accept(100 + id);
    }
    assert_eq!(sampler.choose(&[1.0, 5.0, 5.0], 0), Ok(1), "an id leaves the window");
}

#[test]
fn a_tiny_temperature_is_nearly_greedy() {
    for temperature in [1e-3, 1e-30, 1e-38] {
        assert_eq!(Sampler::new(options(temperature), 0).choose(&[1.0, 9.0, 8.5, -40.0], 3), Ok(1));
    }
}

#[test]
fn broken_rows_are_errors_and_masked_ids_are_not() {
    for temperature in [0.0, 1.0] {
        let sampler = Sampler::new(options(temperature), 0);
        let nan = sampler.choose(&[1.0, f32::NAN, 2.0], 9);
        assert!(matches!(nan, Err(SampleError::NotANumber { id: 1, position: 9, .. })), "{nan:?}");
        let infinite = sampler.choose(&[f32::INFINITY, 2.0], 9);
        assert!(matches!(infinite, Err(SampleError::NotANumber { id: 0, .. })), "{infinite:?}");
        let masked = [f32::NEG_INFINITY; 3];
        assert_eq!(sampler.choose(&masked, 4), Err(SampleError::NothingLeft { position: 4 }));
        assert_eq!(sampler.choose(&[], 4), Err(SampleError::NothingLeft { position: 4 }));
        let one_left = [f32::NEG_INFINITY, -3.0, f32::NEG_INFINITY];
        assert_eq!(sampler.choose(&one_left, 4), Ok(1));
    }
}

#[test]
fn draws_do_not_depend_on_their_order() {
    let logits = random_row(3, 50);
    let sampler = Sampler::new(options(1.0), 5);
    let forward: Vec<_> = (0..40).map(|at| sampler.choose(&logits, at)).collect();
    let mut backward: Vec<_> = (0..40).rev().map(|at| sampler.choose(&logits, at)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let other = Sampler::new(options(1.0), 6);
    let elsewhere: Vec<_> = (0..40).map(|at| other.choose(&logits, at)).collect();
    assert_ne!(forward, elsewhere, "another sequence draws otherwise");
}

#[test]
fn options_without_a_meaning_are_told_by_name() {
    let good = options(0.8);
    assert_eq!(good.check(), Ok(()));
    let penalties = |repeat, frequency, presence| SampleOptions {
        penalties: Penalties { repeat, frequency, presence },
        ..good
    };
    let bad = [
        ("temperature", SampleOptions { temperature: f32::NAN, ..good }),
        ("temperature", SampleOptions { temperature: -1.0, ..good }),
        ("top_p", SampleOptions { top_p: f32::NAN, ..good }),
        ("top_p", SampleOptions { top_p: 1.5, ..good }),
        ("min_p", SampleOptions { min_p: -0.1, ..good }),
        ("penalties.repeat", penalties(0.0, 0.0, 0.0)),
        ("penalties.frequency", penalties(1.0, f32::INFINITY, 0.0)),
        ("penalties.presence", penalties(1.0, 0.0, f32::NAN)),
    ];
    for (expected, options) in bad {
        let found = options.check();
        assert!(
            matches!(found, Err(SampleError::Option { name, .. }) if name == expected),
            "{expected}: {found:?}"
        );
    }
}
