//! Rows whose choice is known: every filter, ties, several chunks, broken rows, several slots in one step.

use kiln_abi::Kernel;

use super::{
    BROKEN, Chain, LOCAL_SIZE, LOWEST, MAX_CHUNKS, NO_CHOICE, PENALTY_WINDOW, SAMPLER_WORDS, Weigh,
    best::{SampleBest, SampleBestArgs, SamplePush},
    chunk,
    gather::{SampleGather, SampleGatherArgs},
    pick::{SamplePick, SamplePickArgs},
};
use crate::{
    conformance::{Buffer, Case, Content, Expected, Random, SENTINEL, f32_bytes, u32_bytes},
    reference::{self, Penalties},
    step::{StepRow, step_block},
};

/// One output of a step: its row, what is asked of its slot, and what came before.
#[derive(Clone, Debug)]
struct Output {
    row: Vec<f32>,
    chain: Chain,
    recent: Vec<u32>,
}

impl Output {
    /// Logits after penalties, without zeros of two signs.
    fn penalized(&self) -> Vec<f32> {
        let mut row = self.row.clone();
        reference::penalize(&mut row, self.seen().iter().copied(), self.chain.penalties);
        row.into_iter().map(|x| if x == 0.0 { 0.0 } else { x }).collect()
    }

    /// The ids that penalties look at.
    fn seen(&self) -> &[u32] {
        &self.recent[self.recent.len().saturating_sub(PENALTY_WINDOW as usize)..]
    }

    fn is_broken(&self) -> bool {
        self.row.iter().any(|x| x.is_nan() || *x == f32::INFINITY)
    }
}

/// The order of floats as integers, by comparing them: how many of both signs lie below.
fn ordered(x: f32) -> u32 {
    let bits = x.to_bits();
    if x >= 0.0 { 0x8000_0000 + bits } else { 0xffff_ffff - bits }
}

fn best_of(row: &[f32]) -> u32 {
    row.iter().map(|x| ordered(*x)).max().unwrap_or(LOWEST)
}

/// Chains that use each filter alone and all together.
fn chains() -> Vec<Chain> {
    let plain = Chain { temperature: 1.0, seed: 7, ..Chain::GREEDY };
    let penalties = Penalties { repeat: 1.3, presence: 0.4, frequency: 0.2 };
    vec![
        Chain::GREEDY,
        Chain { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, sequence: 1, ..plain },
        Chain { seed: 3 << 33, sequence: 5 << 34, ..plain },
        Chain { top_k: 3, ..plain },
        Chain { top_p: 0.5, temperature: 5.0, ..plain },
        Chain { min_p: 0.1, penalties, ..plain },
        Chain { penalties, ..Chain::GREEDY },
        Chain { temperature: 1e-38, ..plain },
        Chain { top_p: 0.0, top_k: 6, ..plain },
        Chain { top_k: 300, top_p: 0.9, penalties, ..plain },
    ]
}

/// As many outputs as there are chains, all with rows of `n` logits of `steps` to the unit: few for many ties.
fn outputs(n: u32, steps: f32) -> Vec<Output> {
    let mut random = Random::new((n + 1).into());
    let output = |chain| {
        let row =
            random.units(n as usize).iter().map(|x| (x * x * x * 9.0 * steps).round() / steps).collect();
        let recent = (0..random.below(70)).map(|_| random.below(n + n.div_ceil(4))).collect();
        Output { row, chain, recent }
    };
    chains().into_iter().map(output).collect()
}

/// Rows without a choice, and with only one.
fn broken(n: usize) -> Vec<Output> {
    let with = |values: &[(usize, f32)], rest: f32| {
        let mut row = vec![rest; n];
        values.iter().for_each(|(i, x)| row[*i] = *x);
        row
    };
    let low = f32::NEG_INFINITY;
    let rows = [
        with(&[(n / 2, f32::NAN)], 1.0),
        with(&[(n - 1, -f32::NAN)], 1.0),
        with(&[(0, f32::INFINITY)], 1.0),
        with(&[], low),
        with(&[(n - 1, -3.0)], low),
        with(&[(n - 1, 0.0), (n / 2, -0.0)], -1.0),
    ];
    let chain = Chain { temperature: 0.7, min_p: 0.9, ..Chain::GREEDY };
    rows.into_iter().map(|row| Output { row, chain, recent: vec![n as u32 - 1] }).collect()
}

/// A launch of outputs, which are not the step's first rows, each of a slot of its own.
struct Launch {
    name: String,
    outputs: Vec<Output>,
    push: SamplePush,
    step: Vec<u32>,
    samplers: Vec<u32>,
    positions: Vec<u32>,
}

