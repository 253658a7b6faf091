//! The macros of the kernel language: syntax only.
//!
//! `tokens → syn → calls of kiln_dsl::private, each spanned to the user's token`
//!
//! Guards: types are rustc's business, so nothing here looks one up or guesses one; what the language lacks is an
//! error at its token, and every error of an item is reported at once.
//! Never: panics, stages, knows a buffer's element or an instruction.
//!
//! Reading order: `lower`, `signature`, `device`, `kernel`, `contract`, `derive_block`, `derive_push`, `derive_struct`.
#![forbid(unsafe_code)]

mod contract;
mod derive_block;
mod derive_push;
mod derive_struct;
mod device;
mod kernel;
mod lower;
#[cfg(test)]
mod mutations;
mod signature;

use proc_macro::TokenStream;

/// Makes a function a kernel: a type that stages it, a struct of its launch arguments, its grid and contracts.
///
/// `#[kernel(local_size = .., grid = .., subgroup = ..)]`; see the documentation of `kiln_dsl`.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(options.into(), item.into()).into()
}

/// Makes a function, a trait or an impl callable from kernels.
#[proc_macro_attribute]
pub fn device(options: TokenStream, item: TokenStream) -> TokenStream {
    device::expand(options.into(), item.into()).into()
}

/// Makes a struct a block: an element of a buffer whose fields are read one by one.
#[proc_macro_derive(Block)]
pub fn block(item: TokenStream) -> TokenStream {
    derive_block::expand(item.into()).into()
}

/// Makes a struct a value of kernels: of numbers, bools, vectors and other such structs.
#[proc_macro_derive(Struct)]
pub fn structure(item: TokenStream) -> TokenStream {
    derive_struct::expand(item.into()).into()
}

/// Makes a struct of 32-bit scalars the push constants of a kernel.
#[proc_macro_derive(Push)]
pub fn push(item: TokenStream) -> TokenStream {
    derive_push::expand(item.into()).into()
}
