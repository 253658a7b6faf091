//! The measurement: a warm device, one repetition dropped, every id on the host before it counts.

use std::time::{Duration, Instant};

use kiln_kernels::conformance::Random;

use super::{BenchError, BenchOptions, Stage};
use crate::forward::{Backend, Choice, Forward};
use crate::sample::Sampler;
use crate::session::ModelFile;
use crate::submit::DeviceModel;

/// How long a device works before anything counts: clocks rise and pipelines are made.
const WARM_UP: Duration = Duration::from_millis(500);

/// One test and the speed of each repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Ids fed as a prompt.
    pub n_prompt: usize,
    /// Ids generated.
    pub n_gen: usize,
    /// Positions before the first of them.
    pub depth: usize,
    /// Tokens per second, in the order of their repetitions.
    pub samples: Vec<f64>,
}

impl Measured {
    /// `pp512`, `tg128`, with `@ d4096` where there is a depth.
    pub fn name(&self) -> String {
        let test = match self.n_gen {
            0 => format!("pp{}", self.n_prompt),
            n => format!("tg{n}"),
        };
        if self.depth > 0 { format!("{test} @ d{}", self.depth) } else { test }
    }

    /// The middle sample; of an even number, the mean of the middle two.
    pub fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        match (sorted.len(), sorted.len() / 2) {
            (0, _) => 0.0,
            (n, half) if n % 2 == 0 => (sorted[half - 1] + sorted[half]) / 2.0,
            (_, half) => sorted[half],
        }
    }

    /// The mean and the standard deviation of a sample.
    pub fn mean(&self) -> (f64, f64) {
        let n = self.samples.len() as f64;
        let mean = self.samples.iter().sum::<f64>() / n;
        let squares: f64 = self.samples.iter().map(|x| (x - mean).powi(2)).sum();
        (mean, if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
    }

    /// The slowest and the fastest sample.
    pub fn spread(&self) -> (f64, f64) {
        let fold = |start, f: fn(f64, f64) -> f64| self.samples.iter().copied().fold(start, f);
        (fold(f64::INFINITY, f64::min), fold(0.0, f64::max))
    }
}

/// A prompt test and a generation test, where asked for; their repetitions take turns.
pub(super) fn measure(
    model: &DeviceModel,
    file: &ModelFile,
    options: &BenchOptions,
    stage: Stage,
) -> Result<Vec<Measured>, BenchError> {
    let &BenchOptions { n_prompt, n_gen, depth, repeats, .. } = options;
    let mut random = Random::new(1);
    let n_vocab = u32::try_from(file.model.graph.n_vocab()).unwrap_or(u32::MAX);
    let mut ids = |n: usize| -> Vec<u32> { (0..n).map(|_| random.below(n_vocab)).collect() };
    let mut sequence = model.sequence(options.n_ctx())?;
    let sequence = sequence.as_mut();
    let before = ids(depth);
    let tests = [(n_prompt, 0), (0, n_gen)].into_iter().filter(|(p, g)| p + g > 0);
    let mut measured: Vec<Measured> =
        tests.map(|(n_prompt, n_gen)| Measured { n_prompt, n_gen, depth, samples: Vec::new() }).collect();
    let mut once = |sequence: &mut dyn Forward, test: &Measured| -> Result<f64, BenchError> {
        // A sequence that has let go of positions starts over.
        let kept = sequence.rewind(depth);
        sequence.feed_greedy(&before[kept..])?;
        let (prompt, first) = (ids(test.n_prompt), ids(1));
        let started = Instant::now();
        let n = if test.n_gen > 0 {
            generate(sequence, first[0], test.n_gen)?;
            test.n_gen
        } else {
            sequence.feed_greedy(&prompt)?;
            test.n_prompt
        };
        Ok(n as f64 / started.elapsed().as_secs_f64())
    };
    let started = Instant::now();
    while started.elapsed() < WARM_UP && !measured.is_empty() {
        for test in &measured {
            once(sequence, test)?;
        }
    }
    let total = repeats + 1;
    for repeat in 0..total {
        for test in &mut measured {
            let speed = once(sequence, test)?;
            // The first of a shape pays for what later ones find done.
            if repeat > 0 {
                test.samples.push(speed);
            }
        }
        stage("measuring", repeat + 1, total);
    }
    Ok(measured)
}

/// Generates `n` ids greedily, each on the host before it counts; steps may run ahead of it, none past the last.
fn generate(sequence: &mut dyn Forward, first: u32, n: usize) -> Result<(), BenchError> {
    let (sampler, mut id) = (Sampler::greedy(), first);
    for done in 1..=n {
        // A row without a choice is left to the host; what follows it does not matter for speed.
        if let Choice::Token(next) = sequence.feed_choose(&[id], &sampler, n - done)? {
            id = next;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Measured;

    #[test]
    fn medians_and_spreads() {
        let of = |samples: &[f64]| Measured { n_prompt: 0, n_gen: 8, depth: 3, samples: samples.to_vec() };
        assert_eq!(of(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(of(&[3.0, 1.0, 2.0]).mean(), (2.0, 1.0));
        assert_eq!(of(&[3.0, 1.0, 2.0]).spread(), (1.0, 3.0));
        assert_eq!(of(&[5.0]).mean(), (5.0, 0.0));
        assert_eq!(of(&[5.0]).name(), "tg8 @ d3");
    }
}
