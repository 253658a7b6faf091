//! The parity gate: every kind of launch against plain Rust, eight forced tokens against the plain plan.
//!
//! Both comparisons are shown to refuse falsified results each time they run. Logits may be off by a share of their own
//! spread ([`AccuracyClass::rms_share`](crate::plan::AccuracyClass::rms_share)), so that the bar means the same for every scale that a model gives them.

use std::collections::BTreeSet;

use kiln_abi::{Device as _, DeviceError, LaunchError};
use kiln_kernels::{Registry, conformance::Random, step::StepRow};
use kiln_runtime::Gpu;

use super::Stage;
use super::buffers::Buffers;
use super::expect::{Expectation, Sample, Scene};
use crate::forward::{Backend, Forward, ForwardError};
use crate::plan::{Holds, Plan, PlannedStep};
use crate::session::ModelFile;
use crate::submit::{DeviceLoadError, DeviceModel};

/// Ids of the second comparison.
pub const N_FORCED: usize = 40;
/// The second control of the logits moves one in so many, by so many times the bar: by their spread in the class f16.
const SPARSE: (usize, f64) = (10_000, 1.0 / 0.006);

/// What to get wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falsify {
    /// One output of one launch.
    Launch,
    /// Logits, by one step.
    Tokens,
}

/// Why results are not right, or cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// An output of a launch is too far off.
    #[error("{word} gives {found} at element {element}, plain Rust {expected} ± {bound:e}")]
    Output {
        /// Launch and kernel.
        word: String,
        /// Index into the output.
        element: usize,
        /// What the device wrote.
        found: f32,
        /// The exact result.
        expected: f64,
        /// What its roundings explain.
        bound: f64,
    },
    /// The device's choice is not the best logit.
    #[error("the device chose token {found}, its own logits say {expected}")]
    Choice {
        /// The device's.
        found: u32,
        /// The host's.
        expected: u32,
    },
    /// Logits too far from the plain plan's.
    #[error(
        "logits of {N_FORCED} forced tokens {path} are off the plain plan's by {rms:.4} (rms), at most {bar:.4} is \
         allowed, {share} of their spread"
    )]
    Logits {
        /// How they were fed.
        path: &'static str,
        /// Root mean square of the difference.
        rms: f64,
        /// What the accuracy class allows.
        bar: f64,
        /// Its share of the logits' spread.
        share: f64,
    },
    /// Another token wins, though the plain plan is decided.
    #[error("forced token {at} {path} is followed by {found}, the plain plan says {expected} by {lead}")]
    Winner {
        /// How they were fed.
        path: &'static str,
        /// Which of the forced tokens.
        at: usize,
        /// The plan's best.
        found: usize,
        /// The plain plan's best.
        expected: usize,
        /// Its lead over the second.
        lead: f32,
    },
    /// A falsified result passed.
    #[error("the comparison of {what} accepts a falsified result, so it shows nothing; please report this")]
    Blind {
        /// Of what.
        what: String,
    },
    /// A tensor that the file no longer has.
    #[error("tensor `{tensor}` is gone: the file changed while it was read")]
    Gone {
        /// Full name.
        tensor: String,
    },
    /// The device.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A sequence.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The plain plan does not load.
    #[error(transparent)]
    Load(#[from] DeviceLoadError),
}

impl From<DeviceError> for GateError {
    fn from(error: DeviceError) -> Self {
        Self::Launch(error.into())
    }
}

/// What the gate saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parity {
    /// Kinds of launches compared.
    pub kinds: usize,
    /// Their outputs compared.
    pub outputs: usize,
    /// The largest difference as a share of its bound.
    pub worst: f64,
    /// Root mean square by which forced logits are off the plain plan's, fed one by one.
    pub rms_decode: f64,
    /// The same, fed as one prompt.
    pub rms_prompt: f64,
    /// Root mean square of the plain plan's logits around each row's mean.
    pub spread: f64,
    /// What the accuracy class allows of either, of that spread.
    pub bar: f64,
}

/// Passes, or says what is wrong.
///
/// # Errors
/// The first result that is not right.
pub fn check(
    gpu: &Gpu,
    model: &DeviceModel,
    file: &ModelFile,
    registry: &Registry,
    falsify: Option<Falsify>,
    stage: Stage,
) -> Result<Parity, GateError> {
    let mut parity = Parity::default();
    launches(gpu, model, file, registry, falsify == Some(Falsify::Launch), &mut parity, stage)?;
    tokens(model, file, registry, falsify == Some(Falsify::Tokens), &mut parity)?;
    Ok(parity)
}

