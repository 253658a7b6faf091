//! Layers that see a window of positions give back the pages of what they no longer see: the same bits as of a plan that
//! keeps all, in memory that the window bounds, whatever is done to a sequence.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod slots;
mod tiny;

use kiln_engine::forward::{Backend as _, ForwardError};
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::submit::{DeviceModel, SlotId};
use kiln_kernels::{kv_store::PAGE, kv_type::KvType};
use slots::{choose, clean, feed, gpu, ids, load, one, tiny};

const N_CTX: usize = 1400;
/// What the tiny models' layers with a window see.
const WINDOW: usize = 8;
const OPTIONS: PlanOptions = PlanOptions { n_slots: 4, ..PlanOptions::new(ContextWish::Exactly(N_CTX)) };

/// The same model under the usual plan and under one that keeps all pages.
struct Twins {
    windowed: DeviceModel,
    whole: DeviceModel,
}

/// A sequence on each of them.
type Twin = (SlotId, SlotId);

impl Twins {
    fn start(&self) -> Twin {
        (self.windowed.slots().start(N_CTX).unwrap(), self.whole.slots().start(N_CTX).unwrap())
    }

    fn feed(&self, twin: Twin, ids: &[u32]) {
        feed(&self.windowed, twin.0, ids);
        feed(&self.whole, twin.1, ids);
    }

    /// Both continue alike, by ids of `seed`.
    fn agree(&self, twin: Twin, seed: usize, what: &str) {
        for id in ids(seed, 3) {
            assert!(one(&self.windowed, twin.0, id) == one(&self.whole, twin.1, id), "{what}");
        }
    }

    fn fork(&self, twin: Twin) -> Twin {
        (self.windowed.slots().fork(twin.0).unwrap(), self.whole.slots().fork(twin.1).unwrap())
    }

    fn end(&self, twin: Twin) {
        self.windowed.slots().end(twin.0);
        self.whole.slots().end(twin.1);
    }
}

#[test]
fn recycled_pages_change_no_bit_whatever_is_done_to_a_sequence() {
    let Some(gpu) = gpu() else { return };
    // Layers of both kinds, and layers with a window only.
    for (name, kv_type) in [("gemma2", KvType::F16), ("gemma3-head-256", KvType::Q8_0)] {
        let file = tiny(name).file();
        // Two sequences at a time have pages: what one gives back, the other writes to.
        let options = PlanOptions { kv_type, n_pages: Some(8), ..OPTIONS };
        let whole = PlanOptions { keep_all: true, n_pages: Some(24), ..options };
        let twins = Twins { windowed: load(&gpu, &file, options), whole: load(&gpu, &file, whole) };
        let groups = &twins.windowed.plan().groups;
        let window = groups.iter().find(|group| group.window == Some(WINDOW)).unwrap();
        assert_eq!(window.n_pages, 8, "{name}");

        let (a, b) = (twins.start(), twins.start());
        for (at, n) in [(0, 100), (1, 300), (2, 128), (3, 1), (4, 500)] {
            twins.feed(a, &ids(10 + at, n));
            twins.feed(b, &ids(20 + at, n + 7));
            twins.agree(a, 30 + at, name);
            twins.agree(b, 40 + at, name);
        }
        let fork = twins.fork(a);
        twins.feed(fork, &ids(50, 200));
        twins.agree(fork, 51, "a fork");
        twins.agree(a, 52, "what was forked");
        // Back over a seam of pages, as far as a plan lets everybody.
        let n_past = twins.windowed.slots().n_past(a.0).unwrap();
        let back = n_past - PAGE as usize;
        twins.windowed.slots().rewind(a.0, back).unwrap();
        twins.whole.slots().rewind(a.1, back).unwrap();
        twins.agree(a, 53, "a rewind");
        twins.agree(fork, 54, "the fork of what was rewound");
        twins.end(fork);

        let saved = twins.windowed.slots().save(a.0).unwrap();
        let whole = twins.whole.slots().save(a.1).unwrap();
        assert!(saved.len() < whole.len(), "what is given back is not saved");
        twins.windowed.slots().evict(b.0).unwrap();
        let loaded = (
            twins.windowed.slots().load(&saved, N_CTX).unwrap(),
            twins.whole.slots().load(&whole, N_CTX).unwrap(),
        );
        twins.feed(loaded, &ids(60, 300));
        twins.agree(loaded, 61, "a loaded sequence");
        twins.agree(a, 62, "what was saved");
        twins.agree(b, 63, "an evicted sequence");

        // Controls: one more id makes other bits, and a state whose first page is moved is none.
        feed(&twins.windowed, a.0, &[1]);
        assert!(one(&twins.windowed, a.0, 5) != one(&twins.whole, a.1, 5), "one step off");
        let mut moved = saved.clone();
        let at = 4 * (5 + groups.iter().position(|group| group.window.is_some()).unwrap());
        moved[at] += 1;
        let refused = twins.windowed.slots().load(&moved, N_CTX).unwrap_err();
        assert!(matches!(refused, ForwardError::Saved { .. }), "{refused}");
    }
    clean(&gpu);
}