impl Launch {
    fn of(name: &str, outputs: Vec<Output>) -> Self {
        let (count, n) = (outputs.len() as u32, outputs[0].row.len() as u32);
        let (rows, n_slots) = (count + 2, count + 1);
        let slot = |o: u32| (o + 2) % n_slots;
        let positions: Vec<u32> =
            (0..).zip(&outputs).map(|(o, output)| output.recent.len() as u32 + 90 * (o % 3)).collect();
        let mut samplers = vec![0; (n_slots * SAMPLER_WORDS) as usize];
        let mut lines = vec![StepRow { token: 0, position: 0, slot: 0 }; rows as usize];
        for ((o, output), position) in (0..count).zip(&outputs).zip(&positions) {
            // The row's own position is one before that of what it chooses.
            lines[o as usize + 2] = StepRow { token: 0, position: position.wrapping_sub(1), slot: slot(o) };
            let at = (slot(o) * SAMPLER_WORDS) as usize;
            samplers[at..at + SAMPLER_WORDS as usize]
                .copy_from_slice(&output.chain.words(&output.recent, *position));
        }
        let taken: Vec<u32> = (2..rows).collect();
        let push = SamplePush { rows, outputs: count, n, chunk: chunk(n), n_slots };
        let name = format!("{name}, n = {n}");
        Launch { name, outputs, push, step: step_block(&lines, &taken, rows), samplers, positions }
    }

    fn rows(&self) -> Vec<f32> {
        self.outputs.iter().flat_map(|output| output.row.clone()).collect()
    }

    /// The chunks' best of every output; what is not written is a sentinel.
    fn best(&self) -> Vec<u32> {
        let line = |output: &Output| {
            let mut line = vec![SENTINEL.to_bits(); MAX_CHUNKS as usize];
            let (chunk, row) = (self.push.chunk as usize, output.penalized());
            for (c, best) in line.iter_mut().enumerate().take(row.len().div_ceil(chunk)) {
                let at = c * chunk..row.len().min((c + 1) * chunk);
                let raw = &output.row[at.clone()];
                let broken = raw.iter().any(|x| x.is_nan() || *x == f32::INFINITY);
                *best = if broken { BROKEN } else { best_of(&row[at]) };
            }
            line
        };
        self.outputs.iter().flat_map(line).collect()
    }

    /// The candidates of every output, by the rule that `least` gives.
    fn gathered(&self, least: impl Fn(&Output, &[f32], f32) -> f32) -> Vec<Vec<[u32; 2]>> {
        let of = |output: &Output| {
            let row = output.penalized();
            let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if output.is_broken() || best == f32::NEG_INFINITY {
                return Vec::new();
            }
            let least = least(output, &row, best);
            let chosen = (0u32..).zip(&row).filter(|(_, x)| **x >= least && **x > f32::NEG_INFINITY);
            chosen.map(|(id, x)| [ordered(*x), (0xf_ffff - id) << 12]).collect()
        };
        self.outputs.iter().map(of).collect()
    }
}

/// What weighs something for an output.
fn weighty(output: &Output, best: f32) -> f32 {
    let t = output.chain.temperature;
    let reach = if t > 0.0 { Weigh::at(t).reach.max(Weigh::ONE.reach) } else { Weigh::ONE.reach };
    best - reach
}

fn launches() -> Vec<Launch> {
    let mut launches: Vec<Launch> =
        [(1, 4.0), (5, 4.0), (300, 2.0)].map(|(n, s)| Launch::of("every filter", outputs(n, s))).into();
    launches.push(Launch::of("every filter", outputs(4 * LOCAL_SIZE * 4 + 3, 1000.0)));
    launches.push(Launch::of("broken rows", broken(1500)));
    launches
}

/// Cases of the first kernel.
pub(super) fn best() -> Vec<Case> {
    let case = |launch: Launch| {
        let (p, best) = (launch.push, launch.best());
        let zeros = vec![0; launch.outputs.len()];
        Case {
            name: launch.name.clone(),
            buffers: vec![
                Buffer::Input(f32_bytes(&launch.rows())),
                Buffer::Input(u32_bytes(&launch.step)),
                Buffer::Input(u32_bytes(&launch.samplers)),
                Buffer::Output(4 * best.len()),
                Buffer::Output(4 * zeros.len()),
            ],
            expected: vec![
                Expected { binding: 3, content: Content::Words(best) },
                Expected { binding: 4, content: Content::Words(zeros) },
            ],
            bind: Box::new(move |r| {
                let (x, step, samplers) = (r[0].into(), r[1].into(), r[2].into());
                let (best, counts) = (r[3].into(), r[4].into());
                SampleBest::new().bind(&SampleBestArgs { x, step, samplers, best, counts, p })
            }),
        }
    };
    launches().into_iter().map(case).collect()
}

