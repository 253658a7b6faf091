//! Choices on the Vulkan device that is here: those of the host's sampler, id for id, also of steps that run ahead of
//! what the host has read.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod fetched;
mod tiny;

use std::ops::Range;

use kiln_abi::{BufferRange, Device as _, Kernel as _, launch::launch_staged};
use kiln_engine::forward::{Backend, Choice, Forward, ForwardError};
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::sample::{Penalties, SampleOptions, Sampler};
use kiln_engine::session::{ModelFile, Session, Stop};
use kiln_engine::submit::{DeviceModel, Draw, Feed, Got, SlotId, Want};
use kiln_engine::tokenizer::{ControlText, Tokenizer};
use kiln_kernels::conformance::Random;
use kiln_kernels::sample::{
    self, MAX_CHUNKS, NO_CHOICE, SAMPLER_WORDS,
    best::{SampleBest, SampleBestArgs, SamplePush},
    gather::{SampleGather, SampleGatherArgs},
    pick::{SamplePick, SamplePickArgs},
};
use kiln_kernels::step::{StepRow, step_block};
use kiln_kernels::{Registry, sample::Chain};
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};

const N_CTX: usize = 600;
const OPTIONS: PlanOptions = PlanOptions::new(ContextWish::Exactly(N_CTX));

fn gpu() -> Option<Gpu> {
    if std::env::var_os("KILN_NO_VULKAN").is_some() {
        println!("NOT RUN: KILN_NO_VULKAN is set, nothing was chosen through Vulkan");
        return None;
    }
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    Some(Gpu::open(&options).unwrap())
}

fn clean(gpu: &Gpu) {
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

fn tiny(gpu: &Gpu, name: &str, options: PlanOptions) -> DeviceModel {
    let file = tiny::all().into_iter().find(|tiny| tiny.name == name).unwrap().file();
    load(gpu, &file, options)
}

fn load(gpu: &Gpu, file: &ModelFile, options: PlanOptions) -> DeviceModel {
    let (registry, graph) = (Registry::builtin(), &file.model.graph);
    DeviceModel::load(gpu, &file.gguf, graph, &registry, options, &|_, _| ()).unwrap()
}

/// Chains of every kind, by number.
fn options(i: u32) -> SampleOptions {
    let plain = SampleOptions {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        penalties: Penalties::NONE,
        seed: u64::from(i) * 0x1_2345_6789,
    };
    let penalties = Penalties { repeat: 1.2, presence: 0.3, frequency: 0.1 };
    match i % 8 {
        0 => SampleOptions { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, ..plain },
        1 => plain,
        2 => SampleOptions { temperature: 0.0, penalties, ..plain },
        3 => SampleOptions { top_k: 1 + i as usize % 50, temperature: 2.0, ..plain },
        4 => SampleOptions { top_p: (i % 100) as f32 / 100.0, ..plain },
        5 => SampleOptions { min_p: 0.2, penalties, ..plain },
        6 => SampleOptions { temperature: 0.3, top_p: 0.9, penalties, ..plain },
        _ => SampleOptions { temperature: 0.0, ..plain },
    }
}

// ---- rows ------------------------------------------------------------------------------------------------------

/// Rows of a launch.
const OUTPUTS: u32 = 16;
/// Logits of the longest.
const MOST: u32 = 5000;

/// Chooses for 16 rows of `n` logits on the device.
struct Bench<'a> {
    gpu: &'a Gpu,
    kernels: [kiln_abi::StagedKernel; 3],
    buffers: [BufferRange; 7],
}

impl<'a> Bench<'a> {
    fn new(gpu: &'a Gpu) -> Self {
        let words = |n: u32| {
            let bytes = 4 * u64::from(n);
            BufferRange { buffer: gpu.allocate(bytes, "choices").unwrap(), offset_bytes: 0, bytes }
        };
        let buffers = [
            words(OUTPUTS * MOST),
            words(4 + 4 * OUTPUTS),
            words(OUTPUTS * SAMPLER_WORDS),
            words(OUTPUTS * MAX_CHUNKS),
            words(OUTPUTS),
            words(2 * OUTPUTS * MOST),
            words(OUTPUTS),
        ];
        let kernels = [
            SampleBest::new().stage().unwrap(),
            SampleGather::new().stage().unwrap(),
            SamplePick::new().stage().unwrap(),
        ];
        Self { gpu, kernels, buffers }
    }

