//! Models that are split over several files.

use std::path::{Path, PathBuf};

use super::{Metadata, error::GgufError};

/// What a part says of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// From 0.
    pub(super) index: u32,
    pub(super) count: u32,
    pub(super) n_tensors: Option<u64>,
}

impl Split {
    /// The split keys, if the file is one of several parts.
    pub(super) fn of(metadata: Metadata<'_>) -> Result<Option<Self>, GgufError> {
        let Some(count) = metadata.opt_u32("split.count")?.filter(|n| *n > 1) else { return Ok(None) };
        let index = metadata.u32("split.no")?;
        let n_tensors = metadata.opt_u64("split.tensors.count")?;
        Ok(Some(Split { index, count, n_tensors }))
    }

    /// The paths of all parts, from the path of the first.
    pub(super) fn paths(self, path: &Path) -> Result<Vec<PathBuf>, GgufError> {
        let Split { index, count, .. } = self;
        let name = path.file_name().and_then(|n| n.to_str());
        let stem = name.and_then(|n| n.strip_suffix(&format!("-{:05}-of-{count:05}.gguf", index + 1)));
        let Some(stem) = stem else {
            return Err(GgufError::SplitName { path: path.to_path_buf(), index, count });
        };
        let part = |i: u32| path.with_file_name(format!("{stem}-{:05}-of-{count:05}.gguf", i + 1));
        if index != 0 {
            return Err(GgufError::NotFirstSplit { path: path.to_path_buf(), index, count, first: part(0) });
        }
        Ok((0..count).map(part).collect())
    }

    /// Whether `found`, what part `part` says of itself, fits the first part.
    pub(super) fn check(self, part: u32, found: Option<Split>) -> Result<(), GgufError> {
        let mismatch = |key, found, expected| Err(GgufError::SplitMismatch { part, key, found, expected });
        let (count, index) = found.map_or((1, 0), |s| (s.count, s.index));
        if count != self.count {
            return mismatch("split.count", count.into(), self.count.into());
        }
        if index != part {
            return mismatch("split.no", index.into(), part.into());
        }
        Ok(())
    }
}
