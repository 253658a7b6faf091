//! Named dimensions: types whose number is known while staging. `dims!(BM = t.m)` declares one.

use std::any::TypeId as RustType;

use kiln_abi::Location;

use crate::session::with;

/// A dimension that `dims!` declared.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a dimension",
    label = "declare it with `dims!(Name = ..)`"
)]
pub trait Dim: Copy + 'static {}

/// Gives a dimension its number; a second, different number is an error.
#[track_caller]
pub fn bind_dim<D: Dim>(name: &str, number: u32) {
    let at = Location::caller();
    with(|s| {
        if let Some(old) = s.set_dim(RustType::of::<D>(), number)
            && old != number
        {
            s.b.error("E108", format!("dimension {name} is {old} already; it cannot become {number}"), at);
        }
    });
}

/// A dimension's number, on the host.
#[track_caller]
pub fn dim<D: Dim>() -> u32 {
    let at = Location::caller();
    with(|s| match s.dim(RustType::of::<D>()) {
        Some(number) => number,
        None => {
            s.b.error("E109", "this dimension has no number in this kernel".to_owned(), at);
            1
        }
    })
}