#[test]
fn a_rewind_past_what_a_window_still_has_is_an_error_and_leaves_the_sequence_alone() {
    let Some(gpu) = gpu() else { return };
    let model = load(&gpu, &tiny("gemma2").file(), OPTIONS);
    let text = ids(1, 1300);
    let [slot, same] = [0, 1].map(|_| model.slots().start(N_CTX).unwrap());
    // In steps of few rows, whose arithmetic is the same for any number of them.
    let feed = |slot, text: &[u32]| text.chunks(16).for_each(|ids| feed(&model, slot, ids));
    feed(slot, &text);
    feed(same, &text);
    let refused = model.slots().rewind(slot, 20).unwrap_err();
    let ForwardError::Forgotten { n_past: 20, least } = refused else { panic!("{refused}") };
    assert!(least > 20 && least <= text.len() - PAGE as usize, "{least}");
    assert_eq!(model.slots().n_past(slot), Ok(text.len()));
    assert_eq!(one(&model, slot, 7), one(&model, same, 7), "as if nobody had asked");
    let refused = model.slots().rewind(slot, 20).unwrap_err();
    let ForwardError::Forgotten { n_past: 20, least } = refused else { panic!("{refused}") };
    // The neighbors that are served: as far as it says, not one further, and to nothing.
    let one_further = model.slots().rewind(slot, least - 1).unwrap_err();
    assert_eq!(one_further, ForwardError::Forgotten { n_past: least - 1, least });
    model.slots().rewind(slot, least).unwrap();
    model.slots().end(same);
    let fresh = model.slots().start(N_CTX).unwrap();
    feed(fresh, &text[..least]);
    assert_eq!(one(&model, slot, 9), one(&model, fresh, 9), "rewound as far as it goes");
    model.slots().rewind(slot, 0).unwrap();
    model.slots().rewind(fresh, 0).unwrap();
    assert_eq!(choose(&model, slot, &text[..3]), choose(&model, fresh, &text[..3]));
    model.slots().end(slot);
    model.slots().end(fresh);

    // A sequence on its own says how much is left, and starts over where it has to.
    let mut sequence = model.sequence(N_CTX).unwrap();
    sequence.feed_greedy(&text).unwrap();
    assert_eq!(sequence.rewind(1290), 1290);
    assert_eq!((sequence.rewind(20), sequence.n_past()), (0, 0));
    let again = sequence.feed(&text[..30], 29..30).unwrap();
    let mut fresh = model.sequence(N_CTX).unwrap();
    assert_eq!(fresh.feed(&text[..30], 29..30).unwrap(), again);
    clean(&gpu);
}

#[test]
fn the_memory_of_a_layer_with_a_window_does_not_grow_with_the_context() {
    let Some(gpu) = gpu() else { return };
    let file = tiny("gemma3-head-256").file();
    let plan = |n_ctx, keep_all| {
        let context = ContextWish::Exactly(n_ctx);
        let model = load(&gpu, &file, PlanOptions { context, keep_all, ..OPTIONS });
        (model.plan().need().kv, model.plan().to_string())
    };
    let (short, text) = plan(2_000, false);
    let (long, _) = plan(20_000, false);
    assert_eq!(short, long, "every layer of this model has a window");
    assert!(text.contains("5 pages a layer that sees 8 positions"), "{text}");
    // Control: a plan that keeps all.
    assert!(plan(20_000, true).0 > 15 * long);
    // As many pages as the plan says are enough to go anywhere.
    let model = load(&gpu, &file, PlanOptions { n_slots: 1, ..OPTIONS });
    let slot = model.slots().start(N_CTX).unwrap();
    assert_eq!(model.plan().groups[0].n_pages, 5);
    for at in 0..10 {
        feed(&model, slot, &ids(at, 128));
    }
    clean(&gpu);
}
