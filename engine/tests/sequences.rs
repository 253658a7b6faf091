//! Many sequences of one model on the Vulkan device that is here: fed in one command, forked, saved, put aside. What is
//! done to one changes no bit of another. `KILN_LONG=1` also runs a real model.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod fetched;
mod slots;
mod tiny;

use kiln_abi::Device as _;
use kiln_engine::forward::{Backend as _, Choice, ForwardError};
use kiln_engine::gguf::{Gguf, GgufWriter};
use kiln_engine::models;
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::session::ModelFile;
use kiln_engine::submit::{DeviceModel, Feed, Got, SlotId, Want};
use kiln_kernels::{Registry, kv_type::KvType};
use kiln_runtime::Gpu;
use slots::{choose, clean, feed, gpu, ids, load, one, tiny, together};
use tiny::Tiny;

const N_CTX: usize = 600;
const OPTIONS: PlanOptions = PlanOptions::new(ContextWish::Exactly(N_CTX));

#[test]
fn sequences_in_one_command_get_what_each_gets_alone() {
    let Some(gpu) = gpu() else { return };
    let model = load(&gpu, &tiny("llama").file(), PlanOptions { n_pages: Some(48), ..OPTIONS });
    // Prompts before, at and past the seam of a page.
    let prompt = |i: usize| ids(i, [3, 255, 17, 256, 40, 270, 1, 128][i % 8] + i / 8);
    const STEPS: usize = 4;
    let alone: Vec<Vec<Vec<f32>>> = (0..16)
        .map(|i| {
            let slot = model.slots().start(N_CTX).unwrap();
            feed(&model, slot, &prompt(i));
            let rows = ids(100 + i, STEPS).into_iter().map(|id| one(&model, slot, id)).collect();
            model.slots().end(slot);
            rows
        })
        .collect();
    for n in [1, 2, 3, 5, 8, 16] {
        let slots: Vec<_> = (0..n).map(|_| model.slots().start(N_CTX).unwrap()).collect();
        slots.iter().enumerate().for_each(|(i, slot)| feed(&model, *slot, &prompt(i)));
        let mut control = 0;
        (0..STEPS).for_each(|step| {
            let rows: Vec<_> =
                slots.iter().enumerate().map(|(i, slot)| (*slot, ids(100 + i, STEPS)[step])).collect();
            for (i, row) in together(&model, &rows).into_iter().enumerate() {
                let own = |i: usize| &alone[i % 16][step];
                assert!(row == *own(i), "sequence {i} of {n}, step {step}");
                control += usize::from(row != *own(i + 1));
            }
        });
        assert_eq!(control, n * STEPS, "another sequence's logits are other bits");
        slots.iter().for_each(|slot| model.slots().end(*slot));
    }
    clean(&gpu);
}

#[test]
fn sequences_of_another_model_and_outputs_beyond_the_ids_are_refused() {
    let Some(gpu) = gpu() else { return };
    let file = tiny("llama").file();
    let [a, b] = [0, 1].map(|_| load(&gpu, &file, OPTIONS));
    let (of_a, of_b) = (a.slots().start(N_CTX).unwrap(), b.slots().start(N_CTX).unwrap());
    let step = |model: &DeviceModel, slot| {
        model.slots().step(&[Feed { slot, ids: &[1], want: Want::Nothing }]).map(|_| ())
    };
    assert_eq!(step(&b, of_a), Err(ForwardError::UnknownSlot));
    assert_eq!((step(&a, of_a), step(&b, of_b)), (Ok(()), Ok(())));
    let mut sequence = a.sequence(N_CTX).unwrap();
    for outputs in [0..4, 2..usize::MAX, 0..1_000_000] {
        let refused = sequence.feed(&[1, 2, 3], outputs.clone());
        assert_eq!(refused, Err(ForwardError::NoSuchOutputs { outputs, fed: 3 }));
        assert_eq!(sequence.n_past(), 0);
    }
    clean(&gpu);
}