    fn choose(&self, n: u32, rows: &[Vec<f32>], samplers: &[(Sampler, u32)]) -> Vec<u32> {
        let [x, step, lines, best, counts, list, chosen] = self.buffers;
        let place = |(slot, (_, position)): (u32, &(Sampler, u32))| StepRow {
            token: 0,
            position: position.wrapping_sub(1),
            slot,
        };
        let places: Vec<_> = (0..).zip(samplers).map(place).collect();
        let block = step_block(&places, &(0..OUTPUTS).collect::<Vec<_>>(), OUTPUTS);
        let told = samplers.iter().flat_map(|(s, position)| s.chain().words(&s.recent(), *position));
        let bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>();
        self.gpu.write(x.buffer, 0, &bytes(rows.iter().flatten().map(|x| x.to_bits()).collect())).unwrap();
        self.gpu.write(step.buffer, 0, &bytes(block)).unwrap();
        self.gpu.write(lines.buffer, 0, &bytes(told.collect())).unwrap();
        let p = SamplePush { rows: OUTPUTS, outputs: OUTPUTS, n, chunk: sample::chunk(n), n_slots: OUTPUTS };
        let (x, step, samplers) = (x.into(), step.into(), lines.into());
        let args = SampleBestArgs { x, step, samplers, best: best.into(), counts: counts.into(), p };
        launch_staged(self.gpu, &self.kernels[0], &SampleBest::new().bind(&args)).unwrap();
        let (best, counts, list) = (best.into(), counts.into(), list.into());
        let args = SampleGatherArgs { x, step, samplers, best, counts, list, p };
        launch_staged(self.gpu, &self.kernels[1], &SampleGather::new().bind(&args)).unwrap();
        let args = SamplePickArgs { step, samplers, best, counts, list, chosen: chosen.into(), p };
        launch_staged(self.gpu, &self.kernels[2], &SamplePick::new().bind(&args)).unwrap();
        let mut out = vec![0; 4 * OUTPUTS as usize];
        self.gpu.read(chosen.buffer, 0, &mut out).unwrap();
        out.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

#[test]
fn ten_thousand_rows_are_chosen_from_as_on_the_host() {
    let Some(gpu) = gpu() else { return };
    let bench = Bench::new(&gpu);
    let (mut n_rows, mut moved, mut broken) = (0, 0, 0);
    for launch in 0..625 {
        let mut random = Random::new(launch.into());
        let n = if launch % 60 == 0 { MOST } else { [40, 333, 900, 1025, 257, 64, 2][launch as usize % 7] };
        let mut rows = Vec::new();
        let mut samplers = Vec::new();
        for o in 0..OUTPUTS {
            // Peaks like a model's; every fourth row with ties; now and then a row that is broken or masked.
            let step = if o % 4 == 0 { 0.5 } else { 1e-4 };
            let logit = |x: f32| (x * x * x * 14.0 / step).round() * step;
            let mut row: Vec<f32> = random.units(n as usize).into_iter().map(logit).collect();
            match random.below(40) {
                0 => row[random.below(n) as usize] = f32::NAN,
                1 => row.iter_mut().skip(1).step_by(2).for_each(|x| *x = f32::NEG_INFINITY),
                _ => {}
            }
            let mut sampler = Sampler::new(options(launch * OUTPUTS + o), u64::from(launch) << 30);
            let position = random.below(300);
            (0..position).for_each(|_| sampler.accept(random.below(n)));
            rows.push(row);
            samplers.push((sampler, position));
        }
        let found = bench.choose(n, &rows, &samplers);
        for ((row, (sampler, position)), found) in rows.iter().zip(&samplers).zip(found) {
            let choose = |position: u32| sampler.choose(row, position.into()).unwrap_or(NO_CHOICE);
            assert_eq!(found, choose(*position), "launch {launch}, n = {n}, {:?}", sampler.chain());
            n_rows += 1;
            moved += usize::from(choose(position + 1) != found);
            broken += usize::from(found == NO_CHOICE);
        }
    }
    println!("{}: {n_rows} rows chosen from as on the host", gpu.caps().name);
    assert_eq!(n_rows, 10_000);
    assert!(moved > 3000, "control: the next draw of the generator is another id in {moved} rows only");
    assert!(broken > 50, "{broken} rows had no choice");
    clean(&gpu);
}

// ---- text ------------------------------------------------------------------------------------------------------

/// A backend whose sequences leave every choice to the host.
struct OnHost<'a>(&'a DeviceModel);

struct Undecided(Box<dyn Forward>);

impl Backend for OnHost<'_> {
    fn sequence(&self, n_ctx: usize) -> Result<Box<dyn Forward>, ForwardError> {
        Ok(Box::new(Undecided(self.0.sequence(n_ctx)?)))
    }
}

