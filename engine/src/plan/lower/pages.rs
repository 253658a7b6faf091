//! Pages of keys and values: how many a layer has, and which layers share a table.

use kiln_kernels::kv_store::PAGE;

use super::{Planner, index};
use crate::graph::{Graph, LayerState};
use crate::plan::{Context, Holds, PageGroup, PlanError, PlanOptions};

/// A layer's stores and its group's table, by buffer.
pub(super) struct LayerPages {
    pub(super) keys: usize,
    pub(super) values: usize,
    pub(super) table: usize,
    /// Pages of each store.
    pub(super) n_pages: u32,
}

/// A context of `n_ctx` positions in pages.
pub(super) fn context(options: PlanOptions, n_ctx: usize) -> Result<Context, PlanError> {
    let PlanOptions { n_slots, n_pages, kv_type, .. } = options;
    if n_ctx == 0 || n_slots == 0 {
        return Err(PlanError::Nothing { what: if n_ctx == 0 { "positions" } else { "sequences" } });
    }
    let too_large = || PlanError::TooLarge { what: "the context of all sequences", found: n_ctx };
    let max_pages = index("the context", n_ctx)?.div_ceil(PAGE);
    let n_pages = n_pages.unwrap_or(0).max(max_pages).max(n_slots);
    max_pages.checked_mul(n_slots).ok_or_else(too_large)?;
    Ok(Context { n_ctx: index("the context", n_ctx)?, n_slots, max_pages, n_pages, kv_type })
}

/// The kinds of layers that keep positions, those that keep all first; `rows` are those of a step, at most.
pub(super) fn groups(graph: &Graph, options: PlanOptions, context: Context, rows: u32) -> Vec<PageGroup> {
    let window = |state: &LayerState| match state {
        LayerState::Kv { window, .. } => Some(window.filter(|_| !options.keep_all)),
        LayerState::None | LayerState::Recurrent { .. } => None,
    };
    let mut windows: Vec<_> = graph.layers.iter().filter_map(window).collect();
    windows.sort_unstable();
    windows.dedup();
    let group = |window: Option<usize>| {
        let n_pages = window.map_or(context.n_pages, |window| {
            let own = window_pages(window, rows).min(context.max_pages);
            // As for layers that see all: one sequence at its longest or one page for each slot; or what was asked for,
            // as far as it serves.
            let enough = if options.n_pages.is_some() { own.saturating_mul(context.n_slots) } else { own };
            enough.max(context.n_slots).min(context.n_pages)
        });
        PageGroup { window, n_pages }
    };
    windows.into_iter().map(group).collect()
}

/// Pages that a sequence has at most in a layer whose rows see `window` positions: those that a step of `rows` rows sees
/// or writes, wherever they start in a page, and a page's positions that a rewind may need.
fn window_pages(window: usize, rows: u32) -> u32 {
    let page = PAGE as usize;
    let positions = window.saturating_add(rows as usize).saturating_add(page - 1);
    u32::try_from((positions - 1).div_ceil(page) + 1).unwrap_or(u32::MAX)
}

impl Planner<'_> {
    pub(super) fn page_tables(&mut self) {
        let bytes = 4 * u64::from(self.context.n_slots * self.context.max_pages);
        for group in 0..self.groups.len() {
            let name = match self.groups[group].window {
                None => "page table".to_owned(),
                Some(window) => format!("page table of windows of {window}"),
            };
            let table = self.buffer(name, bytes, Holds::PageTable { group });
            self.tables.push(table);
        }
    }

    /// Where a layer's keys and values are.
    pub(super) fn pages(&mut self, layer: usize) -> Result<LayerPages, PlanError> {
        let LayerState::Kv { n_head_kv, head_dim, window } = self.graph.layers[layer] else {
            return Err(PlanError::State { layer });
        };
        let group = PageGroup::of(&self.groups, window).ok_or(PlanError::State { layer })?;
        let (table, n_pages) = (self.tables[group], self.groups[group].n_pages);
        let known = self.layers.get(&layer).copied();
        let (keys, values) = match known {
            Some(stores) => stores,
            None => {
                let lines = u64::from(n_pages) * u64::from(PAGE) * n_head_kv as u64;
                let line_words = self.context.kv_type.line_words(index("a head", head_dim)?);
                let bytes = 4 * lines * u64::from(line_words);
                let keys = self.buffer(format!("keys of layer {layer}"), bytes, Holds::Keys { layer, group });
                let holds = Holds::Values { layer, group };
                let values = self.buffer(format!("values of layer {layer}"), bytes, holds);
                self.layers.insert(layer, (keys, values));
                (keys, values)
            }
        };
        Ok(LayerPages { keys, values, table, n_pages })
    }
}

#[cfg(test)]
mod tests {
    use super::window_pages;

    #[test]
    fn a_window_takes_few_pages() {
        assert_eq!([window_pages(1, 1), window_pages(512, 128), window_pages(4096, 128)], [2, 5, 19]);
    }
}
