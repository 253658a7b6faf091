//! Tensor addressing: from a row and a column through view, slice, clamp mode and blocks to a place in memory.

use kiln_abi::spirv::ClampMode;

use super::{Failed, Matrix, Together, elements::name, fault};
use crate::{
    decode::width_mask,
    matrix::{Decoder, Layout, LayoutSlots, MAX_DIM, Shape, Source, Tensor, View, ViewSlots, ViewType},
    trap::TrapKind,
};

/// A coordinate of each dimension.
pub(super) type Coordinates = [u32; MAX_DIM];

/// A tensor layout's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayoutNumbers {
    dim: usize,
    clamp: ClampMode,
    block: Coordinates,
    dimension: Coordinates,
    stride: Coordinates,
    offset: [i32; MAX_DIM],
    span: Coordinates,
    clamp_value: u32,
}

/// A tensor view's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewNumbers {
    ty: ViewType,
    dimension: Coordinates,
    stride: Coordinates,
    /// Row offset, row span, column offset, column span.
    clip: [u32; 4],
}

/// What a load or store does for one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// It is in this block, which is the `index`-th step from the pointer.
    At { block: Coordinates, inside: Coordinates, index: u64 },
    /// A load yields this value.
    Value(u32),
    /// The view clips the element, or a store drops it.
    Skipped,
}

/// The place of an element of a matrix of `cols` columns, or what is wrong.
pub(super) fn locate(
    t: &LayoutNumbers,
    view: Option<&ViewNumbers>,
    row: u32,
    col: u32,
    cols: u32,
    stores: bool,
) -> Result<Spot, (TrapKind, String)> {
    let zero = |what: &str| Err((TrapKind::Matrix, format!("{what} of 0 in a tensor")));
    let mut index = match view {
        None => u64::from(row) * u64::from(cols) + u64::from(col),
        Some(v) => {
            let [row0, rows, col0, width] = v.clip;
            let (Some(r), Some(c)) = (row.checked_sub(row0), col.checked_sub(col0)) else {
                return Ok(Spot::Skipped);
            };
            if r >= rows || c >= width {
                return Ok(Spot::Skipped);
            }
            match through_view(t, v, u64::from(r) * u64::from(cols.min(width)) + u64::from(c)) {
                Some(index) => index,
                None => return zero("a view's dimension or span"),
            }
        }
    };
    if index > u64::from(u32::MAX) {
        return Err((TrapKind::IndexWrap, format!("index {index} of a tensor view does not fit 32 bits")));
    }
    let (mut block, mut inside, mut at) = ([0; MAX_DIM], [0; MAX_DIM], 0u64);
    let mut span = [0u32; MAX_DIM];
    for d in (0..t.dim).rev() {
        if t.span[d] == 0 {
            return zero("a span");
        }
        span[d] = (index % u64::from(t.span[d])) as u32;
        index /= u64::from(t.span[d]);
    }
    for d in 0..t.dim {
        let (n, mut c) = (i64::from(t.dimension[d]), i64::from(span[d]) + i64::from(t.offset[d]));
        if !(0..n).contains(&c) {
            let mode = if stores && t.clamp != ClampMode::Undefined { ClampMode::Constant } else { t.clamp };
            match mode {
                ClampMode::Undefined => {
                    let detail = format!(
                        "coordinate {c} of dimension {d}, which has {n}, and the layout's clamp mode is Undefined"
                    );
                    return Err((TrapKind::OutOfBounds, detail));
                }
                ClampMode::Constant if stores => return Ok(Spot::Skipped),
                ClampMode::Constant => return Ok(Spot::Value(t.clamp_value)),
                _ if n == 0 => return zero("a dimension"),
                ClampMode::ClampToEdge => c = c.clamp(0, n - 1),
                ClampMode::Repeat => c = c.rem_euclid(n),
                ClampMode::RepeatMirrored if n == 1 => c = 0,
                ClampMode::RepeatMirrored => {
                    c = c.rem_euclid(2 * n - 2);
                    c = if c >= n { 2 * n - 2 - c } else { c };
                }
            }
        }
        if t.block[d] == 0 {
            return zero("a block");
        }
        let c = c as u32;
        (block[d], inside[d]) = (c / t.block[d], c % t.block[d]);
        at += u64::from(block[d]) * u64::from(t.stride[d]);
    }
    Ok(Spot::At { block, inside, index: at })
}

