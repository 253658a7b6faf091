//! What an author of kernels is most likely to get wrong, and the one message that each mistake gives.
//!
//! `mistakes.txt` holds the messages as reviewed. `KILN_UPDATE_GOLDENS=1` records them again.

use std::{env, fs, path::Path};

use crate::kernels::staged;

/// A mistake in words, and the fixture that makes it: a file of `ui/`, or a kernel of this suite.
const MISTAKES: &[(&str, &str)] = &[
    ("a barrier where some invocations do not come", "BarrierInBranch"),
    ("a barrier after the tail has returned", "BarrierAfterReturn"),
    ("a barrier in a loop that lanes leave at different rounds", "BarrierInLoop"),
    ("a subgroup operation under a lane's condition", "SubgroupInBranch"),
    ("an integer and a float in one sum", "mixed_addition"),
    ("a signed index", "signed_into_unsigned"),
    ("a usize index", "usize_index"),
    ("a store to a buffer that is read", "write_to_read_only"),
    ("a store to weights", "weight_written"),
    ("a change to a `let` without `mut`", "compound_on_let"),
    ("a change to a loop's counter", "mutable_loop_variable"),
    ("a half stored to a float buffer", "store_of_half"),
    ("an integer as a condition", "condition_of_integer"),
    ("a number's literal of the wrong class", "integer_literal_as_float"),
    ("an f64", "wide_float"),
    ("a u64", "wide_integer"),
    ("an index past the end of an array", "Indices"),
    ("a length that the device computes", "Lengths"),
    ("a loop unrolled to a value of the device", "unroll_to_a_value"),
    ("a break in an unrolled loop", "break_in_comptime_loop"),
    ("an inclusive range", "inclusive_range"),
    ("a loop over an iterator", "loop_over_iterator"),
    ("an early return from a device function", "early_return"),
    ("an `if` without `else` as a value", "if_without_else"),
    ("a host function called", "host_function_called"),
    ("an assertion", "assert_macro"),
    ("a closure", "closure"),
    ("a block taken by value", "block_by_value"),
    ("a method of Rust's floats", "rust_float_method"),
    ("a method of Rust's integers", "rust_wrapping_method"),
    ("a push constant of 16 bits", "push_half"),
    ("a parameter without a role", "kernel_value_parameter"),
    ("a kernel without a grid", "kernel_without_grid"),
    ("a buffer that nothing touches", "Unused"),
    ("a function that calls itself", "Recursion"),
    ("more workgroup memory than every device has", "MuchMemory"),
    ("an instruction beyond the kernel's arm", "BeyondTheArm"),
    ("a float that no type of a kernel holds", "huge_float"),
    ("a statement after an endless loop", "AfterLoop"),
    ("a word past those of a format's plane", "PlaneWords"),
];

/// First error of a compile-fail fixture: place, the text under it, message.
fn of_the_compiler(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let report = fs::read_to_string(folder.join(format!("{name}.stderr"))).ok()?;
    let message = report.lines().next()?.split_once(": ")?.1;
    let place = report.lines().find_map(|line| line.trim_start().strip_prefix("--> ui/"))?;
    let (line, column) = place.split_once(':')?.1.split_once(':')?;
    let source = fs::read_to_string(folder.join(format!("{name}.rs"))).ok()?;
    let message = match label(&report) {
        Some(label) => format!("{message}: {label}"),
        None => message.to_owned(),
    };
    Some(entry(&source, line.parse().ok()?, column.parse().ok()?, &message))
}

/// What stands beside or below the carets.
fn label(report: &str) -> Option<String> {
    let mut lines = report.lines().skip_while(|line| !line.contains('^'));
    let beside = lines.next()?.rsplit('^').next()?.trim().to_owned();
    if !beside.is_empty() && !beside.starts_with('-') {
        return Some(beside);
    }
    let below =
        lines.take_while(|line| line.trim_start().starts_with('|')).find(|l| l.contains("expected `"));
    below.map(|line| line.trim_start().trim_start_matches(['|', ' ']).to_owned())
}

/// First error of a kernel of this suite.
fn of_staging(name: &str) -> Option<String> {
    let error = staged().into_iter().find(|s| s.0 == name)?.1.err()?.errors.into_iter().next()?;
    let message =
        format!("{}: {}", error.code, error.message.replace(&*error.at.file.to_string(), "kernels.rs"));
    Some(entry(include_str!("kernels.rs"), error.at.line, error.at.column, &message))
}

/// The source's line from the error's column on, and the message. Lines of fixtures move; what stands there does not.
fn entry(source: &str, line: u32, column: u32, message: &str) -> String {
    let text = source.lines().nth(line as usize - 1).unwrap_or_default();
    let token: String = text.chars().skip(column as usize - 1).collect();
    let token = token.split(" //~").next().unwrap_or_default();
    let places = without_places(message);
    format!("    {token}\n    ^ {places}\n")
}

/// The message with `:line:column` of places left out.
fn without_places(message: &str) -> String {
    let digits_after =
        |word: &str| word.split(':').skip(1).any(|part| part.chars().any(|c| c.is_ascii_digit()));
    let word = |word: &str| match word.contains(".rs:") && digits_after(word) {
        true => word.split(".rs").next().unwrap_or_default().to_owned() + ".rs",
        false => word.to_owned(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_mistake_gives_its_message_at_its_token() {
    let mut text = String::new();
    for (mistake, fixture) in MISTAKES {
        let found = of_the_compiler(fixture).or_else(|| of_staging(fixture));
        let found = found.unwrap_or_else(|| panic!("{mistake}: no fixture {fixture}"));
        text += &format!("{mistake}\n{found}\n");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("mistakes.txt");
    if env::var_os("KILN_UPDATE_GOLDENS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    assert!(MISTAKES.len() >= 30);
    assert_eq!(recorded, text, "review the messages, then set KILN_UPDATE_GOLDENS=1");
}