impl Forward for Undecided {
    fn n_past(&self) -> usize {
        self.0.n_past()
    }

    fn n_ctx(&self) -> usize {
        self.0.n_ctx()
    }

    fn n_vocab(&self) -> usize {
        self.0.n_vocab()
    }

    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError> {
        self.0.feed(ids, outputs)
    }

    fn rewind(&mut self, n_past: usize) -> usize {
        self.0.rewind(n_past)
    }
}

/// A backend whose sequences prefer these ids, one after the other, of so many.
struct Script(Vec<u32>, usize);

struct Scripted {
    ids: Vec<u32>,
    n_vocab: usize,
    n_past: usize,
}

impl Backend for Script {
    fn sequence(&self, _: usize) -> Result<Box<dyn Forward>, ForwardError> {
        Ok(Box::new(Scripted { ids: self.0.clone(), n_vocab: self.1, n_past: 0 }))
    }
}

impl Forward for Scripted {
    fn n_past(&self) -> usize {
        self.n_past
    }

    fn n_ctx(&self) -> usize {
        64
    }

    fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    fn feed(&mut self, ids: &[u32], outputs: Range<usize>) -> Result<Vec<f32>, ForwardError> {
        self.n_past += ids.len();
        let mut row = vec![0.0; self.n_vocab * outputs.len()];
        if let Some(best) = row.get_mut(self.ids.remove(0) as usize) {
            *best = 1.0;
        }
        Ok(row)
    }

    fn rewind(&mut self, n_past: usize) -> usize {
        self.n_past = self.n_past.min(n_past);
        self.n_past
    }
}

#[test]
fn ids_that_the_tokenizer_lacks_have_no_text() {
    let file = ModelFile::open(&fetched::model(), &Registry::builtin()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&file.gguf).unwrap();
    let beyond = tokenizer.n_tokens() as u32;
    let ids = vec![beyond, 3575, beyond + 1, 282];
    let mut session = Session::new(&Script(ids.clone(), beyond as usize + 2), 64).unwrap();
    let greedy = SampleOptions { temperature: 0.0, ..options(0) };
    let greedy = SampleOptions { penalties: Penalties::NONE, ..greedy };
    let found = session.generate(&[504], &tokenizer, greedy, 4, &|_, _| (), |_| Ok(())).unwrap();
    assert_eq!(found.ids, ids);
    assert_eq!(found.text, tokenizer.decode(&[3575, 282], ControlText::Hidden).unwrap());
}

#[test]
fn text_drawn_on_the_device_is_the_hosts_token_for_token() {
    let Some(gpu) = gpu() else { return };
    let file = ModelFile::open(&fetched::model(), &Registry::builtin()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&file.gguf).unwrap();
    let model = load(&gpu, &file, PlanOptions::new(ContextWish::Exactly(256)));
    let long = std::env::var_os("KILN_LONG").is_some();
    let (n_texts, limit) = if long { (32, 48) } else { (8, 4) };
    let prompt: Vec<u32> = vec![504, 3575, 282, 4649, 314];
    let mut texts = Vec::new();
    for i in 0..n_texts {
        let generate = |backend: &dyn Backend, i: u32| {
            let mut session = Session::new(backend, 256).unwrap();
            session.generate(&prompt, &tokenizer, options(i), limit, &|_, _| (), |_| Ok(())).unwrap()
        };
        let before = model.slots().counts();
        let found = generate(&model, i);
        let after = model.slots().counts();
        let n = found.ids.len() as u64 + u64::from(found.stop == Stop::End);
        assert_eq!(after.logits, before.logits, "no logits are read back");
        let used = after.steps - before.steps - (after.taken_back - before.taken_back);
        assert_eq!(used, n, "one submit for each id");
        assert!(after.seeds - before.seeds == 1 && after.samplers - before.samplers <= 1);
        let expected = generate(&OnHost(&model), i);
        assert!(model.slots().counts().logits >= after.logits + n, "control: the host reads logits");
        assert_eq!((&found.ids, &found.text), (&expected.ids, &expected.text), "{:?}", options(i));
        texts.push(found.text);
    }
    texts.sort();
    texts.dedup();
    assert!(
        texts.len() > n_texts as usize / 2,
        "control: other options and seeds give other texts: {texts:?}"
    );
    clean(&gpu);
}

