//! `y[i]` is what `W[i]` has beside `scale * q`, W in any packed format.
//!
//! Shapes: W `[n]` in planes, y `[n]` f32. An invocation owns an element. It is for conformance alone: bounds of products
//! are as wide as `Format::offset` says, so one that is not what kernels take would hide what they do wrong. Numerics: a
//! product of scales; what has a scale below the normal numbers may count as zero.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Format, Variant,
    arms::tensor_words,
    conformance::{Buffer, Case, Content, Expected, F32_ROUNDOFF, Random, gamma, random_blocks},
    decode_each::TINY,
    formats::layout,
    gemv,
};

/// Push constants of `offset_each`.
#[derive(Clone, Copy, Debug, Push)]
pub struct OffsetEachPush {
    /// Elements of W.
    pub n: u32,
}

const LOCAL_SIZE: u32 = 64;
/// Products of a block's scales and its group's, on the host and on the device.
const ROUNDINGS: u32 = 6;

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = [p.n.div_ceil(LOCAL_SIZE)])]
pub fn offset_each<F: PackedFormat>(
    #[weight]
    #[len(tensor_words::<F>(p.n / F::UNIT))]
    w: &Buf<u32>,
    #[len(p.n)] y: &BufMut<f32>,
    #[push] p: OffsetEachPush,
) {
    let i = global_id_x();
    if i < p.n {
        let units = p.n / F::UNIT;
        let tensor = comptime!(Tensor::new::<F>(w, units));
        let index = i / F::UNIT;
        let unit = comptime!(tensor.unit(index));
        let (_scale, offset) = F::scale_offset(&unit, i % F::UNIT / F::GROUP);
        y[i] = offset;
    }
}

/// The variants of one format.
pub fn variants<F: Format + PackedFormat>() -> Vec<Variant> {
    vec![Variant::new("decode", OffsetEach::<F>::new(), || vec![case::<F>(5)]).on(F::NAME, "float")]
}

/// So many of the least rows.
fn case<F: Format + PackedFormat>(rows: u32) -> Case {
    let n = rows * F::BLK.max(F::UNIT);
    let (blocks, _) = random_blocks::<F>(&mut Random::new(n.into()), n as usize);
    let values: Vec<f64> = gemv::offsets::<F>(&blocks).into_iter().map(f64::from).collect();
    let bound = |v: &f64| match v.abs() {
        tiny if tiny < f64::from(TINY) => tiny,
        size => size * gamma(ROUNDINGS, F32_ROUNDOFF),
    };
    let content = Content::Near { bounds: values.iter().map(bound).collect(), values };
    Case {
        name: format!("n = {n}, `Format::offset` expected of `PackedFormat::scale_offset`"),
        buffers: vec![Buffer::Input(layout::pack::<F>(&blocks)), Buffer::Output(4 * n as usize)],
        expected: vec![Expected { binding: 1, content }],
        bind: Box::new(move |r| {
            let p = OffsetEachPush { n };
            OffsetEach::<F>::new().bind(&OffsetEachArgs { w: r[0].into(), y: r[1].into(), p })
        }),
    }
}
