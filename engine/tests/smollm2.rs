//! SmolLM2-135M-Instruct on the reference: its logits against an independent implementation, and an answer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fetched;

use std::process::Command;
use std::sync::OnceLock;

use kiln_engine::chat::Message;
use kiln_engine::forward::{Backend, ForwardError, feed_windows};
use kiln_engine::reference::Threads;
use kiln_engine::sample::{Penalties, SampleOptions};
use kiln_engine::session::{self, Device, ModelFile, Session, Stop, chat_prompt};
use kiln_engine::tokenizer::Tokenizer;
use kiln_kernels::Registry;
use serde::Deserialize;

/// The file and its model on the reference, loaded once for all tests.
fn model() -> (&'static ModelFile, &'static dyn Backend) {
    static MODEL: OnceLock<(ModelFile, Box<dyn Backend>)> = OnceLock::new();
    let (file, backend) = MODEL.get_or_init(|| {
        let registry = Registry::builtin();
        let file = ModelFile::open(&fetched::model(), &registry).unwrap();
        let device = Device::Reference { threads: Threads::new(None) };
        let backend = file.load(&registry, device, &|_, _| ()).unwrap();
        (file, backend)
    });
    (file, backend.as_ref())
}

#[derive(Deserialize)]
struct Vectors {
    sampled_ids: Vec<usize>,
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    ids: Vec<u32>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    row: usize,
    top_ids: Vec<usize>,
    top: Vec<f32>,
    sampled: Vec<f32>,
}

/// Largest difference between `logits` and what the vectors say of a row.
fn worst(logits: &[f32], row: &Row, sampled_ids: &[usize]) -> f32 {
    let top = row.top_ids.iter().zip(&row.top);
    let sampled = sampled_ids.iter().zip(&row.sampled);
    top.chain(sampled).map(|(&id, expected)| (logits[id] - expected).abs()).fold(0.0, f32::max)
}

fn all_logits(backend: &dyn Backend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut sequence = backend.sequence(ids.len()).unwrap();
    feed_windows(sequence.as_mut(), ids, 0..ids.len(), |_, rows| {
        logits.extend(rows);
        Ok::<_, ForwardError>(())
    })
    .unwrap();
    logits
}

#[test]
fn logits_equal_the_independent_implementation() {
    const BAR: f32 = 1e-3;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/logits/smollm2-135m-q4_1.json");
    let vectors: Vectors = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let lengths: Vec<usize> = vectors.prompts.iter().map(|prompt| prompt.ids.len()).collect();
    assert_eq!(lengths, [1, 5, 17, 60, 140, 300]);
    let (file, backend) = model();
    let n_vocab = file.model.graph.n_vocab();
    for Prompt { ids, rows } in &vectors.prompts {
        let logits = all_logits(backend, ids);
        for row in rows {
            let found = &logits[row.row * n_vocab..][..n_vocab];
            let difference = worst(found, row, &vectors.sampled_ids);
            println!("{} ids, row {}: largest difference {difference:.1e}", ids.len(), row.row);
            assert!(difference <= BAR, "{} ids, row {}: {difference}", ids.len(), row.row);
            let best = (0..n_vocab).fold(0, |best, id| if found[id] > found[best] { id } else { best });
            assert_eq!(best, row.top_ids[0]);
        }
        // One token off, in the middle and near the end, must be seen far beyond the bar.
        if ids.len() > 1 && ids.len() <= 60 {
            for at in [ids.len() / 2, ids.len() - 2] {
                let mut other = ids.clone();
                other[at] += 1;
                let logits = all_logits(backend, &other);
                let last = rows.last().unwrap();
                let difference = worst(&logits[last.row * n_vocab..], last, &vectors.sampled_ids);
                assert!(difference > 100.0 * BAR, "id {at} of {} changed: {difference}", ids.len());
            }
        }
    }
}