// ---- running ahead ---------------------------------------------------------------------------------------------

/// Sequences that are drawn from in one command each step.
struct Drawn<'a> {
    model: &'a DeviceModel,
    slots: Vec<SlotId>,
    samplers: Vec<Sampler>,
    next: Vec<Vec<u32>>,
    ids: Vec<Vec<u32>>,
}

impl<'a> Drawn<'a> {
    /// Sequence i has a prompt of `lengths[i]` ids.
    fn start(model: &'a DeviceModel, lengths: &[usize]) -> Self {
        let prompt =
            |(i, n): (usize, &usize)| (0..*n).map(|j| ((j * 5 + i * 11 + j * j % 7) % 48) as u32).collect();
        let next: Vec<Vec<u32>> = lengths.iter().enumerate().map(prompt).collect();
        let slots = lengths.iter().map(|_| model.slots().start(N_CTX).unwrap()).collect();
        let sampler =
            |i: usize| Sampler::new(SampleOptions { temperature: 1.0, ..options(i as u32) }, i as u64);
        let mut drawn = Self {
            model,
            slots,
            samplers: (0..lengths.len()).map(sampler).collect(),
            ids: vec![Vec::new(); lengths.len()],
            next,
        };
        // All but the last id of each prompt.
        for i in 0..lengths.len() {
            let last = drawn.next[i].pop().unwrap();
            for ids in drawn.next[i].chunks(model.plan().window as usize) {
                model.slots().step(&[Feed { slot: drawn.slots[i], ids, want: Want::Nothing }]).unwrap();
            }
            drawn.next[i].iter().for_each(|id| drawn.samplers[i].accept(*id));
            drawn.next[i] = vec![last];
        }
        drawn
    }

    /// One step of all, with `ahead` more to come.
    fn step(&mut self, ahead: usize) {
        for (sampler, next) in self.samplers.iter_mut().zip(&self.next) {
            next.iter().for_each(|id| sampler.accept(*id));
        }
        let feed = |i: usize| {
            let (chain, recent) = (self.samplers[i].chain(), self.samplers[i].recent());
            Feed { slot: self.slots[i], ids: &self.next[i], want: Want::Draw(Draw { chain, recent, ahead }) }
        };
        let feeds: Vec<_> = (0..self.slots.len()).map(feed).collect();
        let got = self.model.slots().step(&feeds).unwrap();
        for (i, got) in got.into_iter().enumerate() {
            let Got::Choice(Choice::Token(id)) = got else { panic!("{got:?}") };
            self.ids[i].push(id);
            self.next[i] = vec![id];
        }
    }

    /// What each sequence holds, to the bit: the logits after one more id.
    fn logits(&self, id: u32) -> Vec<Vec<f32>> {
        let of = |slot: &SlotId| {
            let feed = Feed { slot: *slot, ids: &[id], want: Want::Logits(0..1) };
            let Got::Logits(row) = self.model.slots().step(&[feed]).unwrap().remove(0) else { panic!() };
            row
        };
        self.slots.iter().map(of).collect()
    }

    fn end(self) {
        self.slots.iter().for_each(|slot| self.model.slots().end(*slot));
    }
}

#[test]
fn steps_that_run_ahead_give_what_steps_in_turn_give() {
    let Some(gpu) = gpu() else { return };
    let model = tiny(&gpu, "llama", PlanOptions { n_pages: Some(48), ..OPTIONS });
    // Before, at and past the seam of a page.
    for lengths in [&[250][..], &[3, 256, 255], &[1, 2, 3, 17, 254, 30, 200, 511]] {
        let mut in_turn = None;
        for depth in 0..=3 {
            model.slots().set_run_ahead(depth);
            let before = model.slots().counts();
            let mut drawn = Drawn::start(&model, lengths);
            (0..20).for_each(|i| drawn.step(19 - i));
            let after = model.slots().counts();
            assert_eq!(after.taken_back, before.taken_back, "as many ran ahead as were asked for");
            assert_eq!(after.ahead - before.ahead, if depth == 0 { 0 } else { 19 });
            let result = (drawn.ids.clone(), drawn.logits(7));
            drawn.end();
            let expected = in_turn.get_or_insert_with(|| result.clone());
            assert!(result == *expected, "{depth} ahead, {lengths:?}");
            let mut other = expected.clone();
            other.1[0][0] = -other.1[0][0];
            assert!(result != other, "control: one falsified bit is seen");
        }
    }
    clean(&gpu);
}

