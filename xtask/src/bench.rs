//! `cargo xtask bench peer`: another engine and kiln in turn on one device, appended to `bench/records`.
//!
//! The other engine is a program of two commands, named by `KILN_PEER`:
//! `bench MODEL 99 PP TG DEPTH REPS` prints `pp512 X t/s  tg128 Y t/s` for each repetition, its own warm-up dropped;
//! `logits MODEL 99 OUT IDS…` writes `[n_ids, n_vocab]` little-endian f32.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::process::{Result, capture, line};
use crate::{cargo, process};

/// Where the records are.
const RECORDS: &str = "bench/records";
/// Ids that both engines' logits are compared on.
const N_IDS: usize = 64;

struct Options {
    model: PathBuf,
    n_prompt: usize,
    n_gen: usize,
    depth: usize,
    repeats: usize,
    /// Times that the engines take turns.
    rounds: usize,
    /// Whether logits are compared with the reference, which takes four bytes a weight.
    with_rms: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Options> {
        let mut options = Options {
            model: PathBuf::new(),
            n_prompt: 512,
            n_gen: 128,
            depth: 0,
            repeats: 3,
            rounds: 2,
            with_rms: true,
        };
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let mut number = || {
                let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
                text.parse::<usize>().map_err(|_| format!("{arg} {text}: expected a number"))
            };
            match arg {
                "-p" => options.n_prompt = number()?,
                "-n" => options.n_gen = number()?,
                "-d" => options.depth = number()?,
                "-r" => options.repeats = number()?,
                "--rounds" => options.rounds = number()?,
                "--no-rms" => options.with_rms = false,
                model if !model.starts_with('-') && options.model.as_os_str().is_empty() => {
                    options.model = PathBuf::from(model);
                }
                other => return Err(format!("bench peer: {other} is not understood")),
            }
        }
        if options.model.as_os_str().is_empty() {
            return Err("bench peer: which model?".to_string());
        }
        if options.repeats == 0 || options.rounds == 0 {
            return Err("bench peer: -r and --rounds are at least 1".to_string());
        }
        Ok(options)
    }
}

