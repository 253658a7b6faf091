//! `dump_diff OLD NEW`: what changed between two folders that `dump` wrote.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, error, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use kiln_golden::diff::{Change, compare};

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> ExitCode {
    let folders: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let done = match folders.as_slice() {
        [old, new] => report(old, new),
        _ => Err("usage: dump_diff OLD NEW".into()),
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

fn report(old: &Path, new: &Path) -> Result<()> {
    let (old, new) = (read(old)?, read(new)?);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let (mut same, mut changed) = (0, 0);
    for name in names {
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => match compare(old, new)? {
                Change::Same => same += 1,
                change => {
                    changed += 1;
                    println!("{name}: {change}");
                }
            },
            (None, Some(new)) => println!("{name}: new, {} words", new.len()),
            (Some(_), None) => println!("{name}: gone"),
            (None, None) => {}
        }
    }
    println!("{same} kernels have the same words, {changed} others");
    Ok(())
}