// ---- launches --------------------------------------------------------------------------------------------------

/// Runs each class of step once, launch by launch, and compares the first of each kind.
fn launches(
    gpu: &Gpu,
    model: &DeviceModel,
    file: &ModelFile,
    registry: &Registry,
    falsify: bool,
    parity: &mut Parity,
    stage: Stage,
) -> Result<(), GateError> {
    let plan = model.plan();
    let buffers = Buffers::new(gpu, model)?;
    let n_vocab = plan.n_vocab;
    let mut random = Random::new(7);
    let tokens: Vec<u32> = (0..=plan.window).map(|_| random.below(n_vocab)).collect();
    let mut kinds = BTreeSet::new();
    // Wide steps come first: what they store is what the step of one row attends to.
    let mut steps: Vec<&PlannedStep> = plan.steps.iter().collect();
    steps.sort_by_key(|step| std::cmp::Reverse((step.class.rows, step.class.outputs)));
    let mut n_past = 0;
    let mut falsify = falsify;
    for (at, step) in steps.iter().enumerate() {
        let n_rows = step.class.rows.min(plan.context.n_ctx);
        let first = if n_rows == 1 { n_past.min(plan.context.n_ctx - 1) } else { 0 };
        n_past = n_past.max(first + n_rows);
        let rows: Vec<StepRow> = (first..first + n_rows)
            .map(|position| StepRow { token: tokens[position as usize], position, slot: 0 })
            .collect();
        let outputs: Vec<u32> = (n_rows - n_rows.min(step.class.outputs)..n_rows).collect();
        buffers.seed(plan, &rows, &outputs, step.class.rows)?;
        let scene = Scene {
            gpu,
            plan,
            file,
            registry,
            buffers: &buffers.ids,
            class: step.class,
            rows: &rows,
            outputs: &outputs,
        };
        let mut done = 0;
        for word in &step.words {
            let own = &step.launches[word.launches.clone()];
            let kind: Vec<_> = own.iter().map(|l| (l.call.name.clone(), l.call.args.push.clone())).collect();
            let new = kinds.insert(kind);
            let is_made = |buffer| word.writes.iter().any(|(_, made)| made.buffer() == buffer);
            let in_place = word.reads.iter().any(|(_, read)| is_made(read.buffer()));
            let mut expect =
                |now: bool| (new && now).then(|| Expectation::of(&scene, word, &mut random)).transpose();
            let before = expect(in_place)?;
            own.iter().try_for_each(|launch| buffers.launch(plan, launch))?;
            done = word.launches.end;
            let Some(expected) = before.map_or_else(|| expect(!in_place), |e| Ok(Some(e)))? else { continue };
            let name = own.last().map_or(String::new(), |l| format!("{} ({})", l.label, l.call.name));
            let mut found = expected.found(&scene)?;
            if std::mem::take(&mut falsify) {
                found[0] = beyond(&expected.samples[0]);
            }
            parity.worst = parity.worst.max(compare(&name, &expected.samples, &found)?);
            let middle = found.len() / 2;
            found[middle] = beyond(&expected.samples[middle]);
            if compare(&name, &expected.samples, &found).is_ok() {
                return Err(GateError::Blind { what: name });
            }
            parity.kinds += 1;
            parity.outputs += found.len();
        }
        choice(plan, step, done, &buffers, &scene)?;
        stage("checking", at + 1, steps.len());
    }
    Ok(())
}

/// The launches after the last word: the choice is the best of the device's own logits.
fn choice(
    plan: &Plan,
    step: &PlannedStep,
    done: usize,
    buffers: &Buffers,
    scene: &Scene,
) -> Result<(), GateError> {
    step.launches[done..].iter().try_for_each(|launch| buffers.launch(plan, launch))?;
    let (Some(logits), Some(chosen)) = (plan.find(&Holds::Logits), plan.find(&Holds::Chosen)) else {
        return Ok(());
    };
    let row = scene.read(logits, 0, plan.n_vocab as usize)?;
    let expected = best(&row).0 as u32;
    let mut word = [0; 4];
    scene.gpu.read(scene.buffers[chosen], 0, &mut word)?;
    let found = u32::from_le_bytes(word);
    if found == expected { Ok(()) } else { Err(GateError::Choice { found, expected }) }
}