#[test]
fn a_prefill_chunk_beside_decode_rows_changes_none_of_them() {
    let Some(gpu) = gpu() else { return };
    let model = load(&gpu, &tiny("qwen3").file(), OPTIONS);
    let [a, b, c] = [0, 1, 2].map(|_| model.slots().start(N_CTX).unwrap());
    feed(&model, a, &ids(1, 20));
    feed(&model, b, &ids(2, 300));
    let [fork_a, fork_b] = [a, b].map(|slot| model.slots().fork(slot).unwrap());
    let expected = (choose(&model, fork_a, &[5]), one(&model, fork_b, 6));
    // Short enough for each of its rows to be what it is alone.
    let chunk = ids(3, 12);
    let feeds = [
        Feed { slot: a, ids: &[5], want: Want::Choice },
        Feed { slot: c, ids: &chunk, want: Want::Logits(10..12) },
        Feed { slot: b, ids: &[6], want: Want::Logits(0..1) },
    ];
    let got = model.slots().step(&feeds).unwrap();
    assert_eq!(got[0], Got::Choice(Choice::Token(expected.0)));
    assert!(got[2] == Got::Logits(expected.1));
    let alone = model.slots().start(N_CTX).unwrap();
    feed(&model, alone, &chunk[..10]);
    let rows = [one(&model, alone, chunk[10]), one(&model, alone, chunk[11])].concat();
    assert!(got[1] == Got::Logits(rows));
    // The choices of a step that mixes spans are the rows of the next one.
    let seeds = model.slots().counts().seeds;
    let Got::Choice(Choice::Token(next)) = got[0] else { panic!("{:?}", got[0]) };
    let twice = Feed { slot: a, ids: &[next], want: Want::Choice };
    let refused = model.slots().step(&[twice.clone(), twice]).unwrap_err();
    assert_eq!(refused, ForwardError::UnknownSlot, "a sequence takes part once");
    let rows = ids(4, 520);
    let refused = model.slots().step(&[Feed { slot: a, ids: &rows, want: Want::Nothing }]).unwrap_err();
    assert!(matches!(refused, ForwardError::TooManyRows { rows: 520, .. }), "{refused}");
    assert_eq!(model.slots().counts().seeds, seeds, "what is refused does not run");
    clean(&gpu);
}

/// What each feed gets alone, on a fork of its sequence.
fn alone(model: &DeviceModel, feeds: &[Feed]) -> Vec<Got> {
    let one = |feed: &Feed| {
        let slot = model.slots().fork(feed.slot).unwrap();
        let got = model.slots().step(&[Feed { slot, ..feed.clone() }]).unwrap().remove(0);
        model.slots().end(slot);
        got
    };
    feeds.iter().map(one).collect()
}

