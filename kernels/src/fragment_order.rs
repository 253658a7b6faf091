//! Products of tiles made of words, and sums read where they are: what [`kiln_dsl::fragment`] says of a device, tried.
//!
//! Three products of one pair of matrices for each problem: with the left factor made of words and the sums stored, with
//! the right one made of words, and with both, whose sums each invocation stores itself. The first two say where factors
//! are apart from each other, the third where sums are.
//!
//! Shapes: a `[n, 16, 16]`, b `[n, 8, 16]` (a column is a line) f16, y `[n, 3, 16, 8]` f32. A subgroup owns a problem.
//! Numerics: exact for integers whose sums are below 2²⁴.

use half::f16;
use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Expected, Random},
    reference,
};

/// Push constants of `fragment_order`.
#[derive(Clone, Copy, Debug, Push)]
pub struct OrderPush {
    /// Problems.
    pub n: u32,
}

/// Words of a line of a or b.
const LINE: u32 = 8;

/// The kernel.
#[kernel(local_size = 32, subgroup = 32, grid = p.n)]
pub fn fragment_order(
    #[len(p.n * 16 * LINE)] a: &Buf<u32>,
    #[len(p.n * 8 * LINE)] b: &Buf<u32>,
    #[len(p.n * 3 * 128)] y: &BufMut<f32>,
    #[push] p: OrderPush,
) {
    dims!(M = 16, N = 8, K = 16);
    let n = workgroup_id_x();
    let (g, t) = (lane() / 4, lane() % 4);
    let (at_a, at_b, at_y) = (n * 16 * LINE, n * 8 * LINE, n * 3 * 128);
    let line = at_a + g * LINE + t;
    let low = line + 8 * LINE;
    let left = Tile::<f16, MatA, Sg, M, K>::of_words(a[line], a[line + 4], a[low], a[low + 4]);
    let column = at_b + g * LINE + t;
    let right = Tile::<f16, MatB, Sg, K, N>::of_words(b[column], b[column + 4]);
    let zero = Tile::<f32, Acc, Sg, M, N>::zero();
    let of_left = mul_add(left, Tile::<f16, MatB, Sg, K, N>::load_columns(b, at_b, LINE), zero);
    tile::store(of_left, y, at_y, 8);
    let of_right = mul_add(Tile::<f16, MatA, Sg, M, K>::load(a, at_a, LINE), right, zero);
    tile::store(of_right, y, at_y + 128, 8);
    let sums = fragment::sums(mul_add(left, right, zero));
    let first = at_y + 256 + g * 8 + 2 * t;
    for e in comptime!(0..4u32) {
        y[first + comptime!(e / 2 * 64 + e % 2)] = sums[comptime!(e)];
    }
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    vec![Variant::new("fragment_order", FragmentOrder::new(), || [1, 3].map(case).into())]
}

fn case(n: u32) -> Case {
    let mut random = Random::new(n.into());
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..n {
        a.extend(random.order(256));
        b.extend(random.order(128));
    }
    let expected = reference::fragment_order(&a, &b);
    let halves = |m: &[u16]| m.iter().flat_map(|&v| f16::from_f32(v.into()).to_le_bytes()).collect();
    Case {
        name: format!("n = {n}"),
        buffers: vec![
            Buffer::Input(halves(&a)),
            Buffer::Input(halves(&b)),
            Buffer::Output(4 * expected.len()),
        ],
        expected: vec![Expected::equal(2, &expected)],
        bind: Box::new(move |r| {
            let (a, b, y) = (r[0].into(), r[1].into(), r[2].into());
            FragmentOrder::new().bind(&FragmentOrderArgs { a, b, y, p: OrderPush { n } })
        }),
    }
}
