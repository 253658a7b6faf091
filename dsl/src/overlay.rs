//! Workgroup memory seen as other elements than it was made of: the same bytes, moved in pieces that both have.
//!
//! An element of the view is some of the memory's elements, one of them, or some components of one. Each piece is loaded
//! or stored by itself, so no capability is needed, and no byte is touched that is not the element's: two invocations
//! may store neighboring elements, as they may in memory of that type.

use kiln_abi::{Location, spirv::Op};
use kiln_spirv_emit::ir::{Operand, ValueId};

use crate::{session::Stage, value::Shape};

/// What memory is made of and what it is seen as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    held: Shape,
    seen: Shape,
}

impl View {
    /// The view, if it is another type; why there is none of these elements.
    pub(crate) fn of(held: Shape, seen: Shape) -> Result<Option<View>, String> {
        if held == seen {
            return Ok(None);
        }
        let (old, new) = (held.name(), seen.name());
        let alike = held.lanes == seen.lanes && held.dtype.bytes() == seen.dtype.bytes();
        if !alike && [held.lanes, seen.lanes].contains(&3) {
            return Err(format!("{new} does not lie in memory of {old}: three components divide nothing"));
        }
        if seen.bytes() < held.dtype.bytes() {
            let part = Shape { lanes: 1, ..held }.name();
            return Err(format!(
                "{new} is narrower than the {part} that this memory is made of, and a store to it would write its \
                 neighbor too; make the memory of {new} from the start (`Shared::<{new}>::new(n)`), or see it as a \
                 vector as wide as {part}"
            ));
        }
        Ok(Some(View { held, seen }))
    }

    pub(crate) fn held(self) -> Shape {
        self.held
    }

    pub(crate) fn seen(self) -> Shape {
        self.seen
    }

    /// So many elements of the view, counted in the memory's, of which each is `n`.
    pub(crate) fn in_elements(self, s: &mut Stage, count: ValueId, n: u32, at: Location) -> ValueId {
        u32_op(s, Op::IMul, count, n, at)
    }

    /// How many of the memory's elements one of the view's is; none where it is a part of one.
    pub(crate) fn elements(self) -> Option<u32> {
        (self.seen.bytes() >= self.held.bytes()).then(|| self.seen.bytes() / self.held.bytes())
    }

    /// What is loaded and stored at a time, and how often.
    fn pieces(self) -> (Shape, u32) {
        match self.elements() {
            Some(n) => (self.held, n),
            None => (Shape { lanes: 1, ..self.held }, self.seen.bytes() / self.held.dtype.bytes()),
        }
    }

    /// The pointer of piece `i` of element `index`.
    fn piece(self, s: &mut Stage, base: ValueId, index: ValueId, i: u32, at: Location) -> ValueId {
        let (_, n) = self.pieces();
        let first = u32_op(s, Op::IMul, index, n, at);
        let flat = u32_op(s, Op::IAdd, first, i, at);
        if self.elements().is_some() {
            return s.b.access_chain(base, &[flat], at);
        }
        let lanes = u32::from(self.held.lanes);
        let steps = [u32_op(s, Op::UDiv, flat, lanes, at), u32_op(s, Op::UMod, flat, lanes, at)];
        s.b.access_chain(base, &steps, at)
    }

    /// The pointer of the first of the memory's elements in element `index`.
    pub(crate) fn pointer(self, s: &mut Stage, base: ValueId, index: ValueId, at: Location) -> ValueId {
        self.piece(s, base, index, 0, at)
    }

    pub(crate) fn load(self, s: &mut Stage, base: ValueId, index: ValueId, at: Location) -> ValueId {
        let (shape, n) = self.pieces();
        let load = |s: &mut Stage, i| {
            let pointer = self.piece(s, base, index, i, at);
            s.b.load(pointer, at)
        };
        let loaded: Vec<ValueId> = (0..n).map(|i| load(s, i)).collect();
        join(s, &loaded, shape, self.seen, at)
    }

    pub(crate) fn store(self, s: &mut Stage, base: ValueId, index: ValueId, value: ValueId, at: Location) {
        let (shape, n) = self.pieces();
        for (i, part) in (0..n).zip(split(s, value, self.seen, shape, at)) {
            let pointer = self.piece(s, base, index, i, at);
            s.b.store(pointer, part, at);
        }
    }

