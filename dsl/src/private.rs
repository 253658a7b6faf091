//! What the macros' output calls; not for use by hand.

pub use half::f16;
pub use kiln_abi::{self as abi, DType, LaunchArgs, StageErrors, StagedKernel};

pub use crate::{
    block::{Block, BlockField, Elem, Extent, Memory, Types, buffer, buffer_mut, offsets},
    contract::{Count, ToCount, grid, needed_bytes},
    control::{
        Cond, Hint, Merge, break_loop, continue_loop, end_loop, endless_loop, for_loop, lazy_and, lazy_end,
        lazy_or, return_kernel, while_head, while_loop,
    },
    dims::{Dim, bind_dim, dim},
    ops::{add, bitand, bitor, bitxor, cast, div, eq, ge, gt, le, lt, mul, ne, neg, not, rem, shl, shr, sub},
    place::{
        At, ByReference, Keep, Local, Path, Rail, Slot, Target, Workgroup, array, pin, repeat, var, write,
    },
    print::{print, printed},
    push::{Fields, MAX_PUSH_BYTES, Push, PushScalar, push},
    session::{Session, checked, enter, invocations, prints, requires, size_fits, workgroup_bytes},
    value::{Ex, Plain, Read, Scalar, lit_float, lit_int},
};
pub use kiln_spirv_emit::ir::{TypeId, ValueId};
pub use std::primitive::{bool, f32, i8, i16, i32, u8, u16, u32};

/// The invocations of a workgroup along x, y, z.
pub fn local_size(size: impl Into<kiln_abi::Grid>) -> [u32; 3] {
    size.into().0
}

/// A required subgroup size: a number, or an `Option` of one.
pub fn subgroup_size(size: impl Into<Option<u32>>) -> Option<u32> {
    size.into()
}

/// The next binding number, for a buffer that this variant has.
pub fn number(next: &std::cell::Cell<u32>, when: bool) -> Option<u32> {
    when.then(|| next.replace(next.get() + 1))
}

/// The range of a buffer that some variants have; one that was forgotten is empty, which its contract refuses.
pub fn range_when<T>(range: Option<abi::BufferRef<T>>, when: bool) -> Option<abi::BufferRange> {
    let empty = abi::BufferRange { buffer: abi::BufferId(0), offset_bytes: 0, bytes: 0 };
    when.then(|| range.map_or(empty, |r| r.range))
}

/// A type's name without its modules: `Q8_0`, `Pair<Q8_0, F16>`.
pub fn short_name<T: ?Sized>() -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in std::any::type_name::<T>().chars() {
        match c {
            c if c.is_alphanumeric() || c == '_' => word.push(c),
            ':' => word.clear(),
            c => {
                out.push_str(&word);
                word.clear();
                out.push(c);
            }
        }
    }
    out + &word
}

/// A variant's name: kernel, type parameters, comptime parameters.
pub fn variant_name(kernel: &str, types: &[String], comptime: &[(&str, &dyn std::fmt::Debug)]) -> String {
    let mut name = kernel.to_owned();
    if !types.is_empty() {
        name += &format!("<{}>", types.join(", "));
    }
    if !comptime.is_empty() {
        let values: Vec<String> = comptime.iter().map(|(n, v)| format!("{n}: {v:?}")).collect();
        name += &format!("({})", values.join(", "));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_tell_variants_apart() {
        assert_eq!(short_name::<Option<std::string::String>>(), "Option<String>");
        assert_eq!(variant_name("add", &[], &[]), "add");
        let name = variant_name("gemv", &["Q8_0".to_owned()], &[("rows", &4), ("wide", &true)]);
        assert_eq!(name, "gemv<Q8_0>(rows: 4, wide: true)");
    }
}
