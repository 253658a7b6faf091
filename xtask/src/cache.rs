//! The folder outside git that holds what was fetched: staged under `partial/`, renamed into place, then stamped.
//!
//! A stamp repeats the pin of what it vouches for and is written last, so an interrupted set-up is redone, never trusted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::process::Result;

/// The cache's root and the lock that keeps a second set-up out.
pub(crate) struct Cache {
    root: PathBuf,
    _lock: File,
}

fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|e| format!("{}: {e}", path.display()))
}

/// Where the cache is, whether or not it exists yet.
pub(crate) fn root() -> Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = var("KILN_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("kiln")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/kiln")))
        .ok_or("set KILN_CACHE: neither it nor XDG_CACHE_HOME nor HOME says where the cache belongs")?;
    at(&root, std::path::absolute(&root))
}

impl Cache {
    /// Opens the cache, waiting for any other set-up to finish.
    pub(crate) fn open() -> Result<Cache> {
        let root = root()?;
        at(&root, fs::create_dir_all(root.join("stamps")))?;
        let path = root.join("lock");
        let lock = at(&path, File::create(&path))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting for another set-up of {}", root.display());
            at(&path, lock.lock())?;
        }
        Ok(Cache { root, _lock: lock })
    }

    /// An absolute path inside the cache.
    pub(crate) fn path(&self, rel: &str) -> PathBuf {
        self.root.join(rel)
    }

    /// Whether `name` was installed whole from this very pin and is still there.
    pub(crate) fn is_current(&self, name: &str, pin: &str, installed: &[&str]) -> bool {
        let current = fs::read_to_string(self.stamp(name)).is_ok_and(|stamp| stamp == pin)
            && installed.iter().all(|rel| self.path(rel).exists());
        if current {
            eprintln!("      up to date");
        }
        current
    }

    /// An empty folder to build `name` in; leftovers of an interrupted attempt are dropped.
    pub(crate) fn stage(&self, name: &str) -> Result<PathBuf> {
        let dir = self.path("partial").join(name);
        remove(&dir)?;
        at(&dir, fs::create_dir_all(&dir))?;
        Ok(dir)
    }

    /// Moves each staged path to its place in the cache, stamps `name`, and removes its stage.
    pub(crate) fn install(&self, name: &str, pin: &str, moves: &[(PathBuf, &str)]) -> Result<()> {
        let stamp = self.stamp(name);
        remove(&stamp)?;
        for (staged, rel) in moves {
            let target = self.path(rel);
            remove(&target)?;
            if let Some(parent) = target.parent() {
                at(parent, fs::create_dir_all(parent))?;
            }
            at(staged, fs::rename(staged, &target))?;
        }
        let partial = self.path("partial").join(name);
        at(&partial, fs::create_dir_all(&partial))?;
        let written = partial.join("stamp");
        at(&written, fs::write(&written, pin))?;
        at(&stamp, fs::rename(&written, &stamp))?;
        remove(&partial)?;
        eprintln!("      installed");
        Ok(())
    }

    fn stamp(&self, name: &str) -> PathBuf {
        self.path("stamps").join(name)
    }
}

fn remove(path: &Path) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    at(path, if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) })
}
