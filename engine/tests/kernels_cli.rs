//! `kiln kernels` and `kiln devices` from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use kiln_kernels::Registry;

/// Exit code, standard output and standard error.
fn outcome(args: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(args).env_remove("KILN_LOG").envs(env.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn answer(args: &[&str]) -> String {
    let (code, stdout, stderr) = outcome(args, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
    stdout
}

fn refusal(args: &[&str], code: i32, part: &str) {
    let (found, stdout, stderr) = outcome(args, &[]);
    assert_eq!((found, stdout.as_str()), (code, ""), "{args:?}: {stderr}");
    assert!(stderr.contains(part), "{args:?}: {stderr}");
}

/// Role and format of each line.
fn listed(text: &str) -> Vec<(String, String)> {
    let words = |line: &str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(|line| (words(line)[0].clone(), words(line)[1].clone())).collect()
}

#[test]
fn the_list_has_every_role_of_every_format() {
    let registry = Registry::builtin();
    let text = answer(&["kernels", "list"]);
    assert_eq!(text.lines().count(), registry.variants().count());
    for (line, variant) in text.lines().zip(registry.variants()) {
        let words = format!(" {} words ", variant.stage().unwrap().words.len());
        assert!(line.contains(&format!(" {} ", variant.name)) && line.contains(&words), "{line}");
    }
    let pairs: BTreeSet<_> = listed(&text).into_iter().collect();
    let of_formats = registry.variants().filter(|variant| variant.format.is_some());
    let roles: BTreeSet<_> = of_formats.map(|variant| variant.role).collect();
    assert!(roles.len() > 1, "{roles:?}");
    for format in registry.formats() {
        for role in &roles {
            let pair = ((*role).to_owned(), format.name.to_owned());
            assert!(pairs.contains(&pair), "no {pair:?} in\n{text}");
        }
    }
}

#[test]
fn the_list_is_narrowed_by_format_and_role() {
    let both = answer(&["kernels", "list", "--format", "Q8_0", "--role", "gemv"]);
    assert!(both.lines().count() > 0);
    assert!(listed(&both).iter().all(|pair| *pair == ("gemv".to_owned(), "Q8_0".to_owned())), "{both}");
    let role = answer(&["kernels", "list", "--role", "gemv"]);
    assert!(role.lines().count() > both.lines().count());
    assert!(listed(&role).contains(&("gemv".to_owned(), "Q8_0".to_owned())), "{role}");
    let of_file = answer(&["kernels", "list", "--format", "IQ4_NL"]);
    assert!(of_file.lines().count() > 0);
    for name in ["Iq4Nl", "iq4_nl"] {
        assert_eq!(answer(&["kernels", "list", "--format", name]), of_file);
    }
    refusal(&["kernels", "list", "--format", "Q9_9"], 2, "no format is called \"Q9_9\"; there are F32, ");
    refusal(&["kernels", "list", "--role", "gem"], 2, "no role is called \"gem\"; there are ");
}

#[test]
fn a_kernel_is_printed_and_written() {
    let staged = Registry::builtin().variants().find(|v| v.name == "add").unwrap().stage().unwrap();
    let text = answer(&["kernels", "emit", "add"]);
    assert!(text.starts_with("; SPIR-V 1.6\n") && text.contains("GLCompute"), "{text}");
    assert!(text.lines().last().unwrap().starts_with(&format!("; {} words, ", staged.words.len())), "{text}");

    let path = std::env::temp_dir().join(format!("kiln-kernels-cli-{}.spv", std::process::id()));
    let answer = outcome(&["kernels", "emit", "add", "--words", path.to_str().unwrap()], &[]);
    let bytes = std::fs::read(&path);
    let _ = std::fs::remove_file(&path);
    assert_eq!(answer, (0, String::new(), String::new()));
    let words: Vec<u32> =
        bytes.unwrap().chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, staged.words);
}

#[test]
fn an_unknown_kernel_is_refused_with_close_names() {
    refusal(&["kernels", "emit", "ad"], 2, "no kernel is called \"ad\"; close are add, ");
    refusal(&["kernels", "check", "rms_nrm"], 2, "close are rms_norm");
}

#[test]
fn a_kernel_is_checked_on_the_interpreter() {
    for size in ["4", "64"] {
        let text = answer(&["kernels", "check", "add", "--subgroup", size]);
        assert!(text.starts_with("ok       add: 5 cases, "), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    refusal(&["kernels", "check", "add", "--subgroup", "12"], 2, "expected one of [4, 8, 16, 32, 64]");
    refusal(&["kernels", "check", "add", "--device", "0", "--subgroup", "8"], 2, "for the interpreter");
    refusal(&["kernels", "check", "add", "--device", "reference"], 2, "`--device interpreter`");
}

#[test]
fn without_a_driver_devices_are_an_error_that_says_so() {
    let none = [("VK_DRIVER_FILES", "/nonexistent"), ("VK_ICD_FILENAMES", "/nonexistent")];
    for args in [&["devices"][..], &["devices", "--json"], &["kernels", "check", "add", "--device", "0"]] {
        let (code, stdout, stderr) = outcome(args, &none);
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}: {stderr}");
        assert!(stderr.starts_with("kiln: error: ") && stderr.contains("Vulkan"), "{args:?}: {stderr}");
    }
}