/// Runs the engines in turn and writes the record.
pub(crate) fn peer(args: &[&str]) -> Result<()> {
    let options = Options::parse(args)?;
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let peer = var("KILN_PEER").ok_or("set KILN_PEER to the other engine's program")?;
    let kiln = match var("KILN_BIN") {
        Some(kiln) => kiln,
        None => {
            cargo::run(&["build", "--release", "-p", "kiln-engine", "--bin", "kiln"], &[])?;
            var("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()).join("release/kiln")
        }
    };
    let clocks = clocks();
    let mut commands: Vec<String> = Vec::new();
    let mut speeds = Speeds::default();
    let mut parity = Value::Null;
    let mut device = json!({});
    for _ in 0..options.rounds {
        let mut command = peer_bench(&peer, &options);
        speeds.peer.extend(parse_peer(&capture(shown(&mut command, &mut commands))?)?);
        let mut command = kiln_bench(&kiln, &options);
        let text = capture(shown(&mut command, &mut commands))?;
        let tests: Value = serde_json::from_str(&text).map_err(|e| format!("kiln bench's JSON: {e}"))?;
        speeds.kiln.extend(parse_kiln(&tests)?);
        let fields = ["class", "window", "run_ahead", "model_type", "model_n_params"];
        device = json!({ "name": tests[0]["device"], "driver": tests[0]["driver"], "clocks": clocks });
        parity = tests[0]["parity"].clone();
        for field in fields {
            parity[field] = tests[0][field].clone();
        }
    }
    let rms = if options.with_rms { compare(&peer, &kiln, &options, &mut commands)? } else { Value::Null };
    let date = capture(Command::new("date").args(["-u", "+%F"]))?.trim().to_string();
    let git =
        |args: &[&str]| capture(Command::new("git").args(args)).ok().map(|text| text.trim().to_string());
    let (id, path) = record_path(Path::new(RECORDS), &date, &device["name"], &options)?;
    let record = json!({
        "id": id,
        "date": date,
        "commit": git(&["rev-parse", "--short", "HEAD"]),
        "dirty": git(&["status", "--porcelain"]).map(|text| !text.is_empty()),
        "device": device,
        "model": {
            "file": options.model.file_name().map(|name| name.to_string_lossy()),
            "bytes": fs::metadata(&options.model).map_err(|e| format!("{}: {e}", options.model.display()))?.len(),
        },
        "order": format!("peer, kiln, {} times, {} counted repetitions each", options.rounds, options.repeats),
        "commands": commands,
        "tokens_per_second": { "peer": by_test(&speeds.peer, &options), "kiln": by_test(&speeds.kiln, &options) },
        "median": { "peer": medians(&speeds.peer, &options), "kiln": medians(&speeds.kiln, &options) },
        "kiln_parity": parity,
        "rms_against_f32_reference": rms,
    });
    fs::create_dir_all(RECORDS).map_err(|e| format!("{RECORDS}: {e}"))?;
    fs::write(&path, format!("{record:#}\n")).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{:#}", record["median"]);
    println!("recorded in {}", path.display());
    Ok(())
}

/// Prompt and generation of each repetition, in tokens per second; none where a test was left out.
type Repetition = [Option<f64>; 2];

#[derive(Default)]
struct Speeds {
    peer: Vec<Repetition>,
    kiln: Vec<Repetition>,
}

fn shown<'a>(command: &'a mut Command, commands: &mut Vec<String>) -> &'a mut Command {
    let text = line(command);
    eprintln!("$ {text}");
    // Where a program lies is nobody's business but this machine's.
    let words = text.split(' ').map(|word| word.rsplit('/').next().unwrap_or(word));
    let text = words.collect::<Vec<_>>().join(" ");
    if !commands.contains(&text) {
        commands.push(text);
    }
    command
}

fn peer_bench(peer: &Path, options: &Options) -> Command {
    let mut command = Command::new(peer);
    let Options { n_prompt, n_gen, depth, repeats, .. } = options;
    command.arg("bench").arg(&options.model).arg("99");
    command.args([n_prompt, n_gen, depth, repeats].map(ToString::to_string));
    command
}

fn kiln_bench(kiln: &Path, options: &Options) -> Command {
    let mut command = Command::new(kiln);
    let Options { n_prompt, n_gen, depth, repeats, .. } = options;
    command.arg("bench").arg(&options.model).args(["-o", "json"]);
    for (flag, value) in [("-p", n_prompt), ("-n", n_gen), ("-d", depth), ("-r", repeats)] {
        command.arg(flag).arg(value.to_string());
    }
    command
}

/// `pp512 11613.3 t/s  tg128 174.24 t/s  depth 0  rep 0`, one line a repetition.
fn parse_peer(text: &str) -> Result<Vec<Repetition>> {
    let speed = |line: &str, test: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with(test))?;
        words.get(at + 1)?.parse::<f64>().ok().filter(|speed| *speed > 0.0)
    };
    let lines = text.lines().filter(|line| line.starts_with("pp"));
    let found: Vec<Repetition> = lines.map(|line| [speed(line, "pp"), speed(line, "tg")]).collect();
    if found.is_empty() { Err(format!("the peer printed no speeds:\n{text}")) } else { Ok(found) }
}

