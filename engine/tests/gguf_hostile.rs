//! Bad files through the whole engine: each is a tiny model that runs, with one thing changed. The stage that declines
//! it names what is wrong, and `kiln` says so in one line and exits with 1; what does not need the bad part still works.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "gguf/file.rs"]
#[allow(dead_code, reason = "only some kinds of values are needed here")]
mod file;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use file::{Spec, Val, text, texts};
use kiln_engine::chat::{ChatError, Message};
use kiln_engine::gguf::{Gguf, GgufError};
use kiln_engine::models::{self, Decline, Model};
use kiln_engine::session::{self, Error};
use kiln_engine::tokenizer::{TokenId, Tokenizer, TokenizerError, byte_text};
use kiln_kernels::Registry;

const N_VOCAB: usize = 258;

/// One layer, n_embd 8, two heads on one, n_ff 12; a byte-level vocabulary with one merge; a template of one line.
fn tiny() -> Spec {
    let size = |spec: Spec, (key, n): (&str, u32)| spec.key(&format!("llama.{key}"), Val::U32(n));
    let sizes = [
        ("context_length", 32),
        ("block_count", 1),
        ("embedding_length", 8),
        ("feed_forward_length", 12),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ];
    let spec = sizes
        .into_iter()
        .fold(Spec::new().key("general.architecture", text("llama")), size)
        .key("llama.attention.layer_norm_rms_epsilon", Val::F32(1e-5));
    let mut tokens: Vec<String> = (0..=255u8).map(|byte| byte_text(&[byte])).collect();
    tokens.extend(["hi", "<|end|>"].map(str::to_owned));
    let types = (0..N_VOCAB).map(|id| Val::I32(if id == N_VOCAB - 1 { 3 } else { 1 })).collect();
    let spec = spec
        .key("tokenizer.ggml.model", text("gpt2"))
        .key("tokenizer.ggml.pre", text("smollm"))
        .key("tokenizer.ggml.tokens", texts(tokens))
        .key("tokenizer.ggml.token_type", Val::Array(5, types))
        .key("tokenizer.ggml.merges", texts(["h i"]))
        .key("tokenizer.ggml.eos_token_id", Val::U32(N_VOCAB as u32 - 1))
        .key("tokenizer.chat_template", text("{{ messages[0].content }}"));
    let shapes: [(&str, &[u64]); 11] = [
        ("token_embd", &[N_VOCAB as u64, 8]),
        ("blk.0.attn_norm", &[8]),
        ("blk.0.attn_q", &[8, 8]),
        ("blk.0.attn_k", &[4, 8]),
        ("blk.0.attn_v", &[4, 8]),
        ("blk.0.attn_output", &[8, 8]),
        ("blk.0.ffn_norm", &[8]),
        ("blk.0.ffn_gate", &[12, 8]),
        ("blk.0.ffn_up", &[12, 8]),
        ("blk.0.ffn_down", &[8, 12]),
        ("output_norm", &[8]),
    ];
    shapes.into_iter().fold(spec, |spec, (name, shape)| {
        let n: u64 = shape.iter().product();
        let data = (0..n).flat_map(|i| (i as f32 * 0.7 + name.len() as f32).sin().to_le_bytes()).collect();
        spec.tensor(&format!("{name}.weight"), shape, 0, data)
    })
}

/// The tiny model with another value under a key, which it has or gets.
fn with(key: &str, value: Val) -> Spec {
    let mut spec = tiny();
    match spec.keys.iter_mut().find(|(k, _)| k == key) {
        Some(found) => found.1 = value,
        None => spec.keys.push((key.to_owned(), value)),
    }
    spec
}

fn without(key: &str) -> Spec {
    let mut spec = tiny();
    let n = spec.keys.len();
    spec.keys.retain(|(k, _)| k != key);
    assert_eq!(spec.keys.len(), n - 1, "{key}");
    spec
}

