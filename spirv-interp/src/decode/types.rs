//! Types with their two layouts: bytes where offsets are declared, scalars one after another elsewhere.

use std::collections::HashMap;

use kiln_abi::spirv::{ClampMode, StorageClass};

use super::error::{DecodeError, Decoded};
use crate::{
    matrix::{LayoutSlots, Shape, ViewSlots, ViewType},
    number::Number,
};

/// Scalars that one value may have.
pub(crate) const MAX_VALUE_SCALARS: u32 = 1 << 14;
/// Scalars that one variable may have.
const MAX_TYPE_SCALARS: u64 = 1 << 18;
const MAX_DEPTH: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) enum Type {
    Void,
    Scalar(Number),
    Vector {
        elem: u32,
        dtype: Number,
        n: u32,
    },
    Array {
        elem: u32,
        len: u32,
        stride: Option<u32>,
    },
    RuntimeArray {
        elem: u32,
        stride: Option<u32>,
    },
    Struct(Vec<Member>),
    Pointer {
        class: StorageClass,
        pointee: u32,
    },
    Function {
        result: u32,
        params: Vec<u32>,
    },
    /// A cooperative matrix of elements of type `elem`: one unit, which is a matrix register and no slot.
    Matrix {
        elem: u32,
        shape: Shape,
    },
    TensorLayout {
        dim: u32,
        clamp: ClampMode,
    },
    TensorView(ViewType),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) ty: u32,
    pub(crate) offset: Option<u32>,
}

#[derive(Clone, Debug)]
struct Info {
    ty: Type,
    /// Scalars in a value of the type; 0 where it has no value of fixed size.
    scalars: u32,
    /// Bytes of those scalars one after another; a bool counts as one.
    packed_bytes: u64,
    depth: u32,
    /// The units that `scalars` counts are matrices.
    matrices: bool,
}

/// A module's types by id.
#[derive(Default)]
pub(crate) struct Types(HashMap<u32, Info>);

impl Types {
    pub(crate) fn add(&mut self, word: u32, id: u32, ty: Type) -> Decoded<()> {
        // Each part with the number of times it is there.
        let (own, parts): (u32, Vec<(u32, u32)>) = match &ty {
            Type::Void | Type::Pointer { .. } | Type::Function { .. } => (0, Vec::new()),
            Type::Scalar(_) | Type::Matrix { .. } => (1, Vec::new()),
            Type::TensorLayout { dim, .. } => (LayoutSlots { dim: *dim }.count(), Vec::new()),
            Type::TensorView(view) => (ViewSlots { dim: view.dim }.count(), Vec::new()),
            Type::Vector { elem, n, .. } => (0, vec![(*elem, *n)]),
            Type::Array { elem, len, .. } => (0, vec![(*elem, *len)]),
            Type::RuntimeArray { elem, .. } => (0, vec![(*elem, 0)]),
            Type::Struct(members) => (0, members.iter().map(|m| (m.ty, 1)).collect()),
        };
        let width = if let Type::Scalar(d) = &ty { d.bytes().max(1) } else { 0 };
        let (mut scalars, mut packed_bytes, mut depth) = (u64::from(own), u64::from(width), 0);
        let (mut matrices, mut numbers) = (matches!(ty, Type::Matrix { .. }), false);
        for (part, n) in parts {
            let Some(info) = self.0.get(&part) else { continue };
            matrices |= info.matrices;
            numbers |= !info.matrices;
            scalars += u64::from(info.scalars) * u64::from(n);
            packed_bytes = packed_bytes.saturating_add(info.packed_bytes.saturating_mul(n.into()));
            depth = info.depth.max(depth);
        }
        if scalars > MAX_TYPE_SCALARS {
            let what = "scalars in one type";
            return Err(DecodeError::TooLarge { what, found: scalars, allowed: MAX_TYPE_SCALARS });
        }
        if matrices && numbers {
            return Err(DecodeError::Malformed { word, what: "one type holds matrices and something else" });
        }
        let depth = depth + 1;
        if depth > MAX_DEPTH {
            return Err(DecodeError::Malformed { word, what: "types are nested too deep" });
        }
        self.0.insert(id, Info { ty, scalars: scalars as u32, packed_bytes, depth, matrices });
        Ok(())
    }

    pub(crate) fn get(&self, word: u32, id: u32) -> Decoded<&Type> {
        let found = self.0.get(&id).map(|i| &i.ty);
        found.ok_or(DecodeError::WrongId { word, id, expected: "a type" })
    }

    /// Scalars in a value of type `id`.
    pub(crate) fn scalars(&self, id: u32) -> u32 {
        self.0.get(&id).map_or(0, |i| i.scalars)
    }

    /// Whether a value of type `id` is matrices, which have registers of their own.
    pub(crate) fn is_matrix(&self, id: u32) -> bool {
        self.0.get(&id).is_some_and(|i| i.matrices)
    }

    /// The shape of matrix type `id`.
    pub(crate) fn shape(&self, id: u32) -> Option<Shape> {
        match self.0.get(&id).map(|i| &i.ty)? {
            Type::Matrix { shape, .. } => Some(*shape),
            _ => None,
        }
    }

    /// The shapes of the matrices in a value of type `id`, in order.
    pub(crate) fn shapes(&self, word: u32, id: u32) -> Decoded<Vec<Shape>> {
        let mut out = Vec::new();
        if !self.is_matrix(id) || self.scalars(id) > MAX_VALUE_SCALARS {
            return Err(DecodeError::Malformed { word, what: "a value is no matrices, or too many" });
        }
        self.collect_shapes(id, &mut out);
        Ok(out)
    }

