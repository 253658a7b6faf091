//! Activation blocks: how far they are from what they stand for, at every size of values.

use kiln_kernels::conformance::Random;
use kiln_kernels::formats::activations::{ELEMENTS, OnePlane, TwoPlanes};

type Block = [f32; ELEMENTS];

/// Farthest that a value is from `x`, in steps of `d`, computed in f64.
fn error(x: &Block, values: &Block, d: f32) -> f64 {
    let steps = |(x, v): (&f32, &f32)| (f64::from(*x) - f64::from(*v)).abs() / f64::from(d);
    x.iter().zip(values).map(steps).fold(0.0, f64::max)
}

/// Random blocks at every power of two that activations may have, one with an outlier among them each time.
fn blocks() -> Vec<Block> {
    let mut random = Random::new(7);
    let mut found = Vec::new();
    for exponent in -100..=120 {
        for outlier in [1.0, 50.0] {
            let size = 2.0_f32.powi(exponent);
            let mut x: Block = std::array::from_fn(|_| random.unit() * size);
            x[random.below(ELEMENTS as u32) as usize] = -outlier * size;
            found.push(x);
        }
    }
    found
}

#[test]
fn one_plane_is_within_half_a_step() {
    for x in blocks() {
        let block = OnePlane::quantize(&x);
        let max = x.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        assert_eq!(block.d, max / 127.0);
        assert!(block.q.iter().all(|q| *q > i8::MIN) && block.q.iter().any(|q| q.abs() == 127), "{block:?}");
        assert!(error(&x, &block.dequantize(), block.d) < 0.5001, "{x:?}");
    }
}

#[test]
fn two_planes_are_within_half_a_256th() {
    for x in blocks() {
        let (one, two) = (OnePlane::quantize(&x), TwoPlanes::quantize(&x));
        assert_eq!(two.d * 256.0, one.d);
        assert!(two.high.iter().all(|q| *q > i8::MIN), "{two:?}");
        // A product of sixteen bits is rounded twice: to the inverse and to f32.
        assert!(error(&x, &two.dequantize(), two.d) < 0.51, "{x:?}");
    }
}

/// The bounds can fail: one quant off by one is beyond them.
#[test]
fn a_quant_off_by_one_is_seen() {
    for x in blocks() {
        let (mut one, mut two) = (OnePlane::quantize(&x), TwoPlanes::quantize(&x));
        let away = |v: f32, x: f32| if v >= x { 1 } else { -1 };
        let i = one.q.iter().position(|q| q.unsigned_abs() < 127).unwrap();
        one.q[i] += away(one.dequantize()[i], x[i]);
        assert!(error(&x, &one.dequantize(), one.d) > 0.9);
        let i = two.low.iter().position(|q| q.unsigned_abs() < 127).unwrap();
        two.low[i] += away(two.dequantize()[i], x[i]);
        assert!(error(&x, &two.dequantize(), two.d) > 0.9);
    }
}

#[test]
fn ties_go_to_even_and_planes_meet_at_every_quant() {
    let ties: Block = std::array::from_fn(|i| i as f32 + 0.5).map(|x| if x > 31.0 { 127.0 } else { x });
    let one = OnePlane::quantize(&ties);
    assert_eq!((one.d, &one.q[..6]), (1.0, &[0, 2, 2, 4, 4, 6][..]));
    for first in (-32512..=32512).step_by(31) {
        let x: Block =
            std::array::from_fn(|i| if i == 31 { 32512.0 } else { (first + i as i32).min(32512) as f32 });
        let two = TwoPlanes::quantize(&x);
        assert_eq!((two.d, two.dequantize()), (1.0, x));
        let ends = (two.high[31], two.low[31]);
        assert_eq!(ends, (127, 0));
    }
    let down = TwoPlanes::quantize(&[-32512.0; ELEMENTS]);
    assert_eq!((down.high[0], down.low[0]), (-127, 0));
}

#[test]
fn zero_tiny_and_largest_values_give_no_nan() {
    let zero = [0.0; ELEMENTS];
    for x in
        [zero, [-0.0; ELEMENTS], [f32::from_bits(1); ELEMENTS], [-127.0 * f32::MIN_POSITIVE / 2.0; ELEMENTS]]
    {
        assert_eq!((OnePlane::quantize(&x).d, OnePlane::quantize(&x).dequantize()), (0.0, zero));
        assert_eq!((TwoPlanes::quantize(&x).d, TwoPlanes::quantize(&x).dequantize()), (0.0, zero));
    }
    let smallest = [127.0 * f32::MIN_POSITIVE; ELEMENTS];
    assert_eq!(OnePlane::quantize(&smallest).dequantize(), smallest);
    for x in [[f32::MAX; ELEMENTS], [f32::MIN; ELEMENTS]] {
        let (one, two) = (OnePlane::quantize(&x), TwoPlanes::quantize(&x));
        assert!(one.dequantize().iter().chain(&two.dequantize()).all(|v| !v.is_nan()));
        assert_eq!((one.q[0].abs(), two.high[0].abs(), two.low[0]), (127, 127, 0));
    }
}