#[test]
fn what_ran_ahead_is_taken_back() {
    let Some(gpu) = gpu() else { return };
    for (name, n_pages) in [("llama", 48), ("gemma3-head-256", 48), ("qwen3", 4)] {
        let model = tiny(&gpu, name, PlanOptions { n_pages: Some(n_pages), ..OPTIONS });
        let mut in_turn = None;
        for depth in 0..=3 {
            model.slots().set_run_ahead(depth);
            let before = model.slots().counts();
            let mut drawn = Drawn::start(&model, &[254, 9]);
            (0..2).for_each(|_| drawn.step(100));
            // The first sequence ends its answer here and goes on with another prompt; steps beyond are in flight.
            drawn.next[0] = vec![5, 6, 7];
            (0..3).for_each(|_| drawn.step(100));
            // A stop string that began two ids ago.
            let slot = drawn.slots[1];
            let n_past = model.slots().n_past(slot).unwrap();
            model.slots().rewind(slot, n_past - 2).unwrap();
            drawn.next[1] = vec![40];
            (0..3).for_each(|_| drawn.step(100));
            // A second sequence from the same point, while steps are in flight.
            let fork = model.slots().fork(drawn.slots[0]).unwrap();
            (0..2).for_each(|_| drawn.step(100));
            let saved = model.slots().save(drawn.slots[0]).unwrap();
            let taken_back = model.slots().counts().taken_back - before.taken_back;
            assert!(
                if depth == 0 { taken_back == 0 } else { taken_back >= 3 * depth as u64 },
                "{taken_back}"
            );
            let mut result = (drawn.ids.clone(), saved, drawn.logits(3));
            drawn.slots = vec![fork];
            result.2.extend(drawn.logits(3));
            drawn.end();
            // Every slot and page is free again: the next depth starts from nothing.
            model.slots().end(slot);
            let expected = in_turn.get_or_insert_with(|| result.clone());
            assert!(result == *expected, "{depth} ahead, {name}");
        }
    }
    clean(&gpu);
}

#[test]
fn nothing_runs_past_the_end_of_a_context() {
    let Some(gpu) = gpu() else { return };
    let model = tiny(&gpu, "llama", OPTIONS);
    let mut in_turn = None;
    for depth in 0..=3 {
        model.slots().set_run_ahead(depth);
        let mut drawn = Drawn::start(&model, &[N_CTX - 5]);
        (0..6).for_each(|_| drawn.step(100));
        let full = Feed { slot: drawn.slots[0], ids: &[1], want: Want::Choice };
        let full = model.slots().step(&[full]).unwrap_err();
        assert_eq!(full, ForwardError::ContextFull { needed: N_CTX + 1, n_ctx: N_CTX });
        let ids = drawn.ids.clone();
        drawn.end();
        assert_eq!(*in_turn.get_or_insert_with(|| ids.clone()), ids, "{depth} ahead");
    }
    clean(&gpu);
}

#[test]
fn another_wish_takes_back_what_ran_under_the_first() {
    let Some(gpu) = gpu() else { return };
    let model = tiny(&gpu, "llama", OPTIONS);
    let mut in_turn = None;
    for depth in [0, 2] {
        model.slots().set_run_ahead(depth);
        let mut drawn = Drawn::start(&model, &[20]);
        let mut ids = Vec::new();
        for seed in 0..6 {
            drawn.samplers[0] = Sampler::new(SampleOptions { temperature: 3.0, ..options(8 * seed + 1) }, 0);
            (0..3).for_each(|_| drawn.step(100));
            // Logits of a step that runs already would be those of a later one.
            let id = drawn.next[0][0];
            ids.push((drawn.ids.clone(), drawn.logits(id)));
            drawn.next[0] = vec![id];
        }
        drawn.end();
        assert!(*in_turn.get_or_insert_with(|| ids.clone()) == ids, "{depth} ahead");
    }
    // Greedy chains are told once, whoever asks.
    assert_eq!(Sampler::greedy().chain(), Chain::GREEDY);
    clean(&gpu);
}
