//! Push constants: a host struct of 32-bit scalars, and its mirror in the kernel.

use kiln_abi::{DType, Location};
use kiln_spirv_emit::ir::{Member, Type, ValueId};

use crate::{
    place::Path,
    session::with,
    value::{Ex, Scalar},
};

/// What a push-constant field can be.
#[diagnostic::on_unimplemented(
    message = "a push constant cannot be a `{Self}`",
    label = "a push constant is u32, i32 or f32"
)]
pub trait PushScalar: Scalar {
    /// The four bytes that the device reads.
    fn word(self) -> [u8; 4];
}

impl PushScalar for u32 {
    fn word(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
}
impl PushScalar for i32 {
    fn word(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
}
impl PushScalar for f32 {
    fn word(self) -> [u8; 4] {
        self.to_ne_bytes()
    }
}

/// A kernel's push constants; `#[derive(Push)]` writes this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a push-constant struct",
    label = "declare it as a struct of u32, i32 and f32 with `#[derive(Push)]`"
)]
pub trait Push {
    /// The values in the kernel.
    type Staged: Copy;
    /// Names and types, in order.
    const FIELDS: &'static [(&'static str, DType)];
    /// The mirror, its fields loaded.
    fn staged(fields: &mut Fields) -> Self::Staged;
    /// The block's bytes.
    fn bytes(&self) -> Vec<u8>;
}

/// Most bytes of push constants that every Vulkan device takes.
pub const MAX_PUSH_BYTES: usize = 128;

/// The push-constant block being loaded, field after field.
pub struct Fields {
    block: Path,
    next: u32,
    at: Location,
}

impl Fields {
    /// Loads the next field.
    pub fn next_value<T: PushScalar>(&mut self) -> Ex<T> {
        let member = self.next;
        self.next += 1;
        Ex::new(self.block.member(member).load(self.at))
    }
}

/// Declares the push constants of a kernel and loads them.
#[track_caller]
pub fn push<P: Push>(name: &str) -> P::Staged {
    let at = Location::caller();
    let block = Path::new(declare(name, P::FIELDS, at));
    P::staged(&mut Fields { block, next: 0, at })
}

fn declare(name: &str, fields: &[(&str, DType)], at: Location) -> ValueId {
    with(|s| {
        let mut offset = 0;
        let mut members = Vec::with_capacity(fields.len());
        for &(name, dtype) in fields {
            let ty = s.b.scalar(dtype);
            members.push(Member { name: name.to_owned(), ty, offset: Some(offset) });
            offset += dtype.bytes();
        }
        let block = s.b.ty(Type::Struct { name: name.to_owned(), members, block: true });
        s.b.push_block(name, block, at)
    })
}
