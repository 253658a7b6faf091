//! A sequence's state as bytes: a header, then for each store and page the lines of the positions in use.
//!
//! | words | meaning |
//! |---|---|
//! | 0 | `KLNS` |
//! | 1 | version |
//! | 2, 3 | print of the model and of the layout of its stores |
//! | 4 | positions |

use kiln_kernels::kv_store::PAGE;

use crate::forward::ForwardError;
use crate::gguf::Gguf;
use crate::graph::{Graph, LayerState, TensorRole};
use crate::plan::Plan;

const MAGIC: u32 = u32::from_le_bytes(*b"KLNS");
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 20;

/// What a saved state has to agree with.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    print: u64,
    /// Heads of keys and values in each store: keys and values of each layer.
    heads: Vec<usize>,
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
        Self { print: print.0, heads }
    }

    /// The header for `n_past` positions.
    pub(super) fn header(&self, n_past: usize) -> Vec<u8> {
        let [low, high] = [self.print as u32, (self.print >> 32) as u32];
        let words = [MAGIC, VERSION, low, high, u32::try_from(n_past).unwrap_or(u32::MAX)];
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
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

    /// The positions and the content of a saved state of this layout; `page_bytes` are those of each store.
    ///
    /// # Errors
    /// The first thing that differs.
    pub(super) fn open<'a>(
        &self,
        saved: &'a [u8],
        page_bytes: &[usize],
    ) -> Result<(usize, &'a [u8]), ForwardError> {
        let differs = |expected: String, found: String| Err(ForwardError::Saved { expected, found });
        let Some((header, content)) = saved.split_at_checked(HEADER_BYTES) else {
            return differs(format!("at least {HEADER_BYTES} bytes"), saved.len().to_string());
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
        let position_bytes: usize = page_bytes.iter().map(|bytes| bytes / PAGE as usize).sum();
        if n_past.checked_mul(position_bytes) != Some(content.len()) {
            return differs(
                format!("{position_bytes} bytes for each of {n_past} positions"),
                format!("{} bytes", content.len()),
            );
        }
        Ok((n_past, content))
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
