//! Compiled pipelines on disk: one file per driver and kernel, ignored and rewritten when it is not what it says.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::CacheDir;

const MAGIC: [u8; 8] = *b"KILNPC01";
/// Magic, driver, device, kernel, length, checksum.
const HEADER_BYTES: usize = 8 + 16 + 16 + 16 + 8 + 8;

/// The cache of one driver and device.
pub(crate) struct DiskCache {
    folder: Option<PathBuf>,
    driver: [u8; 16],
    device: [u8; 16],
    /// Whether it was said that nothing can be kept.
    told: AtomicBool,
}

impl DiskCache {
    pub(crate) fn new(dir: &CacheDir, driver: [u8; 16], device: [u8; 16]) -> Self {
        let root = match dir {
            CacheDir::Standard => standard_root(|name| env::var_os(name).map(PathBuf::from)),
            CacheDir::At(path) => Some(path.clone()),
            CacheDir::Off => None,
        };
        let folder = root.map(|root| root.join("pipelines").join(hex(&driver)));
        Self { folder, driver, device, told: AtomicBool::new(false) }
    }

    /// The pipeline cache data of a kernel; `None` when there is none or it is damaged or another driver's.
    pub(crate) fn load(&self, kernel: u128) -> Option<Vec<u8>> {
        let path = self.path(kernel)?;
        let bytes = fs::read(&path).ok()?;
        let data = self.open(kernel, &bytes);
        if data.is_none() {
            tracing::warn!(path = %path.display(), "ignoring a damaged pipeline cache file");
        }
        data.map(<[u8]>::to_vec)
    }

    /// Keeps a kernel's pipeline cache data. A cache that cannot be written costs time, nothing else.
    pub(crate) fn store(&self, kernel: u128, data: &[u8]) {
        let Some(path) = self.path(kernel) else { return };
        let mut bytes = self.header(kernel, data);
        bytes.extend_from_slice(data);
        // Once: a model has dozens of kernels, and a folder fails for all of them.
        if let Err(error) = write_whole(&path, &bytes)
            && !self.told.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "compiled pipelines are not kept, {}: {error}; KILN_CACHE names another folder",
                path.display()
            );
        }
    }

    fn path(&self, kernel: u128) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{kernel:032x}.bin")))
    }

    fn header(&self, kernel: u128, data: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES + data.len());
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&self.driver);
        header.extend_from_slice(&self.device);
        header.extend_from_slice(&kernel.to_le_bytes());
        header.extend_from_slice(&(data.len() as u64).to_le_bytes());
        header.extend_from_slice(&(fingerprint(data) as u64).to_le_bytes());
        header
    }

    fn open<'a>(&self, kernel: u128, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (header, data) = bytes.split_at_checked(HEADER_BYTES)?;
        (header == self.header(kernel, data)).then_some(data)
    }
}

/// The folder that the environment names.
fn standard_root(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("KILN_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("kiln")))
        .or_else(|| Some(set("HOME")?.join(".cache").join("kiln")))
}

/// A reader sees the old file or the new one, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let unique = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{unique}.tmp", process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Best effort: the failure itself is what the caller hears of.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// FNV-1a over 128 bits: names kernels and finds accidental damage; it is no defense against a forger.
pub(crate) fn fingerprint(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(BASIS, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{DiskCache, fingerprint, standard_root};
    use crate::CacheDir;
    use std::{
        env, fs,
        path::PathBuf,
        process,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(env::temp_dir().join(format!("kiln-cache-{name}-{}", process::id())))
        }

        fn cache(&self, driver: u8) -> DiskCache {
            DiskCache::new(&CacheDir::At(self.0.clone()), [driver; 16], [7; 16])
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_stored_is_loaded_by_the_same_driver_and_kernel_alone() {
        let folder = Folder::new("round-trip");
        folder.cache(1).store(42, b"compiled");
        assert_eq!(folder.cache(1).load(42).as_deref(), Some(&b"compiled"[..]));
        assert_eq!(folder.cache(1).load(43), None);
        assert_eq!(folder.cache(2).load(42), None);
        let left: Vec<_> = fs::read_dir(folder.0.join("pipelines").join("01".repeat(16))).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file stays behind");
    }

    /// Counts events.
    #[derive(Clone, Default)]
    struct Events(Arc<AtomicU64>);

    impl tracing::Subscriber for Events {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
            tracing::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
        fn enter(&self, _: &tracing::Id) {}
        fn exit(&self, _: &tracing::Id) {}
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_once() {
        let folder = Folder::new("file");
        fs::write(&folder.0, b"a file where the folder would be").unwrap();
        let (cache, events) = (folder.cache(1), Events::default());
        tracing::subscriber::with_default(events.clone(), || {
            (0..3).for_each(|kernel| cache.store(kernel, b"compiled"));
        });
        fs::remove_file(&folder.0).unwrap();
        assert_eq!(events.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_damaged_or_foreign_file_is_ignored_and_rewritten() {
        let folder = Folder::new("damage");
        let cache = folder.cache(1);
        cache.store(42, b"compiled");
        let path = cache.path(42).unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(cache.load(42), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.load(42), None, "cut at {at}");
        }
        let mut foreign = folder.cache(2).header(42, b"compiled");
        foreign.extend_from_slice(b"compiled");
        fs::write(&path, &foreign).unwrap();
        assert_eq!(cache.load(42), None);
        cache.store(42, b"again");
        assert_eq!(cache.load(42).as_deref(), Some(&b"again"[..]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = Folder::new("blocked");
        fs::write(&folder.0, b"a file where the folder should be").unwrap();
        folder.cache(1).store(42, b"compiled");
        assert_eq!(folder.cache(1).load(42), None);
        fs::remove_file(&folder.0).unwrap();
    }

    #[test]
    fn the_environment_names_the_folder() {
        let root = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v));
            standard_root(find)
        };
        let all = [("KILN_CACHE", "/k"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(root(&all), Some("/k".into()));
        assert_eq!(root(&all[1..]), Some("/x/kiln".into()));
        assert_eq!(root(&all[2..]), Some("/h/.cache/kiln".into()));
        assert_eq!(root(&[("KILN_CACHE", ""), ("HOME", "/h")]), Some("/h/.cache/kiln".into()));
        assert_eq!(root(&[]), None);
    }

    #[test]
    fn fingerprints_are_the_published_function() {
        assert_eq!(fingerprint(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fingerprint(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
