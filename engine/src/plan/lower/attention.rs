//! Attention and the pages that it keeps.

use kiln_abi::BufferRange;
use kiln_kernels::{
    Call,
    attention::{
        self, AttentionArgs, AttentionPush, Choice, Leaves, Reach, Shape,
        parts::{AttentionParts, AttentionPartsArgs, AttentionPartsPush},
    },
    attention_khr::{self, AttentionKhr, AttentionKhrArgs},
    kv_store::{KvStore, KvStoreArgs, KvStorePush},
};

use super::{Planner, Step, index, pages::LayerPages};
use crate::graph::{Attention, Op, ValueId};
use crate::plan::{Context, Holds, PlanError, Width};

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
        let LayerPages { keys, values, table, n_pages } = self.pages(layer)?;
        let Context { n_slots, max_pages, kv_type: ty, .. } = self.context;
        let rows = step.class.rows;
        let shape = self.attention_shape(rows, words)?;
        let Choice { grain, n_parts, heads, subgroup, reason } = self.choose_attention(shape);
        let Shape { n_head, n_head_kv, head_dim, window, .. } = shape;
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
            n_parts,
        };
        let (q, keys, values) = (self.range(q), self.range(keys), self.range(values));
        let (block, table) = (self.range(self.fixed.step).into(), self.range(table).into());
        let tile = attention_khr::choose(rows, head_dim, ty, self.caps);
        if let Some(tile) =
            tile.filter(|_| self.fuse && step.class.width != Width::Narrow && leaves == Leaves::Rows)
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
            let call = Call::new(AttentionKhr::new(tile), &args);
            step.launch_because("attention", call, format!("{rows} rows on matrices of f16; {tile:?}"));
            return Ok(());
        }
        let parts = grain.map(|_| self.parts(shape, n_parts)).transpose()?;
        let to = |kind| (leaves == kind).then_some(y);
        let whole = |kind| to(kind).filter(|_| grain.is_none());
        let args = AttentionArgs {
            q: q.into(),
            k_pages: keys.into(),
            v_pages: values.into(),
            step: block,
            table,
            y: whole(Leaves::Rows).map(Into::into),
            packed: whole(Leaves::Blocks).map(Into::into),
            sums: parts.map(|[sums, _]| sums.into()),
            marks: parts.map(|[_, marks]| marks.into()),
            p,
        };
        let reach = grain.map_or(Reach::All(leaves), Reach::Part);
        let kernel = attention::Attention::new(head_dim, ty, heads, reach, subgroup);
        step.launch_because("attention", Call::new(kernel, &args), reason);
        if let (Some(grain), Some([sums, marks])) = (grain, parts) {
            let args = AttentionPartsArgs {
                sums: sums.into(),
                marks: marks.into(),
                step: block,
                y: to(Leaves::Rows).map(Into::into),
                packed: to(Leaves::Blocks).map(Into::into),
                p: AttentionPartsPush { rows, n_head, n_parts, window },
            };
            let kernel = AttentionParts::new(head_dim, ty.is_mixed(), grain, leaves, subgroup);
            let reason = format!("parts of {} keys come together in their order", grain.keys());
            step.launch_because("attention", Call::new(kernel, &args), reason);
        }
        Ok(())
    }

    fn attention_shape(&self, rows: u32, words: Attention) -> Result<Shape, PlanError> {
        Ok(Shape {
            rows,
            n_head: index("heads", words.n_head)?,
            n_head_kv: index("heads", words.n_head_kv)?,
            head_dim: index("a head", words.head_dim)?,
            ty: self.context.kv_type,
            n_ctx: self.context.n_ctx,
            window: words.window.map_or(0, |w| u32::try_from(w).unwrap_or(u32::MAX)),
        })
    }

    fn choose_attention(&self, shape: Shape) -> Choice {
        let choice = attention::choose(shape, self.caps);
        if self.whole_keys { choice.whole() } else { choice }
    }

    /// Room for the parts of a launch: their sums, and their marks. All launches use the same two buffers.
    fn parts(&mut self, shape: Shape, n_parts: u32) -> Result<[BufferRange; 2], PlanError> {
        let bytes = |shape: Shape, n_parts: u32| {
            let heads = 4 * u64::from(shape.rows) * u64::from(n_parts) * u64::from(shape.n_head);
            [heads * u64::from(shape.head_dim), 2 * heads]
        };
        let [sums, marks] = match self.fixed.parts {
            Some(parts) => parts,
            None => {
                let mut most = [0, 0];
                for node in &self.graph.nodes {
                    let Op::Attention { attention, .. } = node.op else { continue };
                    for rows in super::CLASS_ROWS {
                        let shape = self.attention_shape(rows, attention)?;
                        let choice = self.choose_attention(shape);
                        if choice.grain.is_some() {
                            let own = bytes(shape, choice.n_parts);
                            most = [most[0].max(own[0]), most[1].max(own[1])];
                        }
                    }
                }
                let parts = [
                    self.buffer("parts of attention", most[0], Holds::Parts),
                    self.buffer("marks of the parts", most[1], Holds::Parts),
                ];
                *self.fixed.parts.insert(parts)
            }
        };
        let own = bytes(shape, n_parts);
        let range = |buffer: usize, bytes: u64| BufferRange { bytes, ..self.range(buffer) };
        Ok([range(sums, own[0]), range(marks, own[1])])
    }
}
