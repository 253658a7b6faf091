//! Ids of real vocabularies against those of another engine (`tests/vectors/tokenizer`, which says where they are from).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at what it did not expect")]

mod fetched;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kiln_engine::gguf::{Gguf, GgufWriter};
use kiln_engine::tokenizer::{ControlText, SpecialText, TokenId, Tokenizer};
use kiln_kernels::Registry;

const NAMES: [&str; 6] = ["smollm", "gpt-2", "llama-bpe", "qwen2", "llama-spm", WITHOUT_SPACE];
/// Made of llama-spm.
const WITHOUT_SPACE: &str = "llama-spm-no-space";

fn tokenizer(name: &str) -> Tokenizer {
    if name == WITHOUT_SPACE {
        let mut writer = GgufWriter::new();
        writer.copy(file("llama-spm").metadata(), |_| true).unwrap();
        writer.key("tokenizer.ggml.add_space_prefix", false).unwrap();
        let bytes = writer.start(Vec::new()).unwrap().finish().unwrap();
        return Tokenizer::from_gguf(&Gguf::from_bytes(bytes, &Registry::builtin()).unwrap()).unwrap();
    }
    Tokenizer::from_gguf(&file(name)).unwrap()
}

fn file(name: &str) -> Gguf {
    let path = match name {
        "smollm" => fetched::path("KILN_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf"),
        _ => fetched::path("KILN_VOCAB", "vocab").join(format!("ggml-vocab-{name}.gguf")),
    };
    assert!(path.exists(), "{} is missing: run `cargo xtask setup`", path.display());
    Gguf::open(&path, &Registry::builtin()).unwrap()
}

fn vectors(file: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/tokenizer");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// The lines, then the texts of several lines.
fn texts() -> Vec<String> {
    let mut all: Vec<String> = vectors("lines.txt").split_terminator('\n').map(str::to_owned).collect();
    all.extend(serde_json::from_str::<Vec<String>>(&vectors("texts.json")).unwrap());
    all
}

fn rows(file: &str) -> Vec<Vec<TokenId>> {
    let row = |line: &str| line.split_ascii_whitespace().map(|id| id.parse().unwrap()).collect();
    vectors(file).split_terminator('\n').map(row).collect()
}

/// The texts whose ids differ.
fn differences(
    texts: &[String],
    expected: &[Vec<TokenId>],
    encode: impl Fn(&str) -> Vec<TokenId>,
) -> Vec<usize> {
    assert_eq!(texts.len(), expected.len());
    (0..texts.len()).filter(|&at| encode(&texts[at]) != expected[at]).collect()
}

#[test]
fn ids_equal_the_other_engines() {
    let texts = texts();
    assert!(texts.len() >= 600, "{} texts", texts.len());
    for name in NAMES {
        let tokenizer = tokenizer(name);
        let plain = |text: &str| tokenizer.encode(text, SpecialText::Plain);
        let special = |text: &str| tokenizer.encode_framed(text, SpecialText::Parse);
        let mut expected = rows(&format!("{name}.plain.ids"));
        assert_eq!(differences(&texts, &expected, plain), [0; 0], "{name}, plain");
        assert_eq!(
            differences(&texts, &rows(&format!("{name}.special.ids")), special),
            [0; 0],
            "{name}, special"
        );
        println!("{name}: {} texts equal, plain and special", texts.len());

        // One id off by one is seen, and where it is.
        let at = expected.iter().position(|row| row.len() > 3).unwrap();
        expected[at][2] += 1;
        assert_eq!(differences(&texts, &expected, plain), [at], "{name}, falsified");
    }
}

/// A text comes back unless it holds one of the few bytes that a vocabulary cannot write.
#[test]
fn texts_come_back() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        let pieces = tokenizer.method_name() == "SentencePiece";
        let missing: BTreeSet<u8> = tokenizer.missing_bytes().into_iter().collect();
        assert_eq!(missing.is_empty(), name != "smollm", "{name}: {missing:02x?}");
        for text in texts().iter().filter(|text| !text.bytes().any(|byte| missing.contains(&byte))) {
            for special in [SpecialText::Plain, SpecialText::Parse] {
                let ids = tokenizer.encode(text, special);
                // SentencePiece's sign for a space is one; its spaces after control tokens stay.
                let expected = if pieces { text.replace('▁', " ") } else { text.clone() };
                if !pieces || special == SpecialText::Plain {
                    assert_eq!(tokenizer.decode(&ids, ControlText::Shown).unwrap(), expected, "{name}");
                }
            }
        }
    }
}

