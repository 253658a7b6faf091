//! The kernel language: what a kernel imports.
//!
//! A kernel is a Rust function under `#[kernel]`. The macro rewrites its syntax into calls of this crate, rustc checks
//! types, generics and traits, and running the rewritten function builds the SPIR-V module. Every call carries the
//! place of the user's token, so errors and traps name it.
//!
//! Guards: an operand of `&&`, `||` or `if` is never run where Rust would not run it; a buffer that is read-only cannot
//! be written; what the language lacks is an error at its token.
//! Never: guesses a type, copies a block, panics on a kernel's mistake.
//!
//! Reading order: [`value`], [`place`], [`block`], [`ops`], [`control`], [`session`]; then [`builtin`], [`math`],
//! [`subgroup`], [`push`], [`contract`], [`quant`], [`dims`], [`tile`],
//! [`fragment`], [`through`].
//!
//! # A kernel
//! ```
//! use kiln_dsl::prelude::*;
//! use kiln_abi::Kernel;
//!
//! /// Push constants: `u32`, `i32` and `f32`, at most 128 bytes.
//! #[derive(Push, Clone, Copy)]
//! pub struct ScalePush { pub n: u32, pub by: f32 }
//!
//! /// `y = by * x`.
//! #[kernel(local_size = threads, grid = p.n.div_ceil(threads))]
//! pub fn scale_all(
//!     #[len(p.n)] x: &Buf<f32>,         // elements the launch needs, counted on the host in u64
//!     #[len(p.n)] y: &BufMut<f32>,      // `BufMut` may be written
//!     #[push] p: ScalePush,
//!     #[comptime] threads: u32,         // known while staging: one Rust function, many variants
//! ) {
//!     let i = global_id_x();
//!     if i < p.n {
//!         y[i] = p.by * x[i];
//!     }
//! }
//!
//! // The macro made `ScaleAll { threads }` (a `kiln_abi::Kernel`) and `ScaleAllArgs { x, y, p }`.
//! let staged = ScaleAll::new(64).stage()?;
//! assert_eq!(staged.name, "scale_all(threads: 64)");
//! assert_eq!(staged.layout.local_size, [64, 1, 1]);
//! # Ok::<(), kiln_abi::StageErrors>(())
//! ```
//! Buffers get their binding numbers in order. `grid` and `#[len]` see the push constants and the comptime parameters;
//! they compute with `+ - * / %`, `div_ceil`, `next_multiple_of`, `min`, `max`. `grid` and `local_size` are `x`,
//! `[x, y]` or `[x, y, z]`; `subgroup = 32` asks for a subgroup size (a `u32` or an `Option<u32>`). A kernel with type
//! parameters is made by `Gemv::<Q8_0>::new(..)`.
//!
//! A kernel stays within what every device has, 256 invocations and 16 KiB of workgroup memory, unless it states more:
//! `invocations = 1024`, `workgroup_bytes = 49152`. `requires = [DotProduct]`, or any host expression that gives
//! `Capability`s, makes it an error to need another one. `#[weight]` marks a buffer of a model's weights: it is a `&Buf`.
//! `checked = true`, or any host `bool`, keeps a driver's checks of loads and stores where it could leave them out: for
//! what is read where numbers in memory say.
//!
//! # Values, variables, host values
//! `let x = ..` names a value, `let mut x = ..` is a variable, `let mut a = [0.0; 4]` an array of variables. Plain types
//! (`u32`, `f32`, `Vec4<f16>`) mean values of the kernel. Values of the *host* are comptime parameters, `const`s and
//! what `comptime!(..)` computes; where a value is needed they become constants.
//! `if` on a host `bool` keeps one arm, `for i in comptime!(0..8)` unrolls, and an argument for a `#[comptime]`
//! parameter is written `comptime!(..)`. Lengths (`Shared::<f32>::new(n)`, `[0.0; n]`) are literals or host values.
//! Integer arithmetic wraps; a float becomes an integer by `as` only within the integer's range; `select(c, a, b)`
//! evaluates both. Loops are `for i in a..b`, `(a..b).step_by(s)`, `while`, `loop`, with `break`, `continue` and in
//! kernels `return`; `#[unroll]` and `#[no_unroll]` are hints. There is no `?`, closure or slice.
//!
//! # Choices and struct values
//! `match` on an integer tries its arms in order, as branches: literals, constants in capitals, ranges, several joined
//! by `|`, and `_` last; no names are bound and there are no guards. `match comptime!(mode) { .. }` is the host's own
//! `match`: one arm is staged. `#[derive(Struct)]` makes a struct of numbers, bools, vectors and such structs a value:
//! literals (`Best { value, at }`), fields, `let mut`, parameters, results, arms. Its parts are values of their own.
//! ```
//! use kiln_dsl::prelude::*;
//!
//! /// The largest value so far and where it stood.
//! #[derive(Struct, Clone, Copy)]
//! pub struct Best { value: f32, at: u32 }
//!
//! #[device]
//! fn better(a: Best, b: Best) -> Best {
//!     if b.value > a.value { b } else { a }
//! }
//!
//! #[device]
//! fn weight(kind: u32) -> f32 {
//!     match kind {
//!         0 => 1.0,
//!         1 | 2 => 0.5,
//!         3..=9 => 0.25,
//!         _ => 0.0,
//!     }
//! }
//! ```
//! # Lanes
//! [`subgroup`] has what lanes do together. `subgroup::cluster_add(v, 8)` folds over clusters of eight lanes by
//! shuffles: the order of additions is the same everywhere, so is each bit. `shuffle_xor(v, mask)` takes the masks of a
//! comptime loop, and `acc[i]` of an array of variables with a host's `i` is one variable.
//!
//! # Atomics
//! `atomic::add(&y[i], 1)` and its like ([`atomic`]) work on `u32` and `i32` in `&BufMut` and `Shared`, and give what was
//! there. They are relaxed: each is whole, none orders anything else. Between an atomic and a plain access to one place
//! stands a `barrier()` (`barrier_buffers()` for buffers), between workgroups a new dispatch, or an
//! `atomic::release::store` read by an `atomic::acquire::load`; the interpreter traps else.
//!
//! # Looking inside
//! `kprintln!("row {row}: {}", acc)` prints a line of each invocation that comes by, on the interpreter
//! (`Interpreter::last_printed`). It is staged under [`session::debugging`] only: else its arguments are not evaluated and
//! the kernel's words are what they are without it. The same call makes the words name each instruction's source line.
//!
//! # Tables, views
//! A table that decoding looks up is a `&Buf<T>` parameter. `let grid = stage_table(&table, n);` copies its first `n`
//! elements into workgroup memory once (all invocations call it, it holds a barrier); then `grid[i]` reads them.
//! `stage_block(&w[i], &staged[j])` copies a block into a `Shared` of blocks, and the same decoding function reads it there.
//! `let b = a.reuse(n);` gives the memory of the `Shared` `a`, behind a barrier, to a second phase; `a` is gone.
//! `a.reuse_as::<Vec4<f32>>(n)` gives it to numbers or vectors of another type, of any size down to that of the numbers
//! it was made of.
//! A range is read in several widths by binding it several times: `w16: &Buf<Vec4<u32>>` and `w4: &Buf<u32>` may be
//! given one range as long as the kernel writes neither; a launch whose written range overlaps another is refused.
//!
//! # Device functions, blocks, formats
//! ```
//! use kiln_dsl::prelude::*;
//! use kiln_abi::Kernel;
//!
//! /// 32 weights in 34 bytes. A field is a number, a vector or an array of numbers; layout is std430.
//! #[derive(Block)]
//! pub struct Q8Block { d: f16, qs: [u16; 16] }
//! const _: () = assert!(Q8Block::BYTES == 34);
//!
//! pub struct Q8;
//!
//! #[device]
//! impl QuantFormat for Q8 {
//!     type Block = Q8Block;
//!     const BLK: u32 = 32;
//!     fn decode<R: Rail>(b: &BlockRef<Q8Block, R>, at: u32) -> f32 {
//!         let pair = b.qs[at >> 1] as u32;              // reads sixteen bits, nothing else of the block
//!         (b.d as f32) * signed_byte(pair >> ((at & 1) * 8))
//!     }
//! }
//!
//! /// A helper: values by value, blocks, buffers and workgroup memory by reference.
//! #[device]
//! fn signed_byte(word: u32) -> f32 {
//!     ((word << 24) as i32 >> 24) as f32
//! }
//!
//! #[derive(Push, Clone, Copy)]
//! pub struct RowPush { pub rows: u32, pub k: u32 }
//!
//! /// The sum of each row, a subgroup per row.
//! #[kernel(local_size = 32, subgroup = 32, grid = p.rows)]
//! pub fn row_sum<F: QuantFormat>(
//!     #[len(p.rows * p.k / F::BLK)] w: &Buf<F::Block>,
//!     #[len(p.rows)] y: &BufMut<f32>,
//!     #[push] p: RowPush,
//! ) {
//!     let row = workgroup_id_x();
//!     let blocks = p.k / F::BLK;
//!     let mut acc = 0.0;
//!     for i in (lane()..blocks).step_by(subgroup_size()) {
//!         let b = &w[row * blocks + i];                 // a reference: nothing is loaded yet
//!         for j in comptime!(0..F::BLK) {
//!             acc += F::decode(b, j);
//!         }
//!     }
//!     let total = subgroup::add(acc);
//!     if subgroup::elect() {
//!         y[row] = total;
//!     }
//! }
//!
//! assert_eq!(RowSum::<Q8>::new().stage()?.name, "row_sum<Q8>");
//! # Ok::<(), kiln_abi::StageErrors>(())
//! ```
//! `#[device]` goes on functions, traits and impls. Parameters are values (`mut` makes a variable of one), references,
//! `#[comptime] n: u32` or `#[push] p: P`; results are values or tuples of them. A block is read through its reference
//! in buffers and in workgroup memory alike. `dims!(BM = t.m)` declares a named dimension: a type with a number.
#![forbid(unsafe_code)]