/// The index in the span of the view's `index`-th element; `None` where a dimension is 0.
fn through_view(t: &LayoutNumbers, v: &ViewNumbers, mut index: u64) -> Option<u64> {
    let dim = v.ty.dim as usize;
    let (dimension, stride) = if v.ty.has_dimensions {
        (v.dimension, v.stride.map(u64::from))
    } else {
        let mut stride = [0; MAX_DIM];
        stride[dim - 1] = 1;
        for d in (0..dim - 1).rev() {
            stride[d] = u64::saturating_mul(stride[d + 1], t.span[d + 1].into());
        }
        (t.span, stride)
    };
    let mut sum = 0u64;
    for d in (0..dim).rev() {
        let axis = v.ty.permutation[d] as usize;
        let n = u64::from(dimension[axis]);
        sum = sum.saturating_add(index.checked_rem(n)?.saturating_mul(stride[axis]));
        index /= n;
    }
    Some(sum)
}

impl Together<'_, '_> {
    fn layout(&self, t: &Layout) -> Result<LayoutNumbers, Failed> {
        let places = LayoutSlots { dim: t.dim };
        let numbers = |place: fn(LayoutSlots, u32) -> usize| {
            let mut out = [0; MAX_DIM];
            for d in 0..t.dim {
                out[d as usize] = self.address(t.slots[place(places, d)])?;
            }
            Ok(out)
        };
        Ok(LayoutNumbers {
            dim: t.dim as usize,
            clamp: t.clamp,
            block: numbers(LayoutSlots::block)?,
            dimension: numbers(LayoutSlots::dimension)?,
            stride: numbers(LayoutSlots::stride)?,
            offset: numbers(LayoutSlots::offset)?.map(|v| v as i32),
            span: numbers(LayoutSlots::span)?,
            clamp_value: self.uniform(t.slots[places.clamp_value()])?,
        })
    }

    fn view(&self, v: &View) -> Result<ViewNumbers, Failed> {
        let places = ViewSlots { dim: v.ty.dim };
        let (mut dimension, mut stride, mut clip) = ([0; MAX_DIM], [0; MAX_DIM], [0; 4]);
        for d in 0..v.ty.dim {
            dimension[d as usize] = self.address(v.slots[places.dimension(d)])?;
            stride[d as usize] = self.address(v.slots[places.stride(d)])?;
        }
        for i in 0..4 {
            clip[i as usize] = self.address(v.slots[places.clip(i)])?;
        }
        Ok(ViewNumbers { ty: v.ty, dimension, stride, clip })
    }

    /// A uniform number that addresses are computed from.
    fn address(&self, slot: u32) -> Result<u32, Failed> {
        for (index, s) in self.parties.iter().enumerate() {
            let wrapped = s.lanes.wrapped[slot as usize] & s.lanes.exist;
            if wrapped != 0 {
                let detail = "a number of a tensor layout or view comes from 32-bit arithmetic that wrapped";
                let lane = wrapped.trailing_zeros();
                return Err((index, crate::trap::Fault::new(TrapKind::IndexWrap, lane, detail).into()));
            }
        }
        self.uniform(slot)
    }

    fn spots(
        &self,
        shape: &Shape,
        tensor: &Tensor,
        stores: bool,
    ) -> Result<(LayoutNumbers, Vec<Spot>), Failed> {
        let layout = self.layout(&tensor.layout)?;
        let view = tensor.view.as_ref().map(|v| self.view(v)).transpose()?;
        let mut spots = Vec::with_capacity(shape.len());
        for row in 0..shape.rows {
            for col in 0..shape.cols {
                let spot = locate(&layout, view.as_ref(), row, col, shape.cols, stores);
                spots.push(
                    spot.map_err(|(kind, detail)| fault(kind, format!("row {row}, column {col}: {detail}")))?,
                );
            }
        }
        Ok((layout, spots))
    }

