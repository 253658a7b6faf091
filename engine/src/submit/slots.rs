//! What is done to the sequences of a model: fed together, cloned, rewound, saved, put aside.

use std::cmp::Reverse;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kiln_abi::LaunchError;
use kiln_kernels::{kv_store::PAGE, reference::Penalties, sample::Chain};

use super::pages::{Missing, Pages};
use super::runner::{MAX_AHEAD, Runner, StepCounts};
use super::saved::{Layout, Opened};
use super::shared::{Draw, Feed, Got, RUN_AHEAD, SlotId, Want};
use super::step::{Part, Span};
use crate::forward::{Choice, ForwardError};
use crate::plan::{Plan, Width};

/// One sequence's state.
struct Sequence {
    generation: u64,
    n_past: usize,
    n_ctx: usize,
    /// When it was last fed, in steps.
    last_fed: u64,
    /// Its state, while the pages serve others.
    aside: Option<Vec<u8>>,
    /// What its line of the samplers' buffer holds.
    sampler: Option<Told>,
}

/// What the device knows of how a slot chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    chain: Chain,
    /// Positions whose ids it knows, and the last of those ids.
    known: (usize, u32),
}

/// The part of a step that a feed is in, and its first output there.
type Place = (usize, usize);

/// What [`super::Slots`] locks.
pub(super) struct Sequences {
    runner: Runner,
    pages: Pages,
    layout: Layout,
    sequences: Vec<Option<Sequence>>,
    n_steps: u64,
    plan: Arc<Plan>,
    n_ctx: usize,
    n_vocab: usize,
    /// Steps that may run ahead of what was asked for.
    run_ahead: usize,
}

impl Sequences {
    pub(super) fn new(runner: Runner, plan: &Arc<Plan>, layout: Layout) -> Self {
        let context = plan.context;
        Self {
            runner,
            pages: Pages::new(context.n_slots, &plan.groups, PAGE),
            layout,
            plan: Arc::clone(plan),
            sequences: (0..context.n_slots).map(|_| None).collect(),
            n_steps: 0,
            n_ctx: context.n_ctx as usize,
            n_vocab: plan.n_vocab as usize,
            run_ahead: RUN_AHEAD,
        }
    }

    /// Lets up to `depth` steps run ahead of the ids that were read, at most [`MAX_AHEAD`].
    pub(super) fn set_run_ahead(&mut self, depth: usize) {
        self.run_ahead = depth.min(MAX_AHEAD);
    }

    /// Steps that may run ahead.
    pub(super) const fn run_ahead(&self) -> usize {
        self.run_ahead
    }

    // ---- sequences ---------------------------------------------------------------------------------------------

    /// An empty sequence of at most `n_ctx` positions.
    ///
    /// # Errors
    /// As many as were planned for are there already.
    pub(super) fn start(&mut self, n_ctx: usize) -> Result<SlotId, ForwardError> {
        let n_slots = self.sequences.len();
        let index =
            self.sequences.iter().position(Option::is_none).ok_or(ForwardError::NoSlot { n_slots })?;
        // No other sequence of this process has it, so that a model never takes another one's for its own.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let (generation, n_ctx) = (MADE.fetch_add(1, Ordering::Relaxed), n_ctx.min(self.n_ctx));
        self.sequences[index] = Some(Sequence {
            generation,
            n_past: 0,
            n_ctx,
            last_fed: self.n_steps,
            aside: None,
            sampler: None,
        });
        Ok(SlotId { index, generation })
    }

    /// Ends a sequence; its id names nothing any more.
    pub(super) fn end(&mut self, slot: SlotId) {
        if self.get(slot).is_ok() {
            if let Err(error) = self.settle() {
                tracing::debug!(%error, "a sequence ends while its device fails");
            }
            self.pages.rewind(slot.index, 0);
            self.sequences[slot.index] = None;
        }
    }