fn without_tensor(name: &str) -> Spec {
    let mut spec = tiny();
    let n = spec.tensors.len();
    spec.tensors.retain(|t| t.name != name);
    assert_eq!(spec.tensors.len(), n - 1, "{name}");
    spec
}

fn template(source: &str) -> Spec {
    with("tokenizer.chat_template", text(source))
}

fn gguf(spec: &Spec) -> Gguf {
    Gguf::from_bytes(spec.bytes(), &Registry::builtin()).unwrap()
}

fn describe(spec: &Spec) -> Result<Model, Vec<Decline>> {
    models::describe(&gguf(spec)).map_err(|declined| {
        assert_eq!(declined.to_string().lines().count(), 1, "{declined}");
        declined.reasons
    })
}

fn tokenizer(spec: &Spec) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_gguf(&gguf(spec))
}

fn prompt(spec: &Spec) -> Result<Vec<TokenId>, Error> {
    let file = gguf(spec);
    let template = session::chat_template(&file)?;
    session::chat_prompt(&Tokenizer::from_gguf(&file)?, &template, &[Message::text("user", "hi")])
}

/// Asserts what the error is and that its one line has this part.
macro_rules! declines {
    ($result:expr, $pattern:pat $(if $guard:expr)?, $part:expr) => {{
        let error = $result.expect_err("this file should be declined");
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        let message = error.to_string();
        assert!(message.contains($part) && message.lines().count() == 1, "{message}");
    }};
}

/// The neighbor of every file below.
#[test]
fn the_tiny_model_is_good() {
    assert_eq!(describe(&tiny()).unwrap().graph.n_vocab(), N_VOCAB);
    assert_eq!(tokenizer(&tiny()).unwrap().n_tokens(), N_VOCAB);
    assert_eq!(prompt(&tiny()).unwrap(), [256]);
}

#[test]
fn models_that_cannot_be_run() {
    let declines = |spec: Spec, expected: &[Decline]| assert_eq!(describe(&spec).unwrap_err(), expected);
    let missing = |name: &str| Decline::MissingTensor { name: format!("{name}.weight") };
    declines(without("general.architecture"), &[Decline::NoArchitecture]);
    declines(with("general.architecture", Val::U8(1)), &[Decline::NoArchitecture]);
    let unknown = Decline::UnknownArchitecture { found: "parrot".to_owned(), known: models::names() };
    declines(with("general.architecture", text("parrot")), &[unknown]);
    for key in ["context_length", "block_count", "embedding_length", "attention.head_count"] {
        let key = format!("llama.{key}");
        declines(without(&key), &[Decline::MissingKey { key }]);
    }
    for name in ["token_embd", "blk.0.attn_norm", "blk.0.attn_q", "blk.0.ffn_down", "output_norm"] {
        declines(without_tensor(&format!("{name}.weight")), &[missing(name)]);
    }
    let mut two = without_tensor("blk.0.attn_v.weight");
    two.tensors.retain(|t| t.name != "blk.0.ffn_up.weight");
    declines(two, &[missing("blk.0.attn_v"), missing("blk.0.ffn_up")]);

    let mut reshaped = tiny();
    reshaped.tensors.iter_mut().find(|t| t.name == "blk.0.attn_k.weight").unwrap().shape = vec![8, 4];
    let shape = Decline::WrongShape {
        name: "blk.0.attn_k.weight".to_owned(),
        found: vec![8, 4],
        expected: vec![4, 8],
    };
    declines(reshaped, &[shape]);
    let extra = tiny().tensor("blk.0.attn_q.bias", &[8], 0, vec![0; 32]);
    let unexpected =
        Decline::UnexpectedTensor { name: "blk.0.attn_q.bias".to_owned(), architecture: "llama" };
    declines(extra, &[unexpected]);
}

