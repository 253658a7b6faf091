//! Attention and the pages that it keeps.

use kiln_abi::BufferRange;
use kiln_kernels::{
    Call,
    attention::{self, AttentionArgs, AttentionPush, Leaves},
    attention_khr::{self, AttentionKhr, AttentionKhrArgs},
    gemv,
    kv_store::{KvStore, KvStoreArgs, KvStorePush},
};

use super::{Planner, Step, index, pages::LayerPages};
use crate::graph::{Attention, ValueId};
use crate::plan::{Context, PlanError, Width};

impl Planner<'_> {
    pub(super) fn attention(
        &mut self,
        step: &mut Step,
        [q, k, v]: [ValueId; 3],
        layer: usize,
        words: Attention,
        y: usize,
    ) -> Result<(), PlanError> {
        let head_dim = index("a head", words.head_dim)?;
        let ty = self.context.kv_type;
        if !attention::serves(head_dim, ty) {
            return Err(PlanError::HeadDim { found: words.head_dim, ty });
        }
        let n_head_kv = index("heads", words.n_head_kv)?;
        let LayerPages { keys, values, table, n_pages } = self.pages(layer)?;
        let Context { n_slots, max_pages, .. } = self.context;
        let rows = step.class.rows;
        let store = KvStoreArgs {
            k: self.range(step.values[&k]).into(),
            v: self.range(step.values[&v]).into(),
            step: self.range(self.fixed.step).into(),
            table: self.range(table).into(),
            k_pages: self.range(keys).into(),
            v_pages: self.range(values).into(),
            p: KvStorePush { rows, n_head_kv, max_pages, n_slots, n_pages },
        };
        step.launch("kv_store", Call::new(KvStore::new(head_dim, ty), &store));
        let q = step.values[&q];
        let y = self.range(y);
        self.attend(step, q, layer, words, (Leaves::Rows, y))
    }

    /// Attends to what is kept already; `q` is the buffer of the queries.
    pub(super) fn attend(
        &mut self,
        step: &mut Step,
        q: usize,
        layer: usize,
        words: Attention,
        (leaves, y): (Leaves, BufferRange),
    ) -> Result<(), PlanError> {
        let head_dim = index("a head", words.head_dim)?;
        let (n_head, n_head_kv) = (index("heads", words.n_head)?, index("heads", words.n_head_kv)?);
        let LayerPages { keys, values, table, n_pages } = self.pages(layer)?;
        let Context { n_slots, max_pages, kv_type: ty, .. } = self.context;
        let rows = step.class.rows;
        let window = words.window.map_or(0, |w| u32::try_from(w).unwrap_or(u32::MAX));
        let p = AttentionPush {
            rows,
            n_head,
            n_head_kv,
            max_pages,
            n_slots,
            n_pages,
            window,
            scale: words.scale,
            soft_cap: words.soft_cap.unwrap_or(0.0),
        };
        let (q, keys, values) = (self.range(q), self.range(keys), self.range(values));
        let (block, table) = (self.range(self.fixed.step).into(), self.range(table).into());
        let shape = attention_khr::choose(rows, head_dim, ty, self.caps);
        if let Some(shape) =
            shape.filter(|_| self.fuse && step.class.width != Width::Narrow && leaves == Leaves::Rows)
        {
            let args = AttentionKhrArgs {
                q: q.into(),
                k_pages: keys.into(),
                v_pages: values.into(),
                step: block,
                table,
                y: y.into(),
                p,
            };
            let call = Call::new(AttentionKhr::new(shape), &args);
            step.launch_because("attention", call, format!("{rows} rows on matrices of f16; {shape:?}"));
            return Ok(());
        }
        let args = AttentionArgs {
            q: q.into(),
            k_pages: keys.into(),
            v_pages: values.into(),
            step: block,
            table,
            y: (leaves == Leaves::Rows).then(|| y.into()),
            packed: (leaves == Leaves::Blocks).then(|| y.into()),
            p,
        };
        let kernel = attention::Attention::new(head_dim, ty, leaves, gemv::subgroup(self.caps));
        step.launch("attention", Call::new(kernel, &args));
        Ok(())
    }
}
