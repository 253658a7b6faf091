//! `kprintln!("x = {}", x[i])`: a line of each invocation that comes by, for whoever debugs a kernel.
//!
//! It is staged only under [`debugging`](crate::session::debugging); else its arguments are not even evaluated, and the
//! words are those of the kernel without it. The interpreter prints; on a device it is nothing.

use kiln_abi::{DType, Location};
use kiln_spirv_emit::ir::ValueId;

use crate::{
    ops::convert,
    session::with,
    value::{Ex, Scalar, Shape},
};

/// One value of a line, as 32 bits.
pub struct Printed {
    value: ValueId,
    form: &'static str,
}

/// A scalar, to be printed.
#[track_caller]
pub fn printed<T: Scalar>(value: Ex<T>) -> Printed {
    let at = Location::caller();
    let dtype = T::DTYPE;
    let (to, form) = match dtype {
        _ if dtype.is_float() => (DType::F32, "%f"),
        _ if dtype.is_signed() => (DType::I32, "%d"),
        _ => (DType::U32, "%u"),
    };
    Printed { value: with(|s| convert(s, value.id, Shape { dtype: to, lanes: 1 }, at)), form }
}

/// Stages the line: the texts stand around and between the values.
#[track_caller]
pub fn print(texts: &[&str], values: &[Printed]) {
    let at = Location::caller();
    let mut line = String::new();
    for (i, text) in texts.iter().enumerate() {
        line += &text.replace('%', "%%");
        line += values.get(i).map_or("", |v| v.form);
    }
    with(|s| s.b.print(line, values.iter().map(|v| v.value).collect(), at));
}
