//! Cooperative-matrix products: what a kernel multiplies, and what a device can.

use std::fmt;

use crate::{DType, spirv::Scope};

/// The element of a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatrixElem {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE binary32.
    F32,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
}

impl MatrixElem {
    /// The scalar type of the element; `None` for bfloat16, which has none in the language.
    pub const fn dtype(self) -> Option<DType> {
        match self {
            MatrixElem::F16 => Some(DType::F16),
            MatrixElem::BF16 => None,
            MatrixElem::F32 => Some(DType::F32),
            MatrixElem::I8 => Some(DType::I8),
            MatrixElem::U8 => Some(DType::U8),
            MatrixElem::I32 => Some(DType::I32),
            MatrixElem::U32 => Some(DType::U32),
        }
    }

    /// The name as Rust writes it.
    pub const fn name(self) -> &'static str {
        match self {
            MatrixElem::BF16 => "bf16",
            MatrixElem::F16 => "f16",
            MatrixElem::F32 => "f32",
            MatrixElem::I8 => "i8",
            MatrixElem::U8 => "u8",
            MatrixElem::I32 => "i32",
            MatrixElem::U32 => "u32",
        }
    }

    /// Whether the element is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, MatrixElem::F16 | MatrixElem::BF16 | MatrixElem::F32)
    }

    /// Whether the element is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, MatrixElem::I8 | MatrixElem::I32)
    }
}

impl fmt::Display for MatrixElem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One kind of multiply-add, `[m, k] × [k, n] + [m, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixProduct {
    /// The invocations that hold the matrices together.
    pub scope: Scope,
    /// m, n, k.
    pub mnk: [u32; 3],
    /// Elements of the left factor, the right factor, the addend and the result.
    pub elems: [MatrixElem; 4],
}

impl fmt::Display for MatrixProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([m, n, k], [a, b, c, result]) = (self.mnk, self.elems);
        let scope = self.scope.name().to_lowercase();
        write!(f, "{m}x{n}x{k} {a} × {b} + {c} -> {result} by a {scope}")
    }
}

/// What a device multiplies: products of fixed shape, and products of any multiple of a shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixCaps {
    /// Products of exactly this shape.
    pub fixed: Vec<MatrixProduct>,
    /// Products whose shape is a multiple of this one.
    pub flexible: Vec<FlexibleProduct>,
    /// Rows or columns of a matrix of flexible shape, at most.
    pub max_dimension: u32,
    /// Bytes of workgroup memory that the driver takes for itself beside a workgroup's matrices.
    pub reserved_workgroup_bytes: u32,
    /// Whether invocation l = 4g + t of a subgroup of 32 holds, of the 16 × 8 × 16 product of f16 that sums to f32: of the
    /// left factor row g at depths 2t, 2t + 1, 2t + 8, 2t + 9, then row g + 8 at these; of the right one column g at these
    /// depths; of the sums rows g, then g + 8, at columns 2t, 2t + 1.
    pub fragments: bool,
}

/// A product whose shape is a multiple of `granularity.mnk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlexibleProduct {
    /// The smallest shape, scope and elements.
    pub granularity: MatrixProduct,
    /// Invocations that the workgroup must have, where a workgroup holds the matrices; 0 for any number.
    pub invocations: u32,
}

impl MatrixCaps {
    /// Every shape of every product that the language writes: what a device without hardware to respect has.
    pub fn every() -> Self {
        use MatrixElem::{BF16, F16, F32, I8, I32, U8, U32};
        let elems =
            [[F16, F16, F32, F32], [F16; 4], [BF16, BF16, F32, F32], [I8, I8, I32, I32], [U8, U8, U32, U32]];
        let flexible = [Scope::Subgroup, Scope::Workgroup].into_iter().flat_map(|scope| {
            elems.map(|elems| FlexibleProduct {
                granularity: MatrixProduct { scope, mnk: [1; 3], elems },
                invocations: 0,
            })
        });
        MatrixCaps {
            fixed: Vec::new(),
            flexible: flexible.collect(),
            max_dimension: 1024,
            reserved_workgroup_bytes: 0,
            fragments: false,
        }
    }

    /// Whether the device multiplies this in a workgroup of so many invocations.
    pub fn multiplies(&self, product: &MatrixProduct, invocations: u32) -> bool {
        let fits = |f: &FlexibleProduct| {
            let g = &f.granularity;
            (g.scope, g.elems) == (product.scope, product.elems)
                && (f.invocations == 0 || f.invocations == invocations)
                && product.mnk.iter().zip(g.mnk).all(|(n, g)| g > 0 && n % g == 0 && *n <= self.max_dimension)
        };
        self.fixed.contains(product) || self.flexible.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: MatrixProduct = MatrixProduct {
        scope: Scope::Subgroup,
        mnk: [16, 16, 16],
        elems: [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32],
    };

    #[test]
    fn a_fixed_shape_is_that_shape_and_a_flexible_one_its_multiples() {
        let smallest = MatrixProduct { scope: Scope::Workgroup, ..FIXED };
        let flexible = vec![FlexibleProduct { granularity: smallest, invocations: 128 }];
        let caps = MatrixCaps { fixed: vec![FIXED], flexible, max_dimension: 64, ..MatrixCaps::default() };
        assert!(caps.multiplies(&FIXED, 32));
        assert!(!caps.multiplies(&MatrixProduct { mnk: [32, 16, 16], ..FIXED }, 32));
        let wide = MatrixProduct { mnk: [32, 64, 16], ..smallest };
        assert!(caps.multiplies(&wide, 128));
        assert!(!caps.multiplies(&wide, 256), "another workgroup");
        assert!(!caps.multiplies(&MatrixProduct { mnk: [8, 16, 16], ..smallest }, 128), "no multiple");
        assert!(!caps.multiplies(&MatrixProduct { mnk: [128, 16, 16], ..smallest }, 128), "too large");
    }
}