#[test]
fn what_a_feed_gets_depends_on_nobody_else_in_the_step() {
    let Some(gpu) = gpu() else { return };
    let whole = ["llama", "qwen2", "gemma3-head-256"].map(|name| (name, tiny(name).file()));
    // Norms whose scale comes late, sums and blocks that products leave in a step of one row alone.
    let packed = ["qwen2", "qwen2-rope-yarn"].map(|name| (name, tiny(name).packed()));
    for (name, file) in whole.into_iter().chain(packed) {
        let model = load(&gpu, &file, PlanOptions { n_pages: Some(48), ..OPTIONS });
        let after = |(seed, n): (usize, usize)| {
            let slot = model.slots().start(N_CTX).unwrap();
            feed(&model, slot, &ids(seed, n));
            slot
        };
        let [a, b, c, d, e, f, g] =
            [(1, 3), (2, 255), (3, 40), (4, 253), (5, 0), (6, 11), (7, 240)].map(after);
        let long = ids(20, 40);
        let all = |slot, ids| Feed { slot, ids, want: Want::Logits(0..ids.len()) };
        let last = |slot, ids| Feed { slot, ids, want: Want::Choice };
        let decode = [all(a, &long[..1]), last(b, &long[1..2]), all(c, &long[2..3])];
        let short = all(d, &long[3..8]);
        let (whole, wide, other) = (all(e, &long), last(f, &long[..17]), last(g, &long[..33]));
        let mixtures = [
            // Rows of decode, a chunk that is multiplied row by row and one that is multiplied on matrices.
            vec![decode[0].clone(), whole.clone(), decode[1].clone(), short.clone(), decode[2].clone()],
            vec![decode[1].clone(), wide.clone(), other.clone()],
            [&decode[..], &[short.clone(), whole.clone(), wide.clone(), other.clone()]].concat(),
            // More short rows than a step of few has.
            [a, b, c, d].map(|slot| all(slot, &long[..7])).to_vec(),
        ];
        for (at, feeds) in mixtures.iter().enumerate() {
            let expected = alone(&model, feeds);
            for again in 0..2 {
                let forks: Vec<_> = feeds.iter().map(|f| model.slots().fork(f.slot).unwrap()).collect();
                let own = feeds.iter().zip(&forks).map(|(f, slot)| Feed { slot: *slot, ..f.clone() });
                let (before, memory) = (model.slots().counts(), gpu.memory_use());
                let got = model.slots().step(&own.collect::<Vec<_>>()).unwrap();
                let counts = model.slots().counts();
                assert_eq!(counts.steps - before.steps, 1, "{name}, mixture {at}: one submit");
                if again == 1 {
                    assert_eq!((counts.recordings, gpu.memory_use()), (before.recordings, memory));
                }
                for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    assert!(got == expected, "{name}, mixture {at}: feed {i}");
                }
                // Control: what another gets is something else.
                assert!(got[0] != expected[2], "{name}, mixture {at}");
                forks.iter().for_each(|slot| model.slots().end(*slot));
            }
        }
        // Control: a feed that is cut otherwise is multiplied otherwise where there are matrices, and nowhere else.
        let fork = model.slots().fork(e).unwrap();
        let pieces = long.chunks(10).flat_map(|ids| {
            let got = model.slots().step(&[all(fork, ids)]).unwrap().remove(0);
            if let Got::Logits(rows) = got { rows } else { panic!("{got:?}") }
        });
        let pieces = Got::Logits(pieces.collect());
        assert_eq!(pieces != alone(&model, &[whole])[0], model.plan().matrices, "{name}");
    }
    clean(&gpu);
}

#[test]
fn calls_within_calls_and_threads_beside_each_other_do_not_wait_for_themselves() {
    let Some(gpu) = gpu() else { return };
    let model = &load(&gpu, &tiny("llama").file(), OPTIONS);
    let text = &ids(1, 6);
    let (done, all_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let answers = [0, 1, 2].map(|_| {
            let done = done.clone();
            scope.spawn(move || {
                let slot = model.slots().fork(model.slots().start(N_CTX).unwrap()).unwrap();
                let want = Want::Logits(model.slots().n_past(slot).unwrap()..text.len());
                let got = model.slots().step(&[Feed { slot, ids: text, want }]).map(|got| {
                    let saved = model.slots().save(slot).unwrap();
                    (got, model.slots().n_past(model.slots().load(&saved, N_CTX).unwrap()).unwrap())
                });
                done.send(()).unwrap();
                got.unwrap()
            })
        });
        for _ in 0..3 {
            if all_done.recv_timeout(std::time::Duration::from_secs(60)).is_err() {
                // What waits for itself is never joined.
                eprintln!("a call waits for itself");
                std::process::exit(1);
            }
        }
        let [first, rest @ ..] = answers.map(|thread| thread.join().unwrap());
        assert_eq!(first.1, text.len());
        assert!(rest.iter().all(|other| *other == first), "threads get what one gets");
    });
    clean(&gpu);
}

