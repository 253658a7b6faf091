//! A file that gets a line of JSON for each variant as soon as it has run: a run that is cut off has said something, and
//! the next one with the same file goes on where it stopped.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use kiln_abi::{DeviceCaps, StagedKernel};
use kiln_kernels::Variant;
use serde_json::{Value, json};

use crate::Summary;

/// The file that `KILN_RECORD` names; without it, nothing is written and nothing is known.
#[derive(Default)]
pub(crate) struct Record {
    file: Option<Mutex<File>>,
    passed: HashMap<Key, Summary>,
}

/// A device, a kernel by its words, and whether cases that take long were among them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    device: String,
    variant: String,
    words: String,
    long: bool,
}

impl Key {
    pub(crate) fn new(device: &DeviceCaps, kernel: &StagedKernel, long: bool) -> Self {
        let DeviceCaps { name, driver, subgroup_size, .. } = device;
        let fold = |h: u64, word: &u32| (h ^ u64::from(*word)).wrapping_mul(0x0100_0000_01b3);
        let words = format!("{:016x}", kernel.words.iter().fold(0xcbf2_9ce4_8422_2325, fold));
        let device = format!("{name}, {driver}, subgroups of {subgroup_size}");
        Key { device, variant: kernel.name.clone(), words, long }
    }
}

impl Record {
    #[expect(clippy::panic, reason = "a record that was asked for and cannot be used is no record")]
    pub(crate) fn of_environment() -> Self {
        let Some(path) = std::env::var_os("KILN_RECORD") else { return Self::default() };
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let file = File::options().create(true).append(true).open(&path);
        let file = file.unwrap_or_else(|e| panic!("KILN_RECORD, {}: {e}", path.display()));
        Record { file: Some(Mutex::new(file)), passed: passed(&before) }
    }

    /// What the file says of the same words, if all was well.
    pub(crate) fn passed(&self, key: &Key) -> Option<&Summary> {
        self.passed.get(key)
    }

    /// One variant on one device.
    pub(crate) fn write(&self, key: &Key, variant: &Variant, summary: &Summary, took: Duration) {
        let Some(file) = self.file.as_ref().and_then(|file| file.lock().ok()) else { return };
        let line = line(key, variant, summary, took);
        // Where the disk is full, the summary at the end still says it all.
        let _ = writeln!(&*file, "{line}");
    }
}

fn line(key: &Key, variant: &Variant, summary: &Summary, took: Duration) -> Value {
    let refused: Vec<_> = summary.refused.iter().map(ToString::to_string).collect();
    json!({
        "device": key.device,
        "variant": key.variant,
        "words": key.words,
        "long": key.long,
        "role": variant.role,
        "format": variant.format,
        "arm": variant.arm,
        "cases": summary.cases,
        "values": summary.outputs,
        "worst": summary.worst,
        "seconds": took.as_secs_f64(),
        "refused": refused,
        "failures": summary.failures,
    })
}

/// The lines that hold cases which all passed; a line that was cut off counts for nothing.
fn passed(lines: &str) -> HashMap<Key, Summary> {
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let count = |key: &str| line[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let key = Key {
            device: text("device")?,
            variant: text("variant")?,
            words: text("words")?,
            long: line["long"].as_bool()?,
        };
        let (cases, outputs) = (count("cases")?, count("values")?);
        let worst = line["worst"].as_f64()?;
        let all_well = cases > 0 && line["failures"].as_array()?.is_empty();
        all_well
            .then(|| (key, Summary { variants: 1, recorded: 1, cases, outputs, worst, ..Summary::default() }))
    };
    lines.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Key, line, passed};
    use kiln_abi::Device as _;
    use kiln_kernels::Registry;
    use kiln_spirv_interp::{InterpOptions, Interpreter};

    use crate::Summary;

    #[test]
    fn what_passed_is_known_and_what_failed_or_changed_is_not() {
        let registry = Registry::builtin();
        let variant = registry.variants().next().unwrap();
        let mut kernel = variant.stage().unwrap();
        let device = |subgroup_size| {
            let options = InterpOptions { subgroup_size, ..Default::default() };
            Interpreter::new(options).caps().clone()
        };
        let key = Key::new(&device(8), &kernel, true);
        let (well, took) =
            (Summary { variants: 1, cases: 3, outputs: 7, ..Summary::default() }, Duration::ZERO);
        let good = line(&key, variant, &well, took).to_string();
        assert!(!good.contains('\n'));
        let known = passed(&format!("{good}\n{}", &good[..good.len() / 2]));
        assert_eq!(known.len(), 1);
        assert_eq!((known[&key].cases, known[&key].outputs, known[&key].recorded), (3, 7, 1));

        let failed = Summary { failures: vec!["n = 1: \"off\"".to_owned()], ..well.clone() };
        assert!(passed(&line(&key, variant, &failed, took).to_string()).is_empty());
        let nothing = Summary { cases: 0, ..well };
        assert!(passed(&line(&key, variant, &nothing, took).to_string()).is_empty());
        let other_size = Key::new(&device(16), &kernel, true);
        kernel.words[9] ^= 1;
        let other_words = Key::new(&device(8), &kernel, true);
        let others = [other_size, other_words, Key { long: false, ..key }];
        assert!(others.iter().all(|other| !known.contains_key(other)));
    }
}