/// Sizes that would wrap or take all memory are declined by their keys, whatever the tensors say.
#[test]
fn hyper_parameters_out_of_range() {
    for (key, value) in [
        ("block_count", Val::U64(1 << 40)),
        ("block_count", Val::U32(0)),
        ("context_length", Val::I32(-1)),
        ("embedding_length", Val::U64(u64::MAX)),
        ("embedding_length", text("8")),
        ("embedding_length", Val::F32(8.0)),
        ("attention.head_count", Val::U32(0)),
        ("attention.head_count_kv", Val::U32(3)),
        ("attention.layer_norm_rms_epsilon", Val::F32(f32::NAN)),
        ("rope.freq_base", Val::F32(-1.0)),
        ("rope.dimension_count", Val::U32(3)),
    ] {
        let key = format!("llama.{key}");
        let reasons = describe(&with(&key, value.clone())).unwrap_err();
        let named = matches!(&reasons[..], [Decline::BadKey { key: found, .. }] if *found == key);
        assert!(named, "{key} {value:?}: {reasons:?}");
    }
    // Products of sizes that fit alone.
    for (key, n) in [("attention.head_count", 1u64 << 40), ("attention.key_length", 1 << 62)] {
        let reasons = describe(&with(&format!("llama.{key}"), Val::U64(n))).unwrap_err();
        assert!(!reasons.is_empty());
    }
}

#[test]
fn tokenizers_that_cannot_be_used() {
    use TokenizerError::{
        Absent, Metadata, MissingList, MissingPre, SpecialId, TypesLength, UnknownModel, UnknownPre,
    };
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let with = |name: &str, value| tokenizer(&with(&key(name), value));
    let without = |name: &str| tokenizer(&without(&key(name)));
    declines!(without("model"), Absent { found: None }, "has no tokenizer");
    declines!(with("model", text("rwkv")), UnknownModel { found, .. } if found == "rwkv", "\"rwkv\"");
    declines!(with("model", text("llama")), TokenizerError::MissingSpecial { .. }, "bos_token_id");
    declines!(with("model", Val::U8(1)), Metadata(GgufError::WrongType { .. }), "tokenizer.ggml.model");
    declines!(without("pre"), MissingPre { .. }, "tokenizer.ggml.pre");
    declines!(with("pre", text("parrot-pre")), UnknownPre { found, .. } if found == "parrot-pre", "\"parrot-pre\"");
    declines!(with("pre", text("a\nb")), UnknownPre { .. }, "\"a\\nb\"");
    declines!(without("tokens"), MissingList { .. }, "tokenizer.ggml.tokens");
    declines!(with("tokens", texts([""; 0])), MissingList { .. }, "tokenizer.ggml.tokens");
    declines!(
        with("tokens", Val::Array(4, vec![Val::U32(1)])),
        Metadata(GgufError::WrongElement { .. }),
        "a u32"
    );
    declines!(with("token_type", Val::Array(5, vec![Val::I32(1)])), TypesLength { .. }, "1 entries");
    declines!(without("merges"), MissingList { .. }, "tokenizer.ggml.merges");
    declines!(with("merges", texts(["h zz"])), TokenizerError::Merge { .. }, "\"zz\"");
    declines!(with("eos_token_id", Val::U32(258)), SpecialId { id: 258, .. }, "eos_token_id is 258");
    declines!(
        with("eos_token_id", Val::I32(-1)),
        Metadata(GgufError::ValueOutOfRange { .. }),
        "eos_token_id"
    );
}

#[test]
fn templates_that_fail() {
    use ChatError::{Compile, Endless, Missing, Raised, Render};
    let key = "tokenizer.chat_template";
    declines!(prompt(&without(key)), Error::Chat(Missing), key);
    declines!(prompt(&with(key, Val::U32(7))), Error::File(GgufError::WrongType { .. }), key);
    declines!(prompt(&template("\n{% if %}")), Error::Chat(Compile { line: 2, .. }), "line 2");
    let raises = template("{{ raise_exception('only\\nduets here') }}");
    declines!(prompt(&raises), Error::Chat(Raised { message }) if message == "only duets here", "only duets here");
    declines!(prompt(&template("{{ messages.x.y }}")), Error::Chat(Render { line: 1, .. }), "line 1");
    let endless =
        template("{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}");
    declines!(prompt(&endless), Error::Chat(Endless { .. }), "does not end");
    // A conversation that suits it is no reason.
    prompt(&template("{% if messages[0].role != 'user' %}{{ raise_exception('no') }}{% endif %}x")).unwrap();
}