extern crate self as kiln_dsl;

pub mod atomic;
pub mod block;
pub mod builtin;
pub mod contract;
pub mod control;
pub mod dims;
pub mod fragment;
pub mod math;
pub mod ops;
mod overlay;
pub mod place;
pub mod print;
#[doc(hidden)]
pub mod private;
pub mod push;
pub mod quant;
pub mod session;
pub mod subgroup;
mod table;
pub mod tensor;
pub mod through;
pub mod tile;
pub mod value;

pub use kiln_spirv_emit::disasm::disassemble;

/// Everything a kernel's file needs: `use kiln_dsl::prelude::*;`.
pub mod prelude {
    pub use half::f16;
    pub use kiln_abi::BufferRef;
    pub use kiln_dsl_macros::{Block, Push, Struct, device, kernel};

    pub use crate::{
        atomic,
        block::{Block, BlockRef, Buf, BufMut, Elem, Shared, stage_block, stage_table},
        builtin::*,
        dims::{Dim, dim},
        fragment,
        math::*,
        ops::{bitcast, select},
        place::{At, Local, Place, PlaceArray, Rail, ReadOnly, ReadWrite, Target, Workgroup, Writable},
        push::Push,
        quant::QuantFormat,
        subgroup,
        tensor::{
            PackedFormat, Plane, Tensor, TensorFormat, Unit, pack_halves, packed_decode, packed_decode4,
        },
        through,
        tile::{self, Acc, MatA, MatB, Sg, Tile, Wg, mul_add},
        value::{
            Arith, Bits, Ex, Float, FloatLike, Int, Num, Read, Scalar, Signed, Value, Vec2, Vec3, Vec4,
            Vector,
        },
    };
}