#[test]
fn outputs_of_a_mixed_step_have_less_room() {
    let Some(gpu) = gpu() else { return };
    let model = load(&gpu, &tiny("llama").file(), OPTIONS);
    if !model.plan().matrices {
        return println!("NOT RUN: {} multiplies no matrices, no step has parts", gpu.caps().name);
    }
    let slots: Vec<_> = (0..4).map(|_| model.slots().start(N_CTX).unwrap()).collect();
    let most = model.plan().outputs_beside as usize;
    let text = ids(1, 40);
    // One long feed and three short ones, and how many logits they want.
    let mixed = |long: usize, short: [usize; 3]| {
        let short = short.iter().zip(&slots[1..]).map(|(n, slot)| (*slot, *n, *n));
        let all = std::iter::once((slots[0], text.len(), long)).chain(short);
        let feeds: Vec<_> = all
            .map(|(slot, n, n_out)| Feed { slot, ids: &text[..n], want: Want::Logits(n - n_out..n) })
            .collect();
        let expected = alone(&model, &feeds);
        let got = model.slots().step(&feeds).map(|got| got == expected);
        slots.iter().for_each(|slot| model.slots().rewind(*slot, 0).unwrap());
        got
    };
    let refused = Err(ForwardError::TooManyOutputs { outputs: most + 1, most });
    // Few logits of a long feed, and more of the short ones than have room beside it.
    assert_eq!(mixed(1, [16, 16, 1]), Ok(true));
    // Many of a long feed.
    assert_eq!(mixed(40, [16, 16, 0]), Ok(true));
    assert_eq!(mixed(40, [16, 16, 1]), refused);
    clean(&gpu);
}

#[test]
fn decode_records_writes_and_allocates_nothing() {
    let Some(gpu) = gpu() else { return };
    let model = load(&gpu, &tiny("llama").file(), OPTIONS);
    let slot = model.slots().start(N_CTX).unwrap();
    let mut token = choose(&model, slot, &ids(1, 3));
    token = choose(&model, slot, &[token]);
    let (before, memory) = (model.slots().counts(), gpu.memory_use());
    let n = N_CTX - model.slots().n_past(slot).unwrap();
    for _ in 0..n {
        token = choose(&model, slot, &[token]);
    }
    let after = model.slots().counts();
    assert_eq!(after.steps - before.steps, n as u64, "one submit per step");
    assert_eq!((after.recordings, after.seeds), (before.recordings, before.seeds));
    assert_eq!(after.tables - before.tables, 2, "pages two and three");
    assert_eq!(gpu.memory_use(), memory);
    let full = model.slots().step(&[Feed { slot, ids: &[token], want: Want::Choice }]).unwrap_err();
    assert_eq!(full, ForwardError::ContextFull { needed: N_CTX + 1, n_ctx: N_CTX });
    // Control: an id that is not the device's own choice costs a write, a window a recording.
    model.slots().rewind(slot, 50).unwrap();
    choose(&model, slot, &[(token + 1) % 48]);
    assert_eq!(model.slots().counts().seeds, after.seeds + 1);
    choose(&model, slot, &ids(2, 20));
    assert_eq!(model.slots().counts().recordings, after.recordings + 1);
    clean(&gpu);
}

