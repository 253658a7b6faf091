//! `y[i] = W[i]`, W in any format, each element decoded by itself: as a matrix load decodes it, where a device has one.
//!
//! Shapes: W `[n]` in planes, y `[n]` f32. An invocation owns an element. It is for conformance alone: the engine
//! decodes four at once, or within a load. Numerics: decoding only: the host's values, but for the sign of a zero, and
//! what has a scale below the normal numbers may count as zero.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Format, Variant,
    arms::tensor_words,
    conformance::{Buffer, Case, Content, Expected, Random, random_blocks},
    formats::layout,
};

/// Push constants of `decode_each`.
#[derive(Clone, Copy, Debug, Push)]
pub struct DecodeEachPush {
    /// Elements of W.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;
/// Below it an element's scale may be below the normal numbers.
pub(crate) const TINY: f32 = 128.0 * f32::MIN_POSITIVE;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE)])]
pub fn decode_each<F: TensorFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.n / F::UNIT))]
    w: &Buf<u32>,
    #[len(p.n)] y: &BufMut<f32>,
    #[push] p: DecodeEachPush,
) {
    let i = global_id_x();
    if i < p.n {
        let units = p.n / F::UNIT;
        let tensor = comptime!(Tensor::new::<F>(w, units));
        let index = i / F::UNIT;
        let unit = comptime!(tensor.unit(index));
        y[i] = F::decode(&unit, i % F::UNIT);
    }
}

/// The variants of one format.
pub fn variants<F: Format>() -> Vec<Variant> {
    vec![Variant::new("decode", DecodeEach::<F>::new(), || vec![case::<F>(5)]).on(F::NAME, "float")]
}

/// So many of the least rows.
fn case<F: Format>(rows: u32) -> Case {
    let n = rows * F::BLK.max(F::UNIT);
    let (blocks, values) = random_blocks::<F>(&mut Random::new(n.into()), n as usize);
    let bound = |v: &f32| if (-TINY..TINY).contains(v) { f64::from(*v).abs() } else { 0.0 };
    let content = Content::Near {
        bounds: values.iter().map(bound).collect(),
        values: values.iter().map(|v| f64::from(*v)).collect(),
    };
    Case {
        name: format!("n = {n}"),
        buffers: vec![Buffer::Input(layout::pack::<F>(&blocks)), Buffer::Output(4 * values.len())],
        expected: vec![Expected { binding: 1, content }],
        bind: Box::new(move |r| {
            let p = DecodeEachPush { n };
            DecodeEach::<F>::new().bind(&DecodeEachArgs { w: r[0].into(), y: r[1].into(), p })
        }),
    }
}