/// The commands that a file can fail; each takes what it needs beside the file.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("inspect", &[]),
    ("logits", &["--ids", "104,105", "--device", "reference", "--out"]),
    ("tokenize", &["hi"]),
    ("run --raw", &["-p", "hi", "-n", "2", "--device", "reference"]),
    ("run", &["-p", "hi", "-n", "2", "--device", "reference"]),
];
const ALL: &[&str] = &["inspect", "logits", "tokenize", "run --raw", "run"];
/// Those that need a model that can be run.
const MODEL: &[&str] = &["logits", "run --raw", "run"];
/// Those that need the tokenizer.
const TEXT: &[&str] = &["tokenize", "run --raw", "run"];
/// Those that need the template.
const CHAT: &[&str] = &["run"];

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs every command on the file: those in `failing` say `part` in one line and exit with 1, the others succeed.
fn check(model: &Path, failing: &[&str], part: &str) {
    let out = model.with_extension("logits");
    for (command, more) in COMMANDS {
        let mut words = command.split(' ');
        let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
        kiln.arg(words.next().unwrap()).args(words).arg(model).args(more).env_remove("KILN_LOG");
        if command == "logits" {
            kiln.arg(&out);
        }
        let output = kiln.stdin(Stdio::null()).output().unwrap();
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s).into_owned());
        let said = format!("{command} {}: {stdout}{stderr}", model.display());
        let code = output.status.code();
        if failing.contains(&command) {
            assert_eq!((code, stdout.as_str()), (Some(1), ""), "{said}");
            assert!(
                stderr.starts_with("kiln: error: ") && stderr.contains(part),
                "expected {part:?}, {said}"
            );
            assert_eq!(stderr.lines().count(), 1, "{said}");
            assert!(!out.exists(), "{said}");
            continue;
        }
        assert_eq!(code, Some(0), "{said}");
        match command {
            "inspect" => {
                assert_eq!(stderr, "");
                let declined: Vec<&str> = stdout.lines().filter(|line| line.contains("declined: ")).collect();
                assert_eq!(declined.is_empty(), failing.is_empty(), "{said}");
                assert!(declined.is_empty() || declined.iter().any(|line| line.contains(part)), "{said}");
            }
            "logits" => {
                assert_eq!(std::fs::metadata(&out).unwrap().len() as usize, 2 * N_VOCAB * 4);
                std::fs::remove_file(&out).unwrap();
            }
            "tokenize" => assert_eq!(stdout, "256\n"),
            _ => assert!(stderr.contains("answer 2 tokens") || stderr.contains("ended its answer"), "{said}"),
        }
    }
}

#[test]
fn the_program_runs_the_good_file_whole_or_in_parts() {
    let folder = Folder::new("good");
    check(&folder.write("tiny.gguf", &tiny().bytes()), &[], "");
    let first = parts(&folder);
    check(&first, &[], "");
    std::fs::remove_file(folder.0.join("tiny-00002-of-00002.gguf")).unwrap();
    check(&first, ALL, "tiny-00002-of-00002.gguf");
}

/// The tiny model in two parts; the path of the first.
fn parts(folder: &Folder) -> PathBuf {
    let split = |spec: Spec, no: u16| spec.key("split.no", Val::U16(no)).key("split.count", Val::U16(2));
    let mut first = tiny();
    let second = Spec { tensors: first.tensors.split_off(6), ..Spec::new() };
    folder.write("tiny-00002-of-00002.gguf", &split(second, 1).bytes());
    folder.write("tiny-00001-of-00002.gguf", &split(first, 0).bytes())
}