#[test]
fn what_is_done_to_one_sequence_changes_no_bit_of_another() {
    let Some(gpu) = gpu() else { return };
    let file = tiny("gemma3-head-256").file();
    let mut saved_before = Vec::new();
    for kv_type in KvType::ALL {
        let model = load(&gpu, &file, PlanOptions { kv_type, ..OPTIONS });
        let untouched = model.slots().start(N_CTX).unwrap();
        let worked = model.slots().start(N_CTX).unwrap();
        feed(&model, untouched, &ids(1, 250));
        feed(&model, worked, &ids(2, 260));
        let [plain, same] = [untouched, worked].map(|slot| model.slots().fork(slot).unwrap());
        let expected: Vec<_> = ids(3, 12).into_iter().map(|id| one(&model, plain, id)).collect();
        let go_on: Vec<_> = ids(4, 3).into_iter().map(|id| one(&model, same, id)).collect();
        model.slots().end(plain);
        model.slots().end(same);
        assert_eq!(model.slots().n_past(plain), Err(ForwardError::UnknownSlot), "an id names nothing later");

        let mut steps = ids(3, 12).into_iter().zip(expected);
        let mut check = |what: &str| {
            let (id, expected) = steps.next().unwrap();
            assert!(one(&model, untouched, id) == expected, "{what}, {}", kv_type.name());
        };
        let continues = |slot: SlotId, what: &str| {
            for (id, expected) in ids(4, 3).into_iter().zip(&go_on) {
                assert!(one(&model, slot, id) == *expected, "{what}, {}", kv_type.name());
            }
        };
        check("before");
        let fork = model.slots().fork(worked).unwrap();
        continues(fork, "a fork");
        check("a fork");
        model.slots().rewind(fork, 260).unwrap();
        continues(fork, "a rewound fork");
        check("a rewind");
        let saved = model.slots().save(worked).unwrap();
        check("a save");
        let loaded = model.slots().load(&saved, N_CTX).unwrap();
        continues(loaded, "a loaded sequence");
        check("a load");
        model.slots().evict(worked).unwrap();
        assert!(model.slots().is_aside(worked).unwrap());
        check("an eviction");
        continues(worked, "an evicted sequence");
        assert!(!model.slots().is_aside(worked).unwrap());
        check("its return");
        model.slots().end(loaded);
        model.slots().end(fork);
        check("an end");

        // Controls: a falsified state continues otherwise, and no other bytes are taken for a state.
        let mut falsified = saved.clone();
        *falsified.last_mut().unwrap() ^= 0x40;
        let wrong = model.slots().load(&falsified, N_CTX).unwrap();
        assert!(one(&model, wrong, ids(4, 1)[0]) != go_on[0], "a falsified value");
        for bad in [&saved[..10], &saved[..saved.len() - 1], &saved_before] {
            let refused = model.slots().load(bad, N_CTX).unwrap_err();
            assert!(matches!(refused, ForwardError::Saved { .. }), "{refused}");
        }
        let short = model.slots().load(&saved, 100).unwrap_err();
        assert_eq!(short, ForwardError::ContextFull { needed: 260, n_ctx: 100 });
        saved_before = saved;
    }
    clean(&gpu);
}

#[test]
fn sequences_that_do_not_fit_together_take_turns() {
    let Some(gpu) = gpu() else { return };
    let file = tiny("llama").file();
    // Three pages of 256 positions for four sequences that need two each.
    let model = load(&gpu, &file, PlanOptions { n_slots: 3, n_pages: Some(3), ..OPTIONS });
    let roomy = load(&gpu, &file, PlanOptions { n_pages: Some(12), ..OPTIONS });
    let pairs: Vec<_> = (0..3)
        .map(|i| {
            let pair = (model.slots().start(N_CTX).unwrap(), roomy.slots().start(N_CTX).unwrap());
            feed(&model, pair.0, &ids(i, 290 + i));
            feed(&roomy, pair.1, &ids(i, 290 + i));
            pair
        })
        .collect();
    let mut aside = 0;
    for step in 0..4 {
        for (i, (tight, free)) in pairs.iter().enumerate() {
            aside += usize::from(model.slots().is_aside(*tight).unwrap());
            let id = ids(50 + i, 4)[step];
            assert!(one(&model, *tight, id) == one(&roomy, *free, id), "sequence {i}, step {step}");
        }
    }
    assert!(aside >= 8, "they were put aside {aside} times");
    let feeds = pairs.iter().map(|(slot, _)| Feed { slot: *slot, ids: &[1], want: Want::Nothing });
    let refused = model.slots().step(&feeds.collect::<Vec<_>>()).unwrap_err();
    assert!(matches!(refused, ForwardError::NoPages { .. }), "{refused}");
    clean(&gpu);
}