    fn collect_shapes(&self, id: u32, out: &mut Vec<Shape>) {
        match self.0.get(&id).map(|i| &i.ty) {
            Some(Type::Matrix { shape, .. }) => out.push(*shape),
            Some(Type::Array { elem, len, .. }) => (0..*len).for_each(|_| self.collect_shapes(*elem, out)),
            Some(Type::Struct(members)) => members.iter().for_each(|m| self.collect_shapes(m.ty, out)),
            _ => {}
        }
    }

    /// Bytes from one value of type `id` to the next, aligned as its largest scalar.
    pub(crate) fn memory_bytes(&self, word: u32, id: u32) -> Decoded<u32> {
        let leaves = self.leaves(word, id, true)?;
        let end = leaves.iter().map(|&(at, d)| at.saturating_add(d.bytes())).max().unwrap_or(0);
        let align = leaves.iter().map(|&(_, d)| d.bytes()).max().unwrap_or(1);
        let fits = end.checked_next_multiple_of(align).filter(|&n| n > 0);
        fits.ok_or(DecodeError::Malformed { word, what: "a value has no size in memory" })
    }

    /// Bytes that a workgroup variable of type `id` takes.
    pub(crate) fn packed_bytes(&self, id: u32) -> u64 {
        self.0.get(&id).map_or(0, |i| i.packed_bytes)
    }

    /// The scalar type of a scalar, or of a vector's components.
    pub(crate) fn element(&self, id: u32) -> Option<Number> {
        match self.0.get(&id).map(|i| &i.ty)? {
            Type::Scalar(d) | Type::Vector { dtype: d, .. } => Some(*d),
            _ => None,
        }
    }

    /// The scalars of type `id` with their offsets from `at`, in order; `bytes` tells which layout.
    pub(crate) fn leaves(&self, word: u32, id: u32, bytes: bool) -> Decoded<Vec<(u32, Number)>> {
        let scalars = self.scalars(id);
        if scalars == 0 || scalars > MAX_VALUE_SCALARS {
            return Err(DecodeError::Malformed {
                word,
                what: "a value has no fixed size, or too large a one",
            });
        }
        let mut out = Vec::with_capacity(scalars as usize);
        self.collect(word, id, bytes, 0, &mut out)?;
        Ok(out)
    }

    fn collect(&self, word: u32, id: u32, bytes: bool, at: u32, out: &mut Vec<(u32, Number)>) -> Decoded<()> {
        let width = |d: Number| if bytes { d.bytes() } else { 1 };
        match self.get(word, id)? {
            Type::Scalar(Number::Bool) if bytes => {
                Err(DecodeError::Malformed { word, what: "a bool has no place in a buffer" })
            }
            Type::Scalar(d) => {
                out.push((at, *d));
                Ok(())
            }
            Type::Vector { dtype, n, .. } => {
                for i in 0..*n {
                    out.push((add(word, at, i, width(*dtype))?, *dtype));
                }
                Ok(())
            }
            Type::Array { elem, len, stride } => {
                let stride = self.stride(word, *elem, *stride, bytes)?;
                (0..*len).try_for_each(|i| self.collect(word, *elem, bytes, add(word, at, i, stride)?, out))
            }
            Type::Struct(members) => {
                for i in 0..members.len() {
                    let place = self.member(word, members, i, bytes)?;
                    self.collect(word, members[i].ty, bytes, add(word, at, 1, place)?, out)?;
                }
                Ok(())
            }
            Type::TensorLayout { .. } | Type::TensorView(_) if !bytes => {
                out.extend((0..self.scalars(id)).map(|i| (at + i, Number::U32)));
                Ok(())
            }
            Type::Void
            | Type::RuntimeArray { .. }
            | Type::Pointer { .. }
            | Type::Function { .. }
            | Type::Matrix { .. }
            | Type::TensorLayout { .. }
            | Type::TensorView(_) => {
                Err(DecodeError::Malformed { word, what: "the type has no values in memory" })
            }
        }
    }

    /// Offset of member `i`.
    pub(crate) fn member(&self, word: u32, members: &[Member], i: usize, bytes: bool) -> Decoded<u32> {
        if bytes {
            let missing = DecodeError::Malformed { word, what: "a buffer's struct member has no Offset" };
            members[i].offset.ok_or(missing)
        } else {
            Ok(members[..i].iter().map(|m| self.scalars(m.ty)).sum())
        }
    }

    /// Distance from one array element to the next.
    pub(crate) fn stride(&self, word: u32, elem: u32, stride: Option<u32>, bytes: bool) -> Decoded<u32> {
        if bytes {
            let missing = DecodeError::Malformed { word, what: "a buffer's array has no ArrayStride" };
            stride.filter(|&s| s > 0).ok_or(missing)
        } else {
            Ok(self.scalars(elem))
        }
    }
}

/// `at + i × stride`, refused when it does not fit.
pub(crate) fn add(word: u32, at: u32, i: u32, stride: u32) -> Decoded<u32> {
    let sum = i.checked_mul(stride).and_then(|p| at.checked_add(p));
    sum.ok_or(DecodeError::Malformed { word, what: "an offset does not fit 32 bits" })
}
