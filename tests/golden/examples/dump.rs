//! `dump FOLDER`: writes every registered kernel's words there, a `.spv` each, and `index.txt`: file, tab, name.

use std::{error, fs, path::PathBuf, process::ExitCode};

use kiln_golden::kernels::{file_name, stage_all};

fn main() -> ExitCode {
    match dump() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("dump: {e}");
            ExitCode::FAILURE
        }
    }
}

fn dump() -> Result<(), Box<dyn error::Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: dump FOLDER")?;
    fs::create_dir_all(&folder)?;
    let mut index = String::new();
    for (n, kernel) in stage_all()?.into_iter().enumerate() {
        let file = format!("{n:04}_{}.spv", file_name(&kernel.name));
        let bytes: Vec<u8> = kernel.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        fs::write(folder.join(&file), bytes)?;
        index += &format!("{file}\t{}\n", kernel.name);
    }
    fs::write(folder.join("index.txt"), index)?;
    Ok(())
}
