//! THE layout function: size, alignment and stride of a type in memory, by the std430 rules.
//!
//! A scalar is aligned to its size, two-component vectors to twice and three- and four-component vectors to four times
//! their component, an array to its element and a struct to its widest member; nothing is rounded up to 16 bytes. So
//! a block of scalars and scalar arrays is as packed as its members allow: `{f16, [i8; 32]}` takes 34 bytes.

use std::fmt;

use kiln_abi::{DType, spirv::StorageClass};

use crate::ir::{Module, Type, TypeId};

/// Bytes a type takes, and the multiple of bytes it starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Size in bytes, padding at the end included.
    pub bytes: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// The rules, for types of the host's program and of a module alike; `None` is more than a `u32` of bytes.
impl Extent {
    /// A struct that has no member yet.
    pub const EMPTY: Extent = Extent { bytes: 0, align: 1 };

    /// A scalar (`n` = 1) or a vector of `n`; `None` for a truth value.
    pub const fn vector(elem: DType, n: u32) -> Option<Extent> {
        match elem.bytes() {
            0 => None,
            bytes => Some(Extent { bytes: bytes * n, align: bytes * n.next_power_of_two() }),
        }
    }

    /// Bytes from one to the next in an array.
    pub const fn stride(self) -> Option<u32> {
        self.bytes.checked_next_multiple_of(self.align)
    }

    /// `len` of them in a row.
    pub const fn array(self, len: u32) -> Option<Extent> {
        match self.stride() {
            Some(stride) => match stride.checked_mul(len) {
                Some(bytes) => Some(Extent { bytes, align: self.align }),
                None => None,
            },
            None => None,
        }
    }

    /// The offset of a member after the ones that make `self`, and what they make together. A finished struct is
    /// padded to its [`Extent::stride`].
    pub const fn then(self, member: Extent) -> Option<(u32, Extent)> {
        let Some(offset) = self.bytes.checked_next_multiple_of(member.align) else { return None };
        let Some(bytes) = offset.checked_add(member.bytes) else { return None };
        let align = if member.align > self.align { member.align } else { self.align };
        Some((offset, Extent { bytes, align }))
    }
}

/// Where a struct's members lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// Byte offset of each member.
    pub offsets: Vec<u32>,
    /// The whole struct.
    pub extent: Extent,
}

/// Why a type has no place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// A truth value has no size.
    Bool,
    /// A pointer has no size.
    Pointer,
    /// A matrix or tensor layout is in no memory.
    Opaque,
    /// A run-time array has no size of its own.
    RuntimeArray,
    /// More than a `u32` of bytes.
    TooLarge,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayoutError::Bool => "a bool has no size in memory; keep a u32 of 0 or 1",
            LayoutError::Pointer => "a pointer cannot be stored",
            LayoutError::Opaque => "a matrix is held by invocations; store its elements",
            LayoutError::RuntimeArray => "a run-time array can only be a buffer's last member",
            LayoutError::TooLarge => "the type is larger than 4 GiB",
        })
    }
}

/// The extent of `ty`, a type of the table `types`.
///
/// # Errors
/// A part of the type that cannot lie in memory.
pub fn extent(types: &[Type], ty: TypeId) -> Result<Extent, LayoutError> {
    match &types[ty.0 as usize] {
        Type::Scalar(d) => Extent::vector(*d, 1).ok_or(LayoutError::Bool),
        Type::Vector { elem, n } => Extent::vector(*elem, u32::from(*n)).ok_or(LayoutError::Bool),
        Type::Array { elem, len, .. } => extent(types, *elem)?.array(*len).ok_or(LayoutError::TooLarge),
        Type::Struct { members, .. } => {
            let parts: Vec<TypeId> = members.iter().map(|m| m.ty).collect();
            Ok(place(types, &parts)?.extent)
        }
        Type::RuntimeArray { .. } => Err(LayoutError::RuntimeArray),
        Type::Pointer { .. } => Err(LayoutError::Pointer),
        Type::Matrix(_) | Type::TensorLayout { .. } | Type::TensorView { .. } => Err(LayoutError::Opaque),
    }
}

