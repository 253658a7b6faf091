//! A file that gets a line of JSON for each variant as soon as it has run: a run that is cut off has said something, and
//! the next one with the same file goes on where it stopped. What all its lines say is summed up beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use kiln_abi::{DeviceCaps, StagedKernel};
use kiln_kernels::{Variant, kernel_of};
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
        let fold = |h: u64, word: &u32| (h ^ u64::from(*word)).wrapping_mul(0x0100_0000_01b3);
        let words = format!("{:016x}", kernel.words.iter().fold(0xcbf2_9ce4_8422_2325, fold));
        Key { device: named(device), variant: kernel.name.clone(), words, long }
    }
}

fn named(device: &DeviceCaps) -> String {
    let DeviceCaps { name, driver, subgroup_size, .. } = device;
    format!("{name}, {driver}, subgroups of {subgroup_size}")
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
        self.add(&line(key, variant, summary, took));
    }

    fn add(&self, line: &Value) {
        let Some(file) = self.file.as_ref().and_then(|file| file.lock().ok()) else { return };
        // Where the disk is full, the summary at the end still says it all.
        let _ = append(&file, line);
    }
}

/// Adds a line by one write: other tests of the program write to the same file through handles of their own.
fn append(mut file: &File, line: &Value) -> std::io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

/// Notes in the file that `KILN_RECORD` names what a device made of something that is no variant.
pub fn note(device: &DeviceCaps, what: &str, cases: usize, failures: &[String]) {
    let line = json!({ "device": named(device), "what": what, "cases": cases, "failures": failures });
    Record::of_environment().add(&line);
}

/// Sums up all that the file says, whichever runs wrote it, beside it as `FILE.summary.json`: for each device the counts
/// of each kernel with the worst share of a bound. The text of that, or nothing where `KILN_RECORD` is not set.
///
/// # Errors
/// Why a file could not be read or written.
pub fn sum_up() -> Result<String, String> {
    /// Tests of one program end in any order; the last to come here sees all.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let Some(mut path) = std::env::var_os("KILN_RECORD") else { return Ok(String::new()) };
    let file = PathBuf::from(&path);
    let lines = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = format!("{:#}\n", sums(&lines));
    path.push(".summary.json");
    let beside = PathBuf::from(path);
    std::fs::write(&beside, &text).map_err(|e| format!("{}: {e}", beside.display()))?;
    Ok(text)
}

/// Counts of each kernel on each device; of lines that speak of the same, the last one counts.
fn sums(lines: &str) -> Value {
    let mut last: BTreeMap<(String, String), Value> = BTreeMap::new();
    for line in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let of = text("what").or_else(|| Some(format!("{} {}", text("variant")?, line["long"])));
        if let (Some(device), Some(of)) = (text("device"), of) {
            last.insert((device, of), line);
        }
    }
    let mut devices: BTreeMap<&str, Device> = BTreeMap::new();
    for ((device, of), line) in &last {
        let device = devices.entry(device).or_default();
        device.failures.extend(line["failures"].as_array().into_iter().flatten().cloned());
        let Some(variant) = line["variant"].as_str() else {
            device.others.insert(of.clone(), line["cases"].clone());
            continue;
        };
        for name in [kernel_of(variant), "all"] {
            device.kernels.entry(name.to_owned()).or_default().add(line);
        }
    }
    let devices = devices.into_iter().map(|(name, device)| (name.to_owned(), device.value()));
    Value::Object(devices.collect())
}

/// What is said of a device.
#[derive(Default)]
struct Device {
    kernels: BTreeMap<String, Sum>,
    others: BTreeMap<String, Value>,
    failures: Vec<Value>,
}

impl Device {
    fn value(self) -> Value {
        let kernels: serde_json::Map<_, _> = self.kernels.into_iter().map(|(k, s)| (k, s.value())).collect();
        json!({ "kernels": kernels, "others": self.others, "failures": self.failures })
    }
}

/// What is said of a kernel.
#[derive(Default)]
struct Sum {
    ran: u64,
    refused: u64,
    failed: u64,
    cases: u64,
    values: u64,
    worst: f64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, line: &Value) {
        let some = |key: &str| line[key].as_array().is_some_and(|list| !list.is_empty());
        let count = |key: &str| line[key].as_u64().unwrap_or(0);
        self.refused += u64::from(some("refused"));
        self.ran += u64::from(!some("refused"));
        self.failed += u64::from(some("failures"));
        self.cases += count("cases");
        self.values += count("values");
        self.worst = self.worst.max(line["worst"].as_f64().unwrap_or(f64::INFINITY));
        self.seconds += line["seconds"].as_f64().unwrap_or(0.0);
    }

    fn value(&self) -> Value {
        let Sum { ran, refused, failed, cases, values, worst, seconds } = self;
        let text = format!(
            "{ran} variants, {cases} cases, {values} values, worst {worst:.3} of its bound, {refused} refused, {failed} failed, {seconds:.1} s"
        );
        json!(text)
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

    use std::{fs::File, thread};

    use serde_json::{Value, json};

    use super::{Key, append, line, passed, sums};
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

    #[test]
    fn lines_that_tests_write_at_once_stay_whole() {
        let path = std::env::temp_dir().join(format!("kiln-record-{}", std::process::id()));
        let line = json!({ "device": "a", "variant": "b", "words": "c", "cases": 4, "failures": ["d", "e"] });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let file = File::options().create(true).append(true).open(&path).unwrap();
                    (0..300).for_each(|_| append(&file, &line).unwrap());
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let whole = |text: &&str| serde_json::from_str::<Value>(text).is_ok_and(|found| found == line);
        assert_eq!(text.lines().filter(whole).count(), 1200);
    }

    #[test]
    fn lines_of_several_runs_are_summed_up_by_device_and_kernel() {
        let line = |device: &str, variant: &str, worst: f64, failures: &str| {
            format!(
                r#"{{"device": "{device}", "variant": "{variant}", "words": "1", "long": true, "cases": 2, "values": 5, "worst": {worst}, "seconds": 0.5, "refused": [], "failures": [{failures}]}}"#
            )
        };
        let refused = line("a", "gemm<3>", 0.0, "").replace(r#""refused": []"#, r#""refused": ["no"]"#);
        let lines = [
            line("a", "gemv<1>", 0.5, r#""off""#),
            line("a", "gemv<1>", 0.25, ""),
            line("a", "gemv<2>", 0.75, r#""off by one""#),
            refused,
            line("b", "add", 0.125, ""),
            r#"{"device": "b", "what": "constructs", "cases": 7, "failures": []}"#.to_owned(),
            line("b", "add", 0.5, "")[..40].to_owned(),
        ];
        let all = sums(&lines.join("\n"));
        let gemv = "2 variants, 4 cases, 10 values, worst 0.750 of its bound, 0 refused, 1 failed, 1.0 s";
        assert_eq!(all["a"]["kernels"]["gemv"], gemv);
        let both = "2 variants, 6 cases, 15 values, worst 0.750 of its bound, 1 refused, 1 failed, 1.5 s";
        assert_eq!(all["a"]["kernels"]["all"], both);
        assert_eq!(all["a"]["failures"], serde_json::json!(["off by one"]));
        assert_eq!(all["b"]["others"]["constructs"], 7);
        assert_eq!(all["b"]["kernels"].as_object().unwrap().len(), 2);
    }
}