/// Files of the same bytes at the same offsets, whose matrices are named one format or another.
fn named(tiny: &Tiny, format: &str) -> ModelFile {
    let registry = Registry::builtin();
    let (f32, matrix) = (registry.format_named("F32").unwrap(), registry.format_named(format).unwrap());
    let mut writer = GgufWriter::new();
    let whole = tiny.file();
    writer.copy(whole.gguf.metadata(), |_| true).unwrap();
    for (name, shape) in &tiny.tensors {
        writer.tensor(name, shape, if shape.len() > 1 { matrix } else { f32 }).unwrap();
    }
    let mut data = writer.start(Vec::new()).unwrap();
    for (name, shape) in &tiny.tensors {
        let values = whole.gguf.tensor(name).unwrap().data;
        // The upper half of an f32 is a bf16; as an f16 it is another finite number.
        let halves: Vec<u8> = values.chunks_exact(4).flat_map(|x| [x[2], x[3]]).collect();
        data.data(if shape.len() > 1 { &halves } else { values }).unwrap();
    }
    let gguf = Gguf::from_bytes(data.finish().unwrap(), &registry).unwrap();
    let model = models::describe(&gguf).unwrap();
    ModelFile { gguf, model }
}

/// Loads each file in turn and gives its answers; a model stays on the device where it is not dropped.
fn in_turn(gpu: &Gpu, files: &[&ModelFile], dropped: bool) -> Result<Vec<Vec<u32>>, String> {
    let mut answers = Vec::new();
    let mut kept = Vec::new();
    for file in files {
        let before = gpu.memory_use().buffer_bytes;
        if before > 0 {
            return Err(format!("{before} bytes of an earlier model are on the device"));
        }
        let model = load(gpu, file, OPTIONS);
        let slot = model.slots().start(N_CTX).unwrap();
        let mut answer = vec![choose(&model, slot, &ids(9, 5))];
        for i in 0..15 {
            answer.push(choose(&model, slot, &[answer[i]]));
        }
        answers.push(answer);
        if !dropped {
            kept.push(model);
        }
    }
    Ok(answers)
}

#[test]
fn models_that_follow_each_other_answer_for_themselves() {
    let Some(gpu) = gpu() else { return };
    let tiny = tiny("llama");
    let (a, b) = (named(&tiny, "BF16"), named(&tiny, "F16"));
    let answers = in_turn(&gpu, &[&a, &b, &a], true).unwrap();
    assert_eq!(answers[0], answers[2], "A answers as before B");
    assert_ne!(answers[0], answers[1], "B is another model");
    // Control: with the drop left out, what stays is seen.
    let stays = in_turn(&gpu, &[&a, &b, &a], false).unwrap_err();
    assert!(stays.contains("of an earlier model"), "{stays}");
    clean(&gpu);
}

#[test]
fn keys_and_values_of_each_type_are_within_their_bar() {
    if std::env::var_os("KILN_LONG").is_none() {
        return println!("NOT RUN: KILN_LONG is not set, keys and values of a real model were not compared");
    }
    let Some(gpu) = gpu() else { return };
    let file = ModelFile::open(&fetched::model(), &Registry::builtin()).unwrap();
    let text: Vec<u32> = vec![504, 3575, 282, 4649, 314, 260, 1345, 28, 351, 253, 3046, 282, 216, 33, 30];
    let logits = |kv_type| {
        let model = load(&gpu, &file, PlanOptions { kv_type, ..OPTIONS });
        let slot = model.slots().start(N_CTX).unwrap();
        let want = Want::Logits(0..text.len());
        let got = model.slots().step(&[Feed { slot, ids: &text, want }]).unwrap().remove(0);
        if let Got::Logits(rows) = got { rows } else { panic!("{got:?}") }
    };
    let exact = logits(KvType::F32);
    let rms = |found: &[f32]| {
        let square = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
        (found.iter().zip(&exact).map(square).sum::<f64>() / exact.len() as f64).sqrt()
    };
    let (f16, q8_0) = (rms(&logits(KvType::F16)), rms(&logits(KvType::Q8_0)));
    println!("{}: rms against f32: f16 {f16:.5}, q8_0 {q8_0:.5}", gpu.caps().name);
    assert!(f16 < 0.015 && q8_0 < 0.05, "f16 {f16}, q8_0 {q8_0}");
    assert!(q8_0 > f16, "the control: the coarser type is further off");
    clean(&gpu);
}