/// The samples of `kiln bench -o json`, by repetition.
fn parse_kiln(tests: &Value) -> Result<Vec<Repetition>> {
    let samples = |is_generation: bool| -> Vec<f64> {
        let tests = tests.as_array().into_iter().flatten();
        let mut test = tests.filter(|test| (test["n_gen"].as_u64() > Some(0)) == is_generation);
        let samples = test.next().and_then(|test| test["samples_ts"].as_array());
        samples.into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (prompt, generation) = (samples(false), samples(true));
    let n = prompt.len().max(generation.len());
    if n == 0 {
        return Err(format!("kiln bench printed no speeds:\n{tests:#}"));
    }
    Ok((0..n).map(|i| [prompt.get(i).copied(), generation.get(i).copied()]).collect())
}

fn names(options: &Options) -> [String; 2] {
    [format!("pp{}", options.n_prompt), format!("tg{}", options.n_gen)]
}

fn samples(speeds: &[Repetition], test: usize) -> Vec<f64> {
    speeds.iter().filter_map(|repetition| repetition[test]).collect()
}

fn by_test(speeds: &[Repetition], options: &Options) -> Value {
    let [pp, tg] = names(options);
    json!({ pp: samples(speeds, 0), tg: samples(speeds, 1) })
}

fn medians(speeds: &[Repetition], options: &Options) -> Value {
    let median = |test: usize| {
        let mut all = samples(speeds, test);
        all.sort_by(f64::total_cmp);
        let half = all.len() / 2;
        match all.len() {
            0 => None,
            n if n % 2 == 0 => Some((all[half - 1] + all[half]) / 2.0),
            _ => Some(all[half]),
        }
    };
    let [pp, tg] = names(options);
    json!({ pp: median(0), tg: median(1) })
}

/// Both engines' logits of the same ids in one batch against the f32 reference.
fn compare(peer: &Path, kiln: &Path, options: &Options, commands: &mut Vec<String>) -> Result<Value> {
    let folder = std::env::temp_dir().join(format!("kiln-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let ids: Vec<String> = (0..N_IDS).map(|i| (5 + i * 37 % 997).to_string()).collect();
    let file = |name: &str| folder.join(name);
    let mut run = |command: &mut Command| process::capture(shown(command, commands)).map(drop);
    let logits = |out: &str, device: Option<&str>| {
        let mut command = Command::new(kiln);
        command.arg("logits").arg(&options.model).args(["--ids", &ids.join(",")]).arg("--out").arg(file(out));
        command.args(device.into_iter().flat_map(|device| ["--device", device]));
        command
    };
    let done = run(&mut logits("reference", Some("reference"))).and_then(|()| {
        run(&mut logits("kiln", None))?;
        let mut command = Command::new(peer);
        command.arg("logits").arg(&options.model).arg("99").arg(file("peer")).args(&ids);
        run(&mut command)?;
        let read = |name: &str| fs::read(file(name)).map_err(|e| format!("{name}: {e}"));
        let reference = floats(&read("reference")?);
        let against = |name: &str| -> Result<Value> { difference(&floats(&read(name)?), &reference) };
        Ok(json!({ "ids": N_IDS, "kiln": against("kiln")?, "peer": against("peer")? }))
    });
    let _ = fs::remove_dir_all(&folder);
    done
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Root mean square of the difference, and the rows with the same winner.
fn difference(found: &[f32], reference: &[f32]) -> Result<Value> {
    if found.len() != reference.len() || found.len() < N_IDS {
        return Err(format!("{} logits, the reference has {}", found.len(), reference.len()));
    }
    let squares: f64 =
        found.iter().zip(reference).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    let row = reference.len() / N_IDS;
    let best = |row: &[f32]| (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let rows = found.chunks_exact(row).zip(reference.chunks_exact(row));
    let agree = rows.filter(|(a, b)| best(a) == best(b)).count();
    Ok(json!({ "rms": (squares / found.len() as f64).sqrt(), "argmax_agree": agree }))
}

/// What the driver's own tool says of the clocks, where there is one.
fn clocks() -> Value {
    let query = ["--query-gpu=clocks.sm,clocks.mem,clocks.max.sm,power.limit", "--format=csv,noheader"];
    let said = capture(Command::new("nvidia-smi").args(query)).ok();
    json!(said.map(|text| text.lines().next().unwrap_or_default().to_string()))
}

/// A name that no record has: records are only added.
fn record_path(folder: &Path, date: &str, device: &Value, options: &Options) -> Result<(String, PathBuf)> {
    let slug = |text: &str| -> String {
        let plain =
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        let parts: Vec<String> = plain
            .collect::<String>()
            .split('-')
            .filter(|part| !part.is_empty())
            .map(str::to_string)
            .collect();
        parts.join("-")
    };
    let model = options.model.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let device = device.as_str().unwrap_or("device");
    let depth = if options.depth > 0 { format!("-d{}", options.depth) } else { String::new() };
    let stem = format!("{date}-{}-{}{depth}", slug(device), slug(&model));
    for n in 1..1000 {
        let id = if n == 1 { stem.clone() } else { format!("{stem}-{n}") };
        let path = folder.join(format!("{id}.json"));
        if !path.exists() {
            return Ok((id, path));
        }
    }
    Err(format!("{stem} has a thousand records"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{N_IDS, Options, by_test, difference, medians, parse_kiln, parse_peer, record_path};

    #[test]
    fn options_are_read_and_nonsense_is_refused() {
        let options =
            Options::parse(&["m.gguf", "-p", "64", "-d", "4096", "--rounds", "3", "--no-rms"]).unwrap();
        assert_eq!((options.n_prompt, options.n_gen, options.depth, options.rounds), (64, 128, 4096, 3));
        assert!(!options.with_rms);
        for bad in
            [&[][..], &["-p", "x", "m"], &["m", "n"], &["m", "--fast"], &["m", "-r", "0"], &["m", "-p"]]
        {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn speeds_of_both_engines_come_together() {
        let options = Options::parse(&["m.gguf"]).unwrap();
        let text = "ggml: noise\npp512 100.0 t/s  tg128 5.5 t/s  depth 0  rep 0\npp512 120.0 t/s  tg128 6.5 t/s  depth 0  rep 1\n";
        let peer = parse_peer(text).unwrap();
        assert_eq!(by_test(&peer, &options), json!({ "pp512": [100.0, 120.0], "tg128": [5.5, 6.5] }));
        assert_eq!(medians(&peer, &options), json!({ "pp512": 110.0, "tg128": 6.0 }));
        assert!(parse_peer("load failed").is_err());
        let tests = json!([{ "n_gen": 0, "samples_ts": [7.0] }, { "n_gen": 128, "samples_ts": [1.0] }]);
        assert_eq!(parse_kiln(&tests).unwrap(), [[Some(7.0), Some(1.0)]]);
        assert!(parse_kiln(&json!([])).is_err());
    }

    #[test]
    fn logits_are_compared_row_by_row() {
        let reference: Vec<f32> = (0..N_IDS).flat_map(|_| [0.0, 1.0]).collect();
        let mut found = reference.clone();
        assert_eq!(difference(&found, &reference).unwrap(), json!({ "rms": 0.0, "argmax_agree": N_IDS }));
        found[0] = 2.0;
        let off = difference(&found, &reference).unwrap();
        assert_eq!(off["argmax_agree"], N_IDS - 1);
        assert!(off["rms"].as_f64().unwrap() > 0.1);
        assert!(difference(&found[1..], &reference).is_err());
    }

    #[test]
    fn a_record_never_replaces_another() {
        let folder = std::env::temp_dir().join(format!("kiln-records-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = Options::parse(&["some/Model.Q4_1.gguf", "-d", "512"]).unwrap();
        let path = || record_path(&folder, "2026-01-02", &json!("A (fast) card"), &options).unwrap();
        let (id, first) = path();
        assert_eq!(id, "2026-01-02-a-fast-card-model-q4-1-d512");
        std::fs::write(&first, "{}").unwrap();
        assert_eq!(path().0, format!("{id}-2"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
