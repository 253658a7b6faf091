//! `dump_diff OLD NEW [NAME]`: what changed between two folders that `dump` wrote, of all kernels or in full of some.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, error, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use kiln_golden::{
    diff::{Change, compare},
    report::Report,
};

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let done = match args.as_slice() {
        [old, new] => report(old, new, None),
        [old, new, name] => report(old, new, name.to_str()),
        _ => Err("usage: dump_diff OLD NEW [NAME]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("dump_diff: {e}");
            ExitCode::FAILURE
        }
    }
}

fn read(folder: &Path) -> Result<BTreeMap<String, Vec<u32>>> {
    let index = fs::read_to_string(folder.join("index.txt"))?;
    let mut kernels = BTreeMap::new();
    for (file, name) in index.lines().filter_map(|l| l.split_once('\t')) {
        let bytes = fs::read(folder.join(file))?;
        let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        kernels.insert(name.to_owned(), words.collect());
    }
    Ok(kernels)
}

fn report(old: &Path, new: &Path, only: Option<&str>) -> Result<()> {
    let (old, new) = (read(old)?, read(new)?);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut report = Report { whole: only.is_some(), ..Report::default() };
    for name in names.into_iter().filter(|n| only.is_none_or(|only| n.contains(only))) {
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => match compare(old, new)? {
                Change::Same => report.same += 1,
                change => report.changed.push((name.clone(), change)),
            },
            (None, _) => report.new.push(name.clone()),
            (_, None) => report.gone.push(name.clone()),
        }
    }
    println!("{report}");
    Ok(())
}