/// Cases of the second kernel.
pub(super) fn gather() -> Vec<Case> {
    let case = |launch: Launch| {
        let p = launch.push;
        let n_chunks = p.n.div_ceil(p.chunk);
        let least = |output: &Output, row: &[f32], best: f32| {
            let chain = &output.chain;
            let greedy = chain.temperature <= 0.0;
            let k = if greedy { 1 } else { chain.top_k };
            let mut firsts: Vec<f32> = row
                .chunks(p.chunk as usize)
                .map(|c| c.iter().copied().fold(f32::NEG_INFINITY, f32::max))
                .collect();
            firsts.sort_by(|a, b| b.total_cmp(a));
            let kth = if k > 0 && k <= n_chunks { firsts[k as usize - 1] } else { f32::MIN };
            let likely = !greedy && chain.top_p >= 1.0 && chain.min_p > 0.0;
            kth.max(weighty(output, best)).max(if likely { best + chain.min_p.ln() } else { f32::MIN })
        };
        let gathered = launch.gathered(least);
        let counts: Vec<u32> = gathered.iter().map(|list| list.len() as u32).collect();
        let untouched = [SENTINEL.to_bits(); 2];
        let n = p.n as usize;
        let filled = |mut list: Vec<[u32; 2]>| {
            list.resize(n, untouched);
            list
        };
        let pairs: Vec<[u32; 2]> = gathered.into_iter().flat_map(filled).collect();
        Case {
            name: launch.name.clone(),
            buffers: vec![
                Buffer::Input(f32_bytes(&launch.rows())),
                Buffer::Input(u32_bytes(&launch.step)),
                Buffer::Input(u32_bytes(&launch.samplers)),
                Buffer::Input(u32_bytes(&launch.best())),
                Buffer::Changed(u32_bytes(&vec![0; counts.len()])),
                Buffer::Output(8 * pairs.len()),
            ],
            expected: vec![
                Expected { binding: 4, content: Content::Words(counts) },
                Expected { binding: 5, content: Content::Pairs(pairs) },
            ],
            bind: Box::new(move |r| {
                let (x, step, samplers) = (r[0].into(), r[1].into(), r[2].into());
                let (best, counts, list) = (r[3].into(), r[4].into(), r[5].into());
                SampleGather::new().bind(&SampleGatherArgs { x, step, samplers, best, counts, list, p })
            }),
        }
    };
    launches().into_iter().map(case).collect()
}

/// Cases of the third kernel, whose candidates come in an order of their own.
pub(super) fn pick() -> Vec<Case> {
    launches().into_iter().map(pick_case).collect()
}

/// A vocabulary of a quarter million, all of it candidates.
pub(super) fn pick_long() -> Vec<Case> {
    let most = outputs(262_144, 4.0).into_iter().filter(|output| output.chain.temperature > 0.0).collect();
    vec![pick_case(Launch::of("every filter", most))]
}

fn pick_case(launch: Launch) -> Case {
    let p = launch.push;
    let mut random = Random::new(3);
    let gathered = launch.gathered(|output, _, best| weighty(output, best));
    let counts: Vec<u32> = gathered.iter().map(|list| list.len() as u32).collect();
    let shuffled = |mut list: Vec<[u32; 2]>| {
        (1..list.len()).rev().for_each(|i| list.swap(i, random.below(i as u32 + 1) as usize));
        // What nobody filled would win.
        list.resize(p.n as usize, [BROKEN - 1; 2]);
        list
    };
    let list: Vec<u32> = gathered.into_iter().flat_map(shuffled).flatten().collect();
    let chosen = |(output, position): (&Output, &u32)| {
        reference::choose(&output.row, &output.chain, output.seen(), *position).unwrap_or(NO_CHOICE)
    };
    let chosen: Vec<u32> = launch.outputs.iter().zip(&launch.positions).map(chosen).collect();
    Case {
        name: launch.name.clone(),
        buffers: vec![
            Buffer::Input(u32_bytes(&launch.step)),
            Buffer::Input(u32_bytes(&launch.samplers)),
            Buffer::Input(u32_bytes(&launch.best())),
            Buffer::Input(u32_bytes(&counts)),
            Buffer::Input(u32_bytes(&list)),
            Buffer::Output(4 * chosen.len()),
        ],
        expected: vec![Expected { binding: 5, content: Content::Words(chosen) }],
        bind: Box::new(move |r| {
            let (step, samplers, best) = (r[0].into(), r[1].into(), r[2].into());
            let (counts, list, chosen) = (r[3].into(), r[4].into(), r[5].into());
            SamplePick::new().bind(&SamplePickArgs { step, samplers, best, counts, list, chosen, p })
        }),
    }
}