/// Bytes from one element of an array to the next.
///
/// # Errors
/// An element that cannot lie in memory.
pub fn stride(types: &[Type], elem: TypeId) -> Result<u32, LayoutError> {
    extent(types, elem)?.stride().ok_or(LayoutError::TooLarge)
}

/// Lays out a struct's members in order. A run-time array may come last; it adds no size.
///
/// # Errors
/// A member that cannot lie in memory.
pub fn place(types: &[Type], members: &[TypeId]) -> Result<StructLayout, LayoutError> {
    let mut offsets = Vec::with_capacity(members.len());
    let mut whole = Extent::EMPTY;
    for (i, &member) in members.iter().enumerate() {
        let member = match &types[member.0 as usize] {
            Type::RuntimeArray { elem, .. } if i + 1 == members.len() => {
                Extent { bytes: 0, align: extent(types, *elem)?.align }
            }
            _ => extent(types, member)?,
        };
        let (offset, with_member) = whole.then(member).ok_or(LayoutError::TooLarge)?;
        offsets.push(offset);
        whole = with_member;
    }
    let bytes = whole.stride().ok_or(LayoutError::TooLarge)?;
    Ok(StructLayout { offsets, extent: Extent { bytes, align: whole.align } })
}

/// Workgroup memory of a kernel in bytes: its variables one after another, each at its alignment.
///
/// # Errors
/// A variable that cannot lie in memory, or more than 4 GiB.
pub fn workgroup_bytes(module: &Module) -> Result<u32, LayoutError> {
    let pointees =
        module.globals.iter().filter(|g| g.class == StorageClass::Workgroup).map(|g| {
            match *module.ty(module.value(g.value).ty) {
                Type::Pointer { pointee, .. } => pointee,
                _ => module.value(g.value).ty,
            }
        });
    let mut whole = Extent::EMPTY;
    for pointee in pointees {
        whole = whole.then(extent(&module.types, pointee)?).ok_or(LayoutError::TooLarge)?.1;
    }
    Ok(whole.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Member;

    fn types() -> Vec<Type> {
        vec![
            Type::Scalar(DType::F16),
            Type::Scalar(DType::I8),
            Type::Array { elem: TypeId(1), len: 32, stride: Some(1) },
            Type::Vector { elem: DType::F32, n: 3 },
            Type::Scalar(DType::U32),
            Type::Scalar(DType::Bool),
        ]
    }

    #[test]
    fn block_of_scalars_and_bytes_is_packed() {
        let layout = place(&types(), &[TypeId(0), TypeId(2)]).unwrap();
        assert_eq!(layout.offsets, [0, 2]);
        assert_eq!(layout.extent, Extent { bytes: 34, align: 2 });
    }

    #[test]
    fn block_is_padded_to_its_widest_member() {
        let mut types = types();
        let member = |ty| Member { name: String::new(), ty: TypeId(ty), offset: None };
        types.push(Type::Struct { name: String::new(), members: vec![member(4), member(1)], block: false });
        assert_eq!(extent(&types, TypeId(6)), Ok(Extent { bytes: 8, align: 4 }));
        assert_eq!(stride(&types, TypeId(6)), Ok(8));
    }

    #[test]
    fn vectors_are_aligned_as_std430_says() {
        let layout = place(&types(), &[TypeId(4), TypeId(3), TypeId(4)]).unwrap();
        assert_eq!(layout.offsets, [0, 16, 28]);
        assert_eq!(layout.extent, Extent { bytes: 32, align: 16 });
        assert_eq!(stride(&types(), TypeId(3)), Ok(16));
    }

    #[test]
    fn bools_and_huge_arrays_are_refused() {
        let mut types = types();
        types.push(Type::Array { elem: TypeId(4), len: 1 << 30, stride: None });
        assert_eq!(extent(&types, TypeId(5)), Err(LayoutError::Bool));
        assert_eq!(extent(&types, TypeId(6)), Err(LayoutError::TooLarge));
    }
}