    pub(super) fn load_tensor(
        &mut self,
        shape: Shape,
        old: Matrix,
        from: &Source,
        tensor: &Tensor,
        decoders: Option<(&Decoder, Option<&Decoder>)>,
    ) -> Result<Matrix, Failed> {
        let base = self.base(from)?;
        if !from.workgroup {
            self.aligned("a tensor begins", base.0 as u64, 16)?;
        }
        let (layout, spots) = self.spots(&shape, tensor, false)?;
        let (mut out, mask) = (old, width_mask(shape.elem));
        for (e, spot) in spots.iter().enumerate() {
            if let Spot::Value(v) = spot {
                out.set(e, v & mask, false);
            }
        }
        match decoders {
            None => {
                self.unblocked(&layout)?;
                let size = u64::from(shape.elem.bytes());
                self.gather(from, base, &shape, places(&spots, size), &mut out)?;
            }
            Some((scalar, vector)) => {
                let (last, width) = (layout.dim - 1, vector.map_or(1, |v| v.call.result.len()));
                let block = layout.block[last];
                if !(block as usize).is_multiple_of(width) {
                    let detail = format!("blocks of {block} elements are decoded {width} at a time");
                    return Err(fault(TrapKind::Matrix, detail));
                }
                self.decode(base, &spots, scalar, &mut out)?;
                if let Some(vector) = vector {
                    self.compare_decoders(base, &spots, last, vector, &out, &shape)?;
                }
            }
        }
        Ok(out)
    }

    pub(super) fn store_tensor(
        &mut self,
        shape: Shape,
        to: &Source,
        tensor: &Tensor,
        from: &Matrix,
    ) -> Result<(), Failed> {
        let base = self.base(to)?;
        if !to.workgroup {
            self.aligned("a tensor begins", base.0 as u64, 16)?;
        }
        let (layout, spots) = self.spots(&shape, tensor, true)?;
        self.unblocked(&layout)?;
        let size = u64::from(shape.elem.bytes());
        self.scatter(to, base, &shape, places(&spots, size), from)
    }

    fn unblocked(&self, layout: &LayoutNumbers) -> Result<(), Failed> {
        match layout.block[..layout.dim].iter().find(|&&n| n > 1) {
            None => Ok(()),
            Some(n) => {
                let detail = format!("a block of {n} elements without a function that decodes it");
                Err(fault(TrapKind::Matrix, detail))
            }
        }
    }

    /// Compares what the vector function yields for each whole group of neighbors with what the scalar one did.
    fn compare_decoders(
        &mut self,
        base: super::lines::Base,
        spots: &[Spot],
        last: usize,
        vector: &Decoder,
        scalar: &Matrix,
        shape: &Shape,
    ) -> Result<(), Failed> {
        let width = vector.call.result.len();
        let mut groups: std::collections::BTreeMap<(Coordinates, Coordinates), Vec<(usize, u32)>> =
            std::collections::BTreeMap::new();
        for (e, spot) in spots.iter().enumerate() {
            let Spot::At { block, mut inside, .. } = *spot else { continue };
            let component = inside[last] % width as u32;
            inside[last] -= component;
            groups.entry((block, inside)).or_default().push((e, component));
        }
        let whole: Vec<(Spot, Vec<(usize, u32)>)> = groups
            .into_values()
            .filter(|members| (0..width as u32).all(|c| members.iter().any(|m| m.1 == c)))
            .filter_map(|members| Some((spots[members.iter().find(|m| m.1 == 0)?.0], members)))
            .collect();
        let firsts: Vec<Spot> = whole.iter().map(|w| w.0).collect();
        let found = self.decode_spots(base, &firsts, vector)?;
        for (members, values) in whole.iter().map(|w| &w.1).zip(found.chunks(width)) {
            for &(e, component) in members {
                let (value, undefined) = values[component as usize];
                if value == scalar.bits[e] && undefined == scalar.unknown(e) {
                    continue;
                }
                let show =
                    |v: u32, undefined| if undefined { "undefined".to_owned() } else { format!("{v:#x}") };
                let detail = format!(
                    "{}: the decode function yields {} and component {component} of its vector twin {}",
                    name(shape, e),
                    show(scalar.bits[e], scalar.unknown(e)),
                    show(value, undefined)
                );
                return Err(fault(TrapKind::Mismatch, detail));
            }
        }
        Ok(())
    }
}

/// The elements that have a place, with its distance from the pointer in bytes.
fn places(spots: &[Spot], size: u64) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
    spots.iter().enumerate().filter_map(move |(e, spot)| match spot {
        Spot::At { index, .. } => Some((e, index.saturating_mul(size))),
        _ => None,
    })
}