#[test]
fn a_prompt_has_one_bos_or_none() {
    let llama = tokenizer("llama-bpe");
    let bos = llama.bos().unwrap();
    assert!(llama.add_bos());
    let hello = llama.encode("Hello", SpecialText::Plain);
    for text in ["Hello", "<|begin_of_text|>Hello", "<|begin_of_text|><|begin_of_text|>Hello"] {
        let ids = llama.encode_prompt(text, SpecialText::Parse);
        assert_eq!(ids[0], bos);
        assert_eq!(ids[1..], hello);
    }
    assert_eq!(llama.encode_prompt("", SpecialText::Parse), [bos]);
    // Written by a stranger it is text, and does not count.
    let ids = llama.encode_prompt("<|begin_of_text|>", SpecialText::Plain);
    assert!(ids.len() > 2 && ids.iter().filter(|&&id| id == bos).count() == 1, "{ids:?}");

    for name in ["smollm", "gpt-2", "qwen2"] {
        let tokenizer = tokenizer(name);
        assert!(!tokenizer.add_bos(), "{name}");
        let ids = tokenizer.encode("Hello", SpecialText::Parse);
        assert_eq!(tokenizer.encode_prompt("Hello", SpecialText::Parse), ids, "{name}");
        assert_eq!(tokenizer.encode_framed("Hello", SpecialText::Parse), ids, "{name}");
    }
}

#[test]
fn the_tokens_that_end_an_answer() {
    let text = |tokenizer: &Tokenizer| {
        let ends: Vec<String> =
            tokenizer.ends().iter().map(|&id| tokenizer.decode(&[id], ControlText::Shown).unwrap()).collect();
        ends.join(" ")
    };
    assert_eq!(text(&tokenizer("smollm")), "<|endoftext|> <|im_end|> <reponame>");
    assert_eq!(text(&tokenizer("gpt-2")), "<|endoftext|>");
    assert_eq!(text(&tokenizer("llama-spm")), "</s>");
    assert_eq!(text(&tokenizer("llama-bpe")), "<|end_of_text|> <|eot_id|>");
    // A strikethrough tag of its training text, which the other engine takes for an end as well.
    assert_eq!(text(&tokenizer("qwen2")), "</s> <|endoftext|> <|im_end|>");
}

/// Hostile lines take time in proportion to their length: a quadratic merge would take minutes.
#[test]
fn long_lines() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for unit in ["a", " ", "ab", "1", "\n", "<|", "é", "<|im_start|>", "'", " \t"] {
            let size = if unit == "a" { 1 << 20 } else { 1 << 17 };
            let text = unit.repeat(size / unit.len());
            let start = Instant::now();
            let ids = tokenizer.encode(&text, SpecialText::Parse);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(20), "{name}, {unit:?}: {took:?}");
            assert_eq!(
                tokenizer.decode(&ids, ControlText::Shown).unwrap().len(),
                text.len(),
                "{name}, {unit:?}"
            );
        }
    }
}

/// Pieces that are printed as they come never hold half a character, and together are the text.
#[test]
fn a_stream_prints_whole_characters() {
    use kiln_engine::tokenizer::Detokenizer;
    let tokenizer = tokenizer("gpt-2");
    for text in texts() {
        let ids = tokenizer.encode(&text, SpecialText::Plain);
        let mut stream = Detokenizer::new(ControlText::Shown);
        let mut whole = String::new();
        for id in ids {
            let piece = stream.push(&tokenizer, id).unwrap();
            assert!(!piece.contains('\u{fffd}') || text.contains('\u{fffd}'), "{text:?}: {piece:?}");
            whole += &piece;
        }
        assert_eq!(stream.finish(), "", "{text:?}");
        assert_eq!(whole, text);
    }
}
