//! A sequence's state as bytes: a header, then for each store and page the lines of the positions in use.
//!
//! | words | meaning |
//! |---|---|
//! | 0 | `KLNS` |
//! | 1 | version |
//! | 2, 3 | print of the model and of the layout of its stores |
//! | 4 | positions |
//! | 5 … | for each group of layers the first page that is there |

use kiln_kernels::kv_store::PAGE;

use crate::forward::ForwardError;
use crate::gguf::Gguf;
use crate::graph::{Graph, LayerState, TensorRole};
use crate::plan::{PageGroup, Plan};

const MAGIC: u32 = u32::from_le_bytes(*b"KLNS");
const VERSION: u32 = 3;
/// Words before those of the groups.
const HEADER_WORDS: usize = 5;

/// What a saved state has to agree with.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    print: u64,
    /// Heads of keys and values in each store: keys and values of each layer.
    heads: Vec<usize>,
    /// The group of each store.
    groups: Vec<usize>,
    /// What each group's layers see; none for all.
    windows: Vec<Option<usize>>,
}

/// A saved state taken apart.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) n_past: usize,
    /// The first page of each group.
    pub(super) first: Vec<usize>,
    pub(super) content: &'a [u8],
}

impl Layout {
    /// Of a model as planned.
    pub(super) fn of(gguf: &Gguf, graph: &Graph, plan: &Plan) -> Self {
        let kv = |layer: &LayerState| match layer {
            LayerState::Kv { n_head_kv, .. } => Some([*n_head_kv; 2]),
            LayerState::None | LayerState::Recurrent { .. } => None,
        };
        let heads: Vec<usize> = graph.layers.iter().filter_map(kv).flatten().collect();
        let mut print = Print::default();
        print.add(plan.context.kv_type.name().as_bytes());
        print.add(format!("{:?}", graph.layers).as_bytes());
        // Gains are few and no two trained models have the same.
        for spec in graph.tensors.iter().filter(|t| t.role == TensorRole::Norm) {
            print.add(gguf.tensor(&spec.name).map_or(&[], |t| t.data));
        }
        let windows: Vec<_> = plan.groups.iter().map(|group| group.window).collect();
        let group = |layer: &LayerState| match layer {
            LayerState::Kv { window, .. } => PageGroup::of(&plan.groups, *window).map(|group| [group; 2]),
            LayerState::None | LayerState::Recurrent { .. } => None,
        };
        let groups = graph.layers.iter().filter_map(group).flatten().collect();
        Self { print: print.0, heads, groups, windows }
    }

    /// The header for `n_past` positions, of which each group has those from page `first` on.
    pub(super) fn header(&self, n_past: usize, first: &[usize]) -> Vec<u8> {
        let [low, high] = [self.print as u32, (self.print >> 32) as u32];
        let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let words = [MAGIC, VERSION, low, high, word(n_past)].into_iter();
        words.chain(first.iter().map(|first| word(*first))).flat_map(u32::to_le_bytes).collect()
    }

    /// Appends the lines of the first `n` positions of a page of store `index`.
    pub(super) fn take(&self, index: usize, page: &[u8], n: usize, out: &mut Vec<u8>) {
        let head_bytes = page.len() / self.heads[index];
        let used = head_bytes / PAGE as usize * n;
        page.chunks_exact(head_bytes).for_each(|head| out.extend_from_slice(&head[..used]));
    }

    /// The page of `page_bytes` bytes that [`Layout::take`] took `n` positions of, and what follows it.
    pub(super) fn put<'a>(
        &self,
        index: usize,
        page_bytes: usize,
        n: usize,
        saved: &'a [u8],
    ) -> (Vec<u8>, &'a [u8]) {
        let head_bytes = page_bytes / self.heads[index];
        let used = head_bytes / PAGE as usize * n;
        let (lines, rest) = saved.split_at(used * self.heads[index]);
        let mut page = vec![0; page_bytes];
        for (head, lines) in page.chunks_exact_mut(head_bytes).zip(lines.chunks_exact(used)) {
            head[..used].copy_from_slice(lines);
        }
        (page, rest)
    }

    /// A saved state of this layout, taken apart; `page_bytes` are those of each store.
    ///
    /// # Errors
    /// The first thing that differs.
    pub(super) fn open<'a>(&self, saved: &'a [u8], page_bytes: &[usize]) -> Result<Opened<'a>, ForwardError> {
        let differs = |expected: String, found: String| Err(ForwardError::Saved { expected, found });
        let header_bytes = 4 * (HEADER_WORDS + self.windows.len());
        let Some((header, content)) = saved.split_at_checked(header_bytes) else {
            return differs(format!("at least {header_bytes} bytes"), saved.len().to_string());
        };
        let word =
            |i: usize| header[4 * i..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes));
        if (word(0), word(1)) != (MAGIC, VERSION) {
            return differs(format!("`KLNS`, version {VERSION}"), format!("{:#010x}, {}", word(0), word(1)));
        }
        let print = u64::from(word(2)) | u64::from(word(3)) << 32;
        if print != self.print {
            return differs(format!("the print {:016x}", self.print), format!("{print:016x}"));
        }
        let n_past = word(4) as usize;
        let first: Vec<usize> = (0..self.windows.len()).map(|i| word(HEADER_WORDS + i) as usize).collect();
        for (window, first) in self.windows.iter().zip(&first) {
            let most = window.map_or(0, |window| (n_past + 1).saturating_sub(window) / PAGE as usize);
            if *first > most {
                return differs(
                    format!("positions from page {most} on or earlier"),
                    format!("from {first} on"),
                );
            }
        }
        let stores = page_bytes.iter().zip(&self.groups);
        let expected = stores.fold(0usize, |sum, (bytes, group)| {
            let n = n_past - first[*group] * PAGE as usize;
            sum.saturating_add((bytes / PAGE as usize).saturating_mul(n))
        });
        if expected != content.len() {
            let found = format!("{} bytes", content.len());
            return differs(format!("{expected} bytes for {n_past} positions"), found);
        }
        Ok(Opened { n_past, first, content })
    }
}

/// FNV-1a, 64 bits.
struct Print(u64);

impl Default for Print {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Print {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