#[test]
fn capital_of_france_is_paris_and_turns_reuse_the_sequence() {
    let (file, backend) = model();
    let tokenizer = Tokenizer::from_gguf(&file.gguf).unwrap();
    let template = session::chat_template(&file.gguf).unwrap();
    let greedy = SampleOptions {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        penalties: Penalties::NONE,
        seed: 0,
    };
    let mut messages = vec![Message::text("user", "Name the capital of France.")];
    let prompt = chat_prompt(&tokenizer, &template, &messages).unwrap();
    let mut session = Session::new(backend, 512).unwrap();
    let mut streamed = String::new();
    let piece = |text: &str| {
        streamed += text;
        Ok(())
    };
    let answer = session.generate(&prompt, &tokenizer, greedy, 40, &|_, _| (), piece).unwrap();
    println!("{}", answer.text);
    assert!(answer.text.contains("Paris"), "{}", answer.text);
    assert_eq!((answer.stop, answer.n_fed), (Stop::End, prompt.len()));
    assert_eq!(streamed, answer.text);

    messages.push(Message::text("assistant", &answer.text));
    messages.push(Message::text("user", "And of Italy?"));
    let second = chat_prompt(&tokenizer, &template, &messages).unwrap();
    let again = session.generate(&second, &tokenizer, greedy, 8, &|_, _| (), |_| Ok(())).unwrap();
    assert!(again.n_fed < second.len() - prompt.len(), "the first turn is not fed again");
    let mut fresh = Session::new(backend, 512).unwrap();
    let afresh = fresh.generate(&second, &tokenizer, greedy, 8, &|_, _| (), |_| Ok(())).unwrap();
    assert_eq!(again.ids, afresh.ids, "what was kept equals what is computed afresh");
}

/// Runs the program on the model; its standard output.
fn kiln(command: &str, args: &[&str]) -> String {
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = kiln.arg(command).arg(fetched::model()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn run_in_json_tells_everything_and_a_seed_repeats_it() {
    let answer = |seed| -> serde_json::Value {
        let args = ["-p", "Tell me a story.", "-n", "12", "--seed", seed, "--json", "--device", "reference"];
        serde_json::from_str(&kiln("run", &args)).unwrap()
    };
    let (first, again, other) = (answer("1"), answer("1"), answer("2"));
    assert_eq!((first["ids"].as_array().unwrap().len(), &first["stop"]), (12, &"length".into()));
    assert_eq!(first["ids"], again["ids"]);
    assert_ne!(first["ids"], other["ids"]);
    assert!(first["prompt_ids"].as_array().unwrap().len() > 20, "the chat template frames the prompt");
    assert!(first["timings"]["decode_tokens_per_second"].as_f64().unwrap() > 0.0);
    let raw = kiln("run", &["-p", "1, 2, 3, 4,", "--raw", "--temp", "0", "-n", "3", "--device", "reference"]);
    assert!(raw.starts_with(" 5,"), "{raw:?}");
}

#[test]
fn logits_command_writes_the_rows_asked_for() {
    const N_VOCAB: usize = 49152;
    let path = std::env::temp_dir().join(format!("kiln-logits-{}.f32", std::process::id()));
    let rows = |args: &[&str]| -> Vec<f32> {
        let fixed = ["--ids", "504,2413,282,4649", "--device", "reference", "--out", path.to_str().unwrap()];
        assert_eq!(kiln("logits", &[&fixed, args].concat()), "");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
    };
    let agree =
        |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    let all = rows(&[]);
    assert_eq!(all.len(), 4 * N_VOCAB);
    assert!(agree(&rows(&["--last", "3"]), &all[N_VOCAB..]));
    assert!(agree(&rows(&["--forced", "2"]), &all[N_VOCAB..]), "after the prompt and after each step");
    assert!(agree(&rows(&["--forced", "2", "--last", "1"]), &all[3 * N_VOCAB..]));
    assert!(!agree(&all[..N_VOCAB], &all[N_VOCAB..2 * N_VOCAB]), "rows differ from each other");
}