#[test]
fn the_program_refuses_broken_files_in_one_line() {
    let folder = Folder::new("broken");
    let good = tiny().build();
    let n = good.bytes.len();
    let twice = |key: &str| {
        let spec = tiny();
        let value = spec.keys.iter().find(|(k, _)| k == key).unwrap().1.clone();
        spec.key(key, value).bytes()
    };
    let files: [(&str, Vec<u8>, &str); 16] = [
        ("empty", vec![], "ends inside magic"),
        ("text", b"once upon a time".to_vec(), "not a GGUF file"),
        ("old", good.with("version", &1u32.to_le_bytes()), "version 1"),
        ("endian", good.with("version", &3u32.to_be_bytes()), "big-endian"),
        ("cut-head", good.bytes[..200].to_vec(), "at byte"),
        ("cut-data", good.bytes[..n - 1].to_vec(), "output_norm.weight"),
        ("keys", good.with("n_keys", &[0xff; 8]), "metadata count"),
        ("tensors", good.with("n_tensors", &[0x7f; 8]), "tensor count"),
        ("type", good.with("llama.block_count.type", &99u32.to_le_bytes()), "value type 99"),
        ("element", good.with("tokenizer.ggml.tokens.elem", &13u32.to_le_bytes()), "element type 13"),
        ("length", good.with("tokenizer.ggml.tokens.len", &[0xff; 8]), "array length"),
        ("nested", good.with("tokenizer.ggml.tokens.elem", &9u32.to_le_bytes()), "array of arrays"),
        ("twice", twice("general.architecture"), "appears twice"),
        ("offset", good.with("output_norm.weight.offset", &(1u64 << 40).to_le_bytes()), "output_norm.weight"),
        ("wraps", good.with("output_norm.weight.dim[0]", &(1u64 << 62).to_le_bytes()), "2^63"),
        ("format", good.with("token_embd.weight.type", &77u32.to_le_bytes()), "type id 77"),
    ];
    for (name, bytes, part) in files {
        check(&folder.write(&format!("{name}.gguf"), &bytes), ALL, part);
    }
}

#[test]
fn the_program_declines_what_it_cannot_run_and_does_the_rest() {
    let folder = Folder::new("declined");
    let files: [(&str, Spec, &[&str], &str); 8] = [
        ("architecture", with("general.architecture", text("parrot")), MODEL, "architecture `parrot`"),
        ("tensor", without_tensor("blk.0.attn_q.weight"), MODEL, "tensor `blk.0.attn_q.weight` is missing"),
        ("key", without("llama.block_count"), MODEL, "`llama.block_count` is missing"),
        ("tokenizer", without("tokenizer.ggml.model"), TEXT, "the file has no tokenizer"),
        ("pre", with("tokenizer.ggml.pre", text("parrot-pre")), TEXT, "pre-tokenizer \"parrot-pre\""),
        ("merges", with("tokenizer.ggml.merges", texts(["h zz"])), TEXT, "\"zz\" is none"),
        ("no-template", without("tokenizer.chat_template"), CHAT, "no chat template"),
        ("syntax", template("{% if %}"), CHAT, "does not compile"),
    ];
    for (name, spec, failing, part) in files {
        check(&folder.write(&format!("{name}.gguf"), &spec.bytes()), failing, part);
    }
    // Only a conversation shows that a template raises, so `inspect` has nothing to say of it.
    let raises = folder.write("raises.gguf", &template("{{ raise_exception('only duets') }}").bytes());
    let run =
        Command::new(env!("CARGO_BIN_EXE_kiln")).arg("run").arg(raises).args(["-p", "hi"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = "kiln: error: the chat template refuses this conversation: only duets\n";
    assert_eq!(String::from_utf8_lossy(&run.stderr), said);
}
