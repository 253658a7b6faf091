//! Models that are split over several files.

use std::path::{Path, PathBuf};

use super::{
    Metadata,
    error::{GgufError, quoted},
};

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
        if index >= count {
            let (key, expected) = (quoted("split.no"), "0 to split.count - 1");
            return Err(GgufError::ValueOutOfRange { key, expected, found: index.into() });
        }
        let n_tensors = metadata.opt_u64("split.tensors.count")?;
        Ok(Some(Split { index, count, n_tensors }))
    }

    /// The paths of all parts but the first, from the path of the first. One at a time: a file can claim any count.
    pub(super) fn other_paths(self, path: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>, GgufError> {
        let Split { index, count, .. } = self;
        let ending = move |index: u32| format!("-{:05}-of-{count:05}.gguf", index + 1);
        let name = path.file_name().and_then(|n| n.to_str());
        let Some(stem) = name.and_then(|n| n.strip_suffix(&ending(index))) else {
            return Err(GgufError::SplitName { path: path.to_path_buf(), index, count });
        };
        let (folder, stem) = (path.parent().unwrap_or(Path::new("")).to_path_buf(), stem.to_owned());
        let part = move |index| folder.join(stem.clone() + &ending(index));
        if index != 0 {
            return Err(GgufError::NotFirstSplit { path: path.to_path_buf(), index, count, first: part(0) });
        }
        Ok((1..count).map(part))
    }
}

/// Checks that these parts, by what each says of itself, are all the parts of one model in order.
pub(super) fn check(parts: &[Option<Split>], n_tensors: u64) -> Result<(), GgufError> {
    let n_parts = parts.len() as u64;
    for (at, part) in (0..).zip(parts) {
        let equal = |key, found: u64, expected: u64| match found == expected {
            true => Ok(()),
            false => Err(GgufError::SplitMismatch { part: at, key, found, expected }),
        };
        let (count, index) = part.map_or((1, 0), |s| (s.count, s.index));
        equal("split.count", count.into(), n_parts)?;
        equal("split.no", index.into(), at.into())?;
        if let Some(stated) = part.and_then(|s| s.n_tensors) {
            equal("split.tensors.count", stated, n_tensors)?;
        }
    }
    Ok(())
}