    /// The view of a vector's components, and the one that is component `i` of element `index`; none where components
    /// are narrower than the memory's.
    pub(crate) fn component(
        self,
        s: &mut Stage,
        index: ValueId,
        i: ValueId,
        at: Location,
    ) -> Option<(View, ValueId)> {
        let view = View { seen: Shape { lanes: 1, ..self.seen }, ..self };
        let is_whole = view.seen.bytes() >= self.held.dtype.bytes();
        is_whole.then(|| {
            let first = u32_op(s, Op::IMul, index, self.seen.lanes.into(), at);
            let ty = s.b.type_of(index);
            (view, s.op(Op::IAdd, ty, &[first, i], at))
        })
    }
}

/// `a op n`, or `a` where that changes nothing.
fn u32_op(s: &mut Stage, op: Op, a: ValueId, n: u32, at: Location) -> ValueId {
    if matches!((op, n), (Op::IMul, 1) | (Op::IAdd, 0)) {
        return a;
    }
    let (ty, n) = (s.b.type_of(a), s.u32_const(n));
    s.op(op, ty, &[a, n], at)
}

/// One value of the bits of `parts`, which are all of shape `part`; the first has the lowest.
fn join(s: &mut Stage, parts: &[ValueId], part: Shape, to: Shape, at: Location) -> ValueId {
    let scalar = to.dtype.bytes();
    if parts.len() == 1 {
        return cast(s, parts[0], part, to, at);
    }
    let components: Vec<ValueId> = if part.bytes() >= scalar {
        let lanes = lanes(part.bytes() / scalar);
        parts.iter().map(|&p| cast(s, p, part, Shape { lanes, ..to }, at)).collect()
    } else {
        let group = scalar / part.bytes();
        let whole = Shape { lanes: lanes(group * u32::from(part.lanes)), ..part };
        let one = Shape { lanes: 1, ..to };
        let joined = parts.chunks(group as usize).map(|group| {
            let bits = composite(s, whole, group, at);
            cast(s, bits, whole, one, at)
        });
        joined.collect()
    };
    composite(s, to, &components, at)
}

/// The other way: `value` in pieces of shape `part`.
fn split(s: &mut Stage, value: ValueId, from: Shape, part: Shape, at: Location) -> Vec<ValueId> {
    let scalar = from.dtype.bytes();
    if part.bytes() == from.bytes() {
        return vec![cast(s, value, from, part, at)];
    }
    let components = take_apart(s, value, from, at);
    if part.bytes() >= scalar {
        let bits = Shape { lanes: lanes(part.bytes() / scalar), ..from };
        let pieces = components.chunks(bits.lanes.into()).map(|piece| {
            let piece = composite(s, bits, piece, at);
            cast(s, piece, bits, part, at)
        });
        return pieces.collect();
    }
    let bits = Shape { lanes: lanes(scalar / part.dtype.bytes()), ..part };
    let mut pieces = Vec::new();
    for component in components {
        let component = cast(s, component, Shape { lanes: 1, ..from }, bits, at);
        let small = take_apart(s, component, bits, at);
        pieces.extend(small.chunks(part.lanes.into()).map(|piece| composite(s, part, piece, at)));
    }
    pieces
}

fn cast(s: &mut Stage, value: ValueId, from: Shape, to: Shape, at: Location) -> ValueId {
    if from == to {
        return value;
    }
    let ty = to.ty(s);
    s.op(Op::Bitcast, ty, &[value], at)
}

fn composite(s: &mut Stage, shape: Shape, parts: &[ValueId], at: Location) -> ValueId {
    match *parts {
        [one] => one,
        _ => {
            let ty = shape.ty(s);
            s.op(Op::CompositeConstruct, ty, parts, at)
        }
    }
}

fn take_apart(s: &mut Stage, value: ValueId, shape: Shape, at: Location) -> Vec<ValueId> {
    if shape.lanes == 1 {
        return vec![value];
    }
    let ty = s.b.scalar(shape.dtype);
    let component = |i| s.b.inst(Op::CompositeExtract, ty, vec![Operand::Value(value), Operand::Lit(i)], at);
    (0..u32::from(shape.lanes)).map(component).collect()
}

/// At most four, as what they are components of is at most as large as a vector.
fn lanes(n: u32) -> u8 {
    u8::try_from(n).unwrap_or(u8::MAX)
}
