//! The program from outside: exit codes, which stream says what, and files that cannot be run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod tiny;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kiln_engine::gguf::GgufWriter;
use kiln_kernels::Registry;

fn kiln(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(args).env_remove("KILN_THREADS").env_remove("KILN_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

/// Exit code, standard output and standard error.
fn outcome(args: &[&str]) -> (i32, String, String) {
    let output = kiln(args);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A file that goes away with the value.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("kiln-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A GGUF with string keys and f32 tensors of zeros, one dimension each.
fn gguf(keys: &[(&str, &str)], tensors: &[(&str, u64)]) -> Vec<u8> {
    let registry = Registry::builtin();
    let mut file = GgufWriter::new();
    for (key, value) in keys {
        file.key(key, *value).unwrap();
    }
    for (name, len) in tensors {
        file.tensor(name, &[*len], registry.format_named("F32").unwrap()).unwrap();
    }
    let mut file = file.start(Vec::new()).unwrap();
    for (_, len) in tensors {
        file.data(&vec![0; *len as usize * 4]).unwrap();
    }
    file.finish().unwrap()
}

/// One line `kiln: error: ...` that holds `part`, nothing on standard output, and the code.
fn check_failure(args: &[&str], code: i32, part: &str) {
    let (found, stdout, stderr) = outcome(args);
    assert_eq!((found, stdout.as_str()), (code, ""), "{args:?}: {stderr}");
    assert!(stderr.starts_with("kiln: error: ") && stderr.contains(part), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
}

/// Code 2, and a complaint that holds `part`.
fn check_failure_of_usage(args: &[&str], part: &str) {
    let (code, _, stderr) = outcome(args);
    assert_eq!(code, 2, "{args:?}: {stderr}");
    assert!(stderr.contains(part), "{args:?}: {stderr}");
}

#[test]
fn help_is_an_answer() {
    for args in [&["--help"][..], &["run", "--help"], &["chat", "-h"], &["--version"]] {
        let (code, stdout, stderr) = outcome(args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
        assert!(stdout.contains("kiln"), "{args:?}: {stdout}");
    }
    let (code, stdout, _) = outcome(&["--help-env"]);
    assert_eq!(code, 0);
    for name in ["KILN_THREADS", "KILN_LOG", "KILN_VALIDATION", "KILN_WITHOUT", "KILN_CACHE"] {
        assert!(stdout.contains(name), "{stdout}");
    }
}

#[test]
fn bad_usage_is_code_2() {
    for args in
        [&["juggle"][..], &["run"], &["run", "m", "--temp", "-1"], &["logits", "m", "--ids", "1"], &[]]
    {
        let (code, stdout, stderr) = outcome(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(!stderr.is_empty(), "{args:?}");
    }
    check_failure(&["logits", "m", "--ids", "1,2", "--forced", "3", "--out", "o"], 2, "more than the 2 ids");
    check_failure(&["logits", "m", "--ids", "1,2", "--last", "3", "--out", "o"], 2, "more than the 2 rows");
    let forced = ["logits", "m", "--ids", "1,2,3", "--forced", "2", "--last", "3", "--out", "o"];
    check_failure(&forced, 2, "more than the 2 rows");
    check_failure_of_usage(&["logits", "m", "--ids", "1,x", "--out", "o"], "\"x\" is none");
    check_failure_of_usage(&["logits", "m", "--ids", " , ", "--out", "o"], "no token ids");
    check_failure_of_usage(&["run", "m", "--ctx", "-1"], "a whole number of 1 to 2147483648");
    check_failure_of_usage(&["run", "m", "--top-k", "-1"], "a whole number of 0 or more");
    check_failure_of_usage(&["chat", "m", "-n", "-1"], "a whole number of 0 or more");
    check_failure_of_usage(&["run", "m", "--temp", "-1"], "a number of 0 or more");
    check_failure_of_usage(&["run", "m", "-n", "-1"], "a whole number of 0 or more");
    check_failure(&["inspect", "m", "--plan", "--device", "reference"], 2, "--plan is of Vulkan devices");
    let ids = TempFile::new("ids", b"1, 2\nx");
    check_failure(&["logits", "m", "--ids-file", ids.path(), "--out", "o"], 2, "\"x\" is no token id");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.arg("--help-env").env("KILN_THREADS", "none").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.arg("--help-env").env("KILN_WITHOUT", "f16,wings").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.arg("--help-env").env("KILN_WITHOUT", "Shader").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no kernel can do without Shader and VulkanMemoryModel"), "{said}");
    check_failure_of_usage(
        &["run", "m", "--without", "f16,Shader"],
        "'Shader' for '--without <WHAT>': no kernel",
    );
    check_failure_of_usage(&["run", "m", "--without", "wings"], "--without");
    check_failure_of_usage(&["run", "m", "--activations", "f64"], "f16");
    check_failure_of_usage(&["run", "m", "--kv-type", "q2"], "f16");
}

#[test]
fn files_that_are_no_model_fail_in_one_line() {
    let absent = Path::new("absent").join("model.gguf");
    let text = TempFile::new("text", b"these bytes are no model at all");
    let cut = gguf(&[("general.architecture", "llama")], &[]);
    let cut = TempFile::new("cut", &cut[..cut.len() / 2]);
    for command in ["run", "chat", "tokenize", "inspect"] {
        check_failure(&[command, absent.to_str().unwrap()], 1, "absent");
        check_failure(&[command, text.path()], 1, "not a GGUF file");
        check_failure(&[command, cut.path()], 1, "ends inside");
    }
    check_failure(&["run", text.path(), "-f", "absent/prompt"], 1, "absent/prompt");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_rather_than_waited_for() {
    let path = std::env::temp_dir().join(format!("kiln-cli-{}-pipe", std::process::id()));
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let pipe = TempFile(path);
    check_failure(&["run", pipe.path(), "-p", "hi"], 1, "not a regular file");
}

#[test]
fn plans_are_printed_for_a_described_device() {
    let file = TempFile::new("unplanned", &gguf(&[("general.architecture", "parrot")], &[("x.weight", 8)]));
    let caps = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/caps/h200.json");
    check_failure(&["inspect", file.path(), "--plan", "--caps", caps], 1, "parrot");
    let (code, _, stderr) = outcome(&["inspect", file.path(), "--caps", caps]);
    assert_eq!(code, 2, "{stderr}");
    let tiny = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let tiny = TempFile::new("planned", &tiny.bytes(true));
    let plan = |more: &[&str]| outcome(&[&["inspect", tiny.path(), "--plan", "--caps", caps], more].concat());
    let (whole, without) = (plan(&[]), plan(&["--without", "dot4"]));
    assert_eq!((whole.0, without.0), (0, 0), "{} {}", whole.2, without.2);
    let left_out = "left out as asked: DotProductInput4x8BitPacked, DotProduct\n";
    assert!(without.1.contains(left_out) && !whole.1.contains("left out"), "{}", without.1);
    assert!(without.1.contains("without an integer dot product"), "{}", without.1);
}

#[test]
fn unknown_architecture_inspects_but_does_not_run() {
    let file = TempFile::new("unknown", &gguf(&[("general.architecture", "parrot")], &[("x.weight", 8)]));
    check_failure(&["run", file.path(), "-p", "hi"], 1, "architecture `parrot` is not supported");
    check_failure(&["logits", file.path(), "--ids", "1", "--out", "never"], 1, "parrot");
    assert!(!Path::new("never").exists());
    let (code, stdout, stderr) = outcome(&["inspect", file.path(), "--tensors"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["general.architecture = \"parrot\"", "declined: architecture `parrot`", "x.weight F32 [8]"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let (_, without, _) = outcome(&["inspect", file.path()]);
    assert!(!without.contains("x.weight"), "{without}");
}

#[test]
fn an_id_beyond_the_vocabulary_is_bad_usage() {
    let llama = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let file = TempFile::new("tiny", &llama.bytes(false));
    let n_vocab = llama.file().model.graph.n_vocab();
    let (last, next) = (format!("0,{}", n_vocab - 1), format!("0,{n_vocab}"));
    let logits = |ids: [&str; 2], out: &str| {
        let [option, ids] = ids;
        outcome(&["logits", file.path(), option, ids, "--device", "reference", "--out", out])
    };
    let refused =
        format!("kiln: error: token id {n_vocab} is not below the vocabulary's size of {n_vocab}\n");
    let of_file = TempFile::new("beyond", next.as_bytes());
    for ids in [["--ids", &next], ["--ids-file", of_file.path()]] {
        assert_eq!(logits(ids, "never"), (2, String::new(), refused.clone()));
    }
    let out = TempFile::new("logits", &[]);
    assert_eq!(logits(["--ids", &last], out.path()).0, 0);
    assert_eq!(std::fs::metadata(out.path()).unwrap().len() as usize, 2 * n_vocab * 4);
}

#[test]
fn ids_are_read_as_tokenize_prints_them() {
    let llama = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let (file, out) = (TempFile::new("blanks", &llama.bytes(false)), TempFile::new("rows", &[]));
    let n_vocab = llama.file().model.graph.n_vocab();
    for ids in ["1,2", "1 2", "1, 2", " 1\n2,"] {
        let args = ["logits", file.path(), "--ids", ids, "--device", "reference", "--out", out.path()];
        assert_eq!(outcome(&args).0, 0, "{ids:?}");
        assert_eq!(std::fs::metadata(out.path()).unwrap().len() as usize, 2 * n_vocab * 4, "{ids:?}");
    }
}

#[test]
fn no_output_goes_over_a_model() {
    let llama = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap().bytes(false);
    let file = TempFile::new("spared", &llama);
    let logits = ["logits", file.path(), "--ids", "1", "--device", "reference", "--out", file.path()];
    for args in [&logits[..], &["kernels", "emit", "rms_norm", "--words", file.path()]] {
        check_failure(args, 2, "is a GGUF file, which would be overwritten");
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), llama);
}

#[test]
fn logits_that_broke_down_are_a_failure() {
    let llama = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let (mut bytes, whole) = (llama.bytes(false), llama.file());
    let gain = whole.gguf.tensor("output_norm.weight").unwrap().data;
    let at = bytes.windows(gain.len()).rposition(|window| window == gain).unwrap();
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let (file, out) = (TempFile::new("broken", &bytes), TempFile::new("nothing", &[]));
    let logits = ["logits", file.path(), "--ids", "1,2", "--device", "reference", "--out", out.path()];
    check_failure(&logits, 1, "at position 1 is NaN: the model's numbers broke down");
}

#[test]
fn texts_may_begin_with_a_hyphen() {
    let file = TempFile::new("hyphen", &gguf(&[("general.architecture", "parrot")], &[("x.weight", 8)]));
    for args in [
        &["run", file.path(), "-p", "- a list"][..],
        &["run", file.path(), "-p", "--temp"],
        &["chat", file.path(), "--system", "-x"],
    ] {
        check_failure(args, 1, "parrot");
    }
    check_failure(&["tokenize", file.path(), "-x"], 1, "no tokenizer");
}

#[test]
fn bench_takes_no_context_that_its_tests_do_not_fit() {
    let llama = tiny::all().into_iter().find(|tiny| tiny.name == "llama").unwrap();
    let file = TempFile::new("short", &llama.bytes(false));
    let args = ["bench", file.path(), "-p", "60", "-n", "0", "--ctx", "10"];
    check_failure(&args, 2, "--ctx 10 is less than the 60 positions");
}

#[test]
fn no_terminal_acts_on_what_inspect_shows() {
    let file = TempFile::new("shown", &gguf(&[("general.architecture", "ll\x1b[2J\nm")], &[("x\x1b", 8)]));
    let (code, stdout, _) = outcome(&["inspect", file.path(), "--tensors"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("declined: architecture `ll\\u{1b}[2J\\nm`"), "{stdout}");
    assert!(!stdout.contains('\x1b'), "{stdout:?}");
}

#[test]
fn a_vocabulary_alone_is_told_as_that() {
    let file = TempFile::new("alone", &gguf(&[("general.architecture", "llama")], &[]));
    check_failure(&["run", file.path(), "-p", "hi"], 1, "the file has no tensors");
}

#[test]
fn missing_keys_and_tensors_are_listed() {
    let file = TempFile::new("hollow", &gguf(&[("general.architecture", "llama")], &[("x.weight", 8)]));
    check_failure(&["run", file.path(), "-p", "hi"], 1, "`llama.context_length` is missing");
    check_failure(&["tokenize", file.path(), "hi"], 1, "no tokenizer");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let keys: Vec<(String, String)> = (0..20_000).map(|i| (format!("key.{i}"), "x".repeat(20))).collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let file = TempFile::new("long", &gguf(&keys, &[("x.weight", 8)]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["inspect", file.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let code = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(full()).status().unwrap().code()
    };
    assert_eq!(code(&["inspect", "/there/is/no/such.gguf"]), Some(1));
    let strange = TempFile::new("escape", &gguf(&[("general.architecture", "ll\x1b[m")], &[]));
    assert_eq!(code(&["logits", strange.path(), "--ids", "1", "--out", "x"]), Some(1));
    let (_, _, complaint) = outcome(&["logits", strange.path(), "--ids", "1", "--out", "x"]);
    assert!(!complaint.contains('\x1b'), "no terminal acts on a file's names: {complaint:?}");
}

#[test]
fn a_prompt_on_standard_input_is_read() {
    let file = TempFile::new("parrot2", &gguf(&[("general.architecture", "parrot")], &[("x.weight", 8)]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["run", file.path()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("parrot"),
        "the prompt was read, the model declined"
    );
}