/// A value a little past the bound.
fn beyond(sample: &Sample) -> f32 {
    let past = sample.value + 2.0 * sample.bound;
    let moved = past as f32;
    if f64::from(moved) > sample.value + sample.bound { moved } else { moved.next_up().next_up() }
}

/// The largest difference as a share of its bound.
fn compare(word: &str, samples: &[Sample], found: &[f32]) -> Result<f64, GateError> {
    let mut worst: f64 = 0.0;
    for (sample, &found) in samples.iter().zip(found) {
        let difference = (f64::from(found) - sample.value).abs();
        if difference.is_nan() || difference > sample.bound {
            let (element, expected, bound) = (sample.element, sample.value, sample.bound);
            return Err(GateError::Output { word: word.to_owned(), element, found, expected, bound });
        }
        if sample.bound > 0.0 {
            worst = worst.max(difference / sample.bound);
        }
    }
    Ok(worst)
}

// ---- tokens ----------------------------------------------------------------------------------------------------

/// Forced ids through the plan, one by one and as a prompt, against the plain plan.
fn tokens(
    model: &DeviceModel,
    file: &ModelFile,
    registry: &Registry,
    falsify: bool,
    parity: &mut Parity,
) -> Result<(), GateError> {
    let n_vocab = model.plan().n_vocab;
    let mut random = Random::new(11);
    let ids: Vec<u32> = (0..N_FORCED).map(|_| random.below(n_vocab)).collect();
    let plain = model.plain(&file.gguf, &file.model.graph, registry)?;
    let expected = one_by_one(plain.sequence(N_FORCED)?.as_mut(), &ids)?;
    drop(plain);
    let mut decode = one_by_one(model.sequence(N_FORCED)?.as_mut(), &ids)?;
    let prompt = model.sequence(N_FORCED)?.feed(&ids, 0..N_FORCED)?;
    let row = n_vocab as usize;
    let class = model.plan().class;
    let bar = Bar::of(&expected, row, (class.rms_share(), class.decided_share()));
    (parity.spread, parity.bar) = (bar.spread, bar.rms());
    if falsify {
        decode.rotate_left(row);
    }
    parity.rms_decode = bar.agree("one by one", &decode, &expected)?;
    parity.rms_prompt = bar.agree("as a prompt", &prompt, &expected)?;
    bar.refuses_falsified(&mut decode, &expected)
}

fn one_by_one(sequence: &mut dyn Forward, ids: &[u32]) -> Result<Vec<f32>, ForwardError> {
    let mut logits = Vec::new();
    for id in ids {
        logits.extend(sequence.feed(&[*id], 0..1)?);
    }
    Ok(logits)
}

/// What logits `[n, row]` are held to.
#[derive(Debug, Clone, Copy)]
struct Bar {
    row: usize,
    spread: f64,
    share: f64,
    decided: f64,
}

impl Bar {
    fn of(expected: &[f32], row: usize, (share, decided): (f64, f64)) -> Self {
        Bar { row, spread: spread(expected, row), share, decided }
    }

    fn rms(&self) -> f64 {
        self.share * self.spread
    }

    /// The root mean square of the difference, where it is within the bar and every decided row has the same winner.
    fn agree(&self, path: &'static str, found: &[f32], expected: &[f32]) -> Result<f64, GateError> {
        let (rms, bar, share) = (rms(found, expected), self.rms(), self.share);
        if rms.is_nan() || rms > bar {
            return Err(GateError::Logits { path, rms, bar, share });
        }
        let rows = found.chunks_exact(self.row).zip(expected.chunks_exact(self.row));
        for (at, (found, expected)) in rows.enumerate() {
            let ((expected, lead), (found, _)) = (best(expected), best(found));
            if f64::from(lead) > self.decided * self.spread && found != expected {
                return Err(GateError::Winner { path, at, found, expected, lead });
            }
        }
        Ok(rms)
    }