    /// Positions of a sequence.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn n_past(&self, slot: SlotId) -> Result<usize, ForwardError> {
        Ok(self.get(slot)?.n_past)
    }

    /// Forgets every position from `n_past` on.
    ///
    /// # Errors
    /// The sequence has ended, cannot come back from where it was put aside, or has given back what it would need.
    pub(super) fn rewind(&mut self, slot: SlotId, n_past: usize) -> Result<(), ForwardError> {
        self.get(slot)?;
        self.settle()?;
        self.restore(slot, &[slot])?;
        let least = self.pages.least(slot.index);
        let sequence = self.get_mut(slot)?;
        if n_past > 0 && n_past < sequence.n_past.min(least) {
            return Err(ForwardError::Forgotten { n_past, least });
        }
        sequence.n_past = sequence.n_past.min(n_past);
        sequence.sampler = None;
        let n_past = sequence.n_past;
        self.pages.rewind(slot.index, n_past);
        Ok(())
    }

    /// A second sequence with the same positions. Their pages are the same until one of them writes.
    ///
    /// # Errors
    /// The sequence has ended, or there is no slot left.
    pub(super) fn fork(&mut self, slot: SlotId) -> Result<SlotId, ForwardError> {
        self.settle()?;
        let of = self.get(slot)?;
        let (n_past, n_ctx, aside) = (of.n_past, of.n_ctx, of.aside.clone());
        let made = self.start(n_ctx)?;
        self.pages.rewind(slot.index, n_past);
        self.pages.share(slot.index, made.index);
        let sequence = self.get_mut(made)?;
        (sequence.n_past, sequence.aside) = (n_past, aside);
        self.write_table()?;
        Ok(made)
    }

    /// The sequence's state as bytes, for [`Sequences::load`] with the same model and type of keys and values.
    ///
    /// # Errors
    /// The sequence has ended, or the device fails.
    pub(super) fn save(&mut self, slot: SlotId) -> Result<Vec<u8>, ForwardError> {
        self.settle()?;
        let sequence = self.get(slot)?;
        if let Some(aside) = &sequence.aside {
            return Ok(aside.clone());
        }
        let first = self.pages.first(slot.index);
        let mut out = self.layout.header(sequence.n_past, &first);
        for (index, group) in self.runner.store_groups().into_iter().enumerate() {
            let lengths = lengths(sequence.n_past).skip(first[group]);
            for (page, n) in self.pages.of(group, slot.index).iter().zip(lengths) {
                let content = self.runner.read_page(index, *page).map_err(LaunchError::from)?;
                self.layout.take(index, &content, n, &mut out);
            }
        }
        Ok(out)
    }

    /// A sequence of at most `n_ctx` positions that continues from a saved state.
    ///
    /// # Errors
    /// Bytes of another model or layout, more positions than `n_ctx`, or no slot.
    pub(super) fn load(&mut self, saved: &[u8], n_ctx: usize) -> Result<SlotId, ForwardError> {
        let n_past = self.layout.open(saved, &self.runner.page_bytes())?.n_past;
        let n_ctx = n_ctx.min(self.n_ctx);
        ForwardError::check(&[], n_past, n_ctx, self.n_vocab)?;
        let slot = self.start(n_ctx)?;
        let sequence = self.get_mut(slot)?;
        (sequence.n_past, sequence.aside) = (n_past, Some(saved.to_vec()));
        let restored = self.restore(slot, &[slot]);
        if restored.is_err() {
            self.end(slot);
        }
        restored.map(|()| slot)
    }

    /// Puts a sequence aside in the host's memory; its pages serve others until it is fed again.
    ///
    /// # Errors
    /// The sequence has ended, or the device fails.
    pub(super) fn evict(&mut self, slot: SlotId) -> Result<(), ForwardError> {
        let saved = self.save(slot)?;
        self.pages.rewind(slot.index, 0);
        self.get_mut(slot)?.aside = Some(saved);
        Ok(())
    }

    /// Whether a sequence is aside.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn is_aside(&self, slot: SlotId) -> Result<bool, ForwardError> {
        Ok(self.get(slot)?.aside.is_some())
    }

    // ---- steps -------------------------------------------------------------------------------------------------

    /// How often what was done.
    pub(super) fn counts(&self) -> StepCounts {
        self.runner.counts()
    }

    /// Feeds any number of sequences in one command and gives what each asked for, in their order.
    ///
    /// # Errors
    /// Sequences or ids that do not fit, or the device's failure; all sequences are then as before.
    pub(super) fn step(&mut self, feeds: &[Feed<'_>]) -> Result<Vec<Got>, ForwardError> {
        let (step, places) = self.describe(feeds)?;
        let slots: Vec<SlotId> = feeds.iter().map(|feed| feed.slot).collect();
        let untold = self.untold(feeds)?;
        let ahead = Self::wanted_ahead(feeds);
        // What ran ahead is of use if it is this very step, under what is asked now.
        if !untold.is_empty() || ahead.is_none() || !self.runner.flew(&step) {
            self.settle()?;
        }
        self.make_room(feeds, &slots)?;
        for (slot, words) in untold {
            self.runner.write_sampler(slot, &words).map_err(LaunchError::from)?;
        }
        let ahead = ahead.map(|ahead| self.room_ahead(feeds, ahead)).transpose()?;
        self.runner.run(&step, ahead)?;
        self.n_steps += 1;
        for feed in feeds {
            let n_steps = self.n_steps;
            let sequence = self.get_mut(feed.slot)?;
            sequence.n_past += feed.ids.len();
            sequence.last_fed = n_steps;
        }
        feeds.iter().zip(places).map(|(feed, place)| self.results(feed, place)).collect()
    }

    /// Waits for what ran ahead and takes it back: its positions and their pages.
    fn settle(&mut self) -> Result<(), ForwardError> {
        if self.runner.is_ahead() {
            self.runner.settle()?;
            for (index, sequence) in self.sequences.iter().enumerate() {
                if let Some(sequence) = sequence {
                    self.pages.rewind(index, sequence.n_past);
                }
            }
        }
        Ok(())
    }

    /// How many more steps like this one may follow on the device's own choices; none where logits are wanted.
    fn wanted_ahead(feeds: &[Feed<'_>]) -> Option<usize> {
        let of = |feed: &Feed<'_>| match &feed.want {
            Want::Draw(draw) if !feed.ids.is_empty() => Some(draw.ahead),
            Want::Choice if !feed.ids.is_empty() => Some(0),
            _ => None,
        };
        feeds.iter().map(of).reduce(|a, b| Some(a?.min(b?))).flatten()
    }

    /// As many of `wanted` steps as the contexts and the free pages have room for, with their pages.
    fn room_ahead(&mut self, feeds: &[Feed<'_>], wanted: usize) -> Result<usize, ForwardError> {
        let mut ahead = wanted.min(self.run_ahead);
        for feed in feeds {
            let sequence = self.get(feed.slot)?;
            ahead = ahead.min(sequence.n_ctx - sequence.n_past - feed.ids.len());
        }
        let mut changed = false;
        for feed in feeds {
            let n_past = self.get(feed.slot)?.n_past;
            match self.pages.reserve(feed.slot.index, n_past, n_past + feed.ids.len() + ahead) {
                Ok(reserved) => changed |= reserved.changed,
                // Nobody is put aside for what may be in vain.
                Err(Missing { .. }) => ahead = 0,
            }
        }
        if changed {
            self.write_table()?;
        }
        Ok(ahead)
    }

    /// The slots whose line of the samplers' buffer is not what their feed asks for, with what it has to be.
    fn untold(&mut self, feeds: &[Feed<'_>]) -> Result<Vec<(usize, Vec<u32>)>, ForwardError> {
        let mut untold = Vec::new();
        for feed in feeds {
            let sequence = self.get_mut(feed.slot)?;
            let told = sequence.sampler.take();
            let (chain, recent) = match &feed.want {
                Want::Draw(Draw { chain, recent, .. }) => (*chain, &recent[..]),
                Want::Choice => (Chain::GREEDY, &[][..]),
                Want::Nothing | Want::Logits(_) => continue,
            };
            // What the device knows after the step is noted when the step is over.
            let position = sequence.n_past + feed.ids.len();
            let same = told.filter(|told| {
                let knows = recent.last().is_some_and(|last| told.known == (position, *last));
                told.chain == chain && (knows || chain.penalties == Penalties::NONE)
            });
            if same.is_some() {
                sequence.sampler = same;
            } else {
                let position = u32::try_from(position).unwrap_or(u32::MAX);
                untold.push((feed.slot.index, chain.words(recent, position).to_vec()));
            }
        }
        Ok(untold)
    }

    /// The parts of the step that the feeds make together, and the place of each feed.
    fn describe(&self, feeds: &[Feed<'_>]) -> Result<(Vec<Part>, Vec<Place>), ForwardError> {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut parts: Vec<Part> = Vec::new();
        let mut placed = vec![(Width::Narrow, 0); feeds.len()];
        // A part's first outputs get a choice: those that want one.
        let chooses = |feed: &Feed<'_>| matches!(feed.want, Want::Choice | Want::Draw(_));
        let (choosing, others) = (feeds.iter().enumerate(), feeds.iter().enumerate());
        let choosing = choosing.filter(|(_, feed)| chooses(feed));
        for (at, feed) in choosing.chain(others.filter(|(_, feed)| !chooses(feed))) {
            let sequence = self.get(feed.slot)?;
            if feeds[..at].iter().any(|other| other.slot == feed.slot) {
                return Err(ForwardError::UnknownSlot);
            }
            ForwardError::check(feed.ids, sequence.n_past, sequence.n_ctx, self.n_vocab)?;
            let n = feed.ids.len();
            let outputs = match &feed.want {
                Want::Nothing => 0..0,
                Want::Logits(range) => range.start.min(n)..range.end.min(n),
                Want::Choice | Want::Draw(_) => n.saturating_sub(1)..n,
            };
            let width = self.plan.width(n, outputs.len());
            let known = parts.iter().position(|part| part.width == width);
            let part = known.unwrap_or_else(|| {
                parts.push(Part::new(width));
                parts.len() - 1
            });
            let part = &mut parts[part];
            placed[at] = (width, part.outputs.len());
            let first = part.ids.len();
            let (slot, pos0) = (count(feed.slot.index), count(sequence.n_past));
            part.spans.push(Span { slot, pos0, n_rows: count(n) });
            part.ids.extend_from_slice(feed.ids);
            part.outputs.extend(outputs.map(|row| count(first + row)));
        }
        let (window, most) = (self.plan.window as usize, self.plan.outputs as usize);
        let beside = self.plan.outputs_beside as usize;
        // The first place has room for more outputs than those beside it; who asks for many logits always gets it.
        parts.sort_by_key(|part| {
            (part.width != Width::Whole, part.outputs.len() <= beside, Reverse(part.width))
        });
        let sum = |of: fn(&Part) -> usize| parts.iter().map(of).sum::<usize>();
        let (rows, outputs) = (sum(|part| part.ids.len()), sum(|part| part.outputs.len()));
        if rows > window {
            return Err(ForwardError::TooManyRows { rows, most: window });
        }
        if outputs > most {
            return Err(ForwardError::TooManyOutputs { outputs, most });
        }
        if let Some(part) = parts.iter().skip(1).find(|part| part.outputs.len() > beside) {
            return Err(ForwardError::TooManyOutputs { outputs: part.outputs.len(), most: beside });
        }
        let part_of = |width: Width| parts.iter().position(|part| part.width == width).unwrap_or(0);
        let places = placed.into_iter().map(|(width, first)| (part_of(width), first)).collect();
        Ok((parts, places))
    }

    /// Brings every sequence of a step to the device, with pages for its new positions.
    fn make_room(&mut self, feeds: &[Feed<'_>], slots: &[SlotId]) -> Result<(), ForwardError> {
        let mut changed = false;
        for feed in feeds {
            changed |= self.get(feed.slot)?.aside.is_some();
            self.restore(feed.slot, slots)?;
            let n_past = self.get(feed.slot)?.n_past;
            changed |= self.reserve(feed.slot, n_past, n_past + feed.ids.len(), slots)?;
        }
        if changed { self.write_table() } else { Ok(()) }
    }

    /// Pages for positions `from..to`, of sequences put aside where none are free; says whether they changed.
    fn reserve(
        &mut self,
        slot: SlotId,
        from: usize,
        to: usize,
        kept: &[SlotId],
    ) -> Result<bool, ForwardError> {
        loop {
            match self.pages.reserve(slot.index, from, to) {
                Ok(reserved) => {
                    for (group, copy) in reserved.copies {
                        self.runner.copy_page(group, copy).map_err(LaunchError::from)?;
                    }
                    return Ok(reserved.changed);
                }
                Err(Missing { needed, free }) => match self.idlest(kept) {
                    Some(idle) => {
                        tracing::debug!(slot = idle.index, "a sequence is put aside for its pages");
                        self.evict(idle)?;
                    }
                    None => return Err(ForwardError::NoPages { needed, free }),
                },
            }
        }
    }

    /// The sequence with pages that was not fed for longest, none of `kept`.
    fn idlest(&self, kept: &[SlotId]) -> Option<SlotId> {
        let here = self.sequences.iter().enumerate().filter_map(|(index, sequence)| {
            let sequence = sequence.as_ref()?;
            let slot = SlotId { index, generation: sequence.generation };
            (!kept.contains(&slot) && self.pages.has_any(index)).then_some((sequence.last_fed, slot))
        });
        here.min_by_key(|(last_fed, _)| *last_fed).map(|(_, slot)| slot)
    }

    /// Brings a sequence that was put aside back to the device.
    fn restore(&mut self, slot: SlotId, kept: &[SlotId]) -> Result<(), ForwardError> {
        let sequence = self.get_mut(slot)?;
        let Some(saved) = sequence.aside.take() else { return Ok(()) };
        let restored = self.refill(slot, &saved, kept);
        if restored.is_err() {
            self.pages.rewind(slot.index, 0);
            self.get_mut(slot)?.aside = Some(saved);
        }
        restored
    }

    /// Writes a saved state to pages of a sequence that has none.
    fn refill(&mut self, slot: SlotId, saved: &[u8], kept: &[SlotId]) -> Result<(), ForwardError> {
        let page_bytes = self.runner.page_bytes();
        let Opened { n_past, first, mut content } = self.layout.open(saved, &page_bytes)?;
        self.pages.start_at(slot.index, &first);
        self.reserve(slot, 0, n_past, kept)?;
        let stores = self.runner.store_groups().into_iter().zip(page_bytes);
        for (index, (group, bytes)) in stores.enumerate() {
            let lengths = lengths(n_past).skip(first[group]);
            for (page, n) in self.pages.of(group, slot.index).iter().zip(lengths) {
                let (whole, rest) = self.layout.put(index, bytes, n, content);
                self.runner.write_page(index, *page, &whole).map_err(LaunchError::from)?;
                content = rest;
            }
        }
        self.write_table()
    }

    /// What a feed asked for, its outputs starting at `first` of its part.
    fn results(&mut self, feed: &Feed<'_>, (part, first): Place) -> Result<Got, ForwardError> {
        Ok(match &feed.want {
            Want::Nothing => Got::Nothing,
            Want::Logits(range) => {
                let n = range.end.min(feed.ids.len()).saturating_sub(range.start);
                Got::Logits(self.runner.logits(part, first, n)?)
            }
            Want::Choice | Want::Draw(_) if feed.ids.is_empty() => Got::Nothing,
            Want::Choice | Want::Draw(_) => {
                let chosen = self.runner.chosen(part, first);
                let chain = if let Want::Draw(draw) = &feed.want { draw.chain } else { Chain::GREEDY };
                let sequence = self.get_mut(feed.slot)?;
                let known = sequence.n_past + 1;
                sequence.sampler = chosen.map(|id| Told { chain, known: (known, id) });
                Got::Choice(match chosen {
                    Some(token) => Choice::Token(token),
                    None => Choice::Logits(self.runner.logits(part, first, 1)?),
                })
            }
        })
    }

    fn write_table(&mut self) -> Result<(), ForwardError> {
        let tables = self.pages.tables(self.plan.context.max_pages);
        Ok(self.runner.write_tables(&tables).map_err(LaunchError::from)?)
    }

    fn get(&self, slot: SlotId) -> Result<&Sequence, ForwardError> {
        let found = self.sequences.get(slot.index).and_then(Option::as_ref);
        found.filter(|s| s.generation == slot.generation).ok_or(ForwardError::UnknownSlot)
    }

    fn get_mut(&mut self, slot: SlotId) -> Result<&mut Sequence, ForwardError> {
        let found = self.sequences.get_mut(slot.index).and_then(Option::as_mut);
        found.filter(|s| s.generation == slot.generation).ok_or(ForwardError::UnknownSlot)
    }
}

/// Positions in use in each page of a sequence of `n_past`.
fn lengths(n_past: usize) -> impl Iterator<Item = usize> {
    let page = PAGE as usize;
    (0..n_past.div_ceil(page)).map(move |i| (n_past - i * page).min(page))
}