    /// The controls: logits that are right but for a few, and right ones of the wrong step.
    fn refuses_falsified(&self, found: &mut [f32], expected: &[f32]) -> Result<(), GateError> {
        let passes = |found: &[f32]| self.agree("falsified", found, expected).is_ok();
        let blind = |what: &str| Err(GateError::Blind { what: format!("forced tokens with {what}") });
        let (each, by) = (SPARSE.0.min(self.row), (SPARSE.1 * self.rms()) as f32);
        found.iter_mut().step_by(each).for_each(|x| *x += by);
        if passes(found) {
            return blind("a few logits moved");
        }
        found.iter_mut().step_by(each).for_each(|x| *x -= by);
        found.rotate_left(self.row);
        if passes(found) { blind("logits one step off") } else { Ok(()) }
    }
}

/// Root mean square around each row's mean.
fn spread(logits: &[f32], row: usize) -> f64 {
    let squares = |row: &[f32]| {
        let mean = row.iter().copied().map(f64::from).sum::<f64>() / row.len() as f64;
        row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>()
    };
    (logits.chunks_exact(row).map(squares).sum::<f64>() / logits.len() as f64).sqrt()
}

/// Root mean square of the difference.
pub fn rms(found: &[f32], expected: &[f32]) -> f64 {
    let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
    (found.iter().zip(expected).map(square).sum::<f64>() / expected.len() as f64).sqrt()
}

/// The first of the largest, and how far the next is behind.
fn best(row: &[f32]) -> (usize, f32) {
    let (mut best, mut second) = (0, f32::NEG_INFINITY);
    for (at, &x) in row.iter().enumerate().skip(1) {
        if x > row[best] {
            (second, best) = (row[best], at);
        } else {
            second = second.max(x);
        }
    }
    (best, row.first().map_or(0.0, |_| row[best] - second))
}

#[cfg(test)]
mod tests {
    use super::{Bar, GateError, best};
    use crate::plan::AccuracyClass;

    const DECIDED: f64 = AccuracyClass::F16.decided_share();

    #[test]
    fn the_best_of_equals_is_the_first() {
        assert_eq!(best(&[1.0, 3.0, 3.0]), (1, 0.0));
        assert_eq!(best(&[2.0, 1.0, 0.5]), (0, 1.0));
    }

    #[test]
    fn logits_agree_within_the_bar_and_on_decided_winners() {
        let expected = [0.0, 1.0, 0.0, 0.5];
        let bar = |share| Bar::of(&expected, 2, (share, DECIDED));
        let agrees = |share, found: &[f32]| bar(share).agree("", found, &expected).is_ok();
        assert!((bar(1.0).spread - 0.15625_f64.sqrt()).abs() < 1e-12);
        assert!(agrees(0.006, &expected));
        assert!(!agrees(0.006, &[0.0, 1.1, 0.0, 0.5]));
        assert!(!agrees(0.006, &[0.0, f32::NAN, 0.0, 0.5]));
        // A wide bar does not excuse another winner.
        assert!(!agrees(10.0, &[1.0, 0.0, 0.0, 0.5]));
        let close = [0.0, 1.0, 0.0, 0.005];
        assert!(
            Bar::of(&close, 2, (10.0, DECIDED)).agree("", &[0.0, 1.0, 0.02, 0.0], &close).is_ok(),
            "undecided"
        );
    }

    #[test]
    fn the_bar_follows_the_scale_of_the_logits_and_not_their_offset() {
        let logits: Vec<f32> = (0..200).map(|i| (i as f32 * 0.7).sin() * 2.0).collect();
        let off =
            |by: f32| logits.iter().enumerate().map(move |(i, x)| x + if i % 2 == 0 { by } else { -by });
        for (scale, offset) in [(1.0, 0.0), (10.0, 0.0), (1.0, -12.0), (0.01, 3.0)] {
            let scaled = |x: f32| scale * x + offset;
            let expected: Vec<f32> = logits.iter().copied().map(scaled).collect();
            let bar = Bar::of(&expected, 100, (0.006, DECIDED));
            let agrees = |by| bar.agree("", &off(by).map(scaled).collect::<Vec<_>>(), &expected).is_ok();
            assert!(agrees(0.005) && !agrees(0.012), "{scale} {offset} {bar:?}");
            assert!(bar.refuses_falsified(&mut expected.clone(), &expected).is_ok());
            // A bar that lets everything pass is found out.
            let open = Bar { share: f64::INFINITY, spread: f64::INFINITY, ..bar };
            assert!(matches!(
                open.refuses_falsified(&mut expected.clone(), &expected),
                Err(GateError::Blind { .. })
            ));
        }
    }
}
