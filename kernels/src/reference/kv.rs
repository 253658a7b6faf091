//! Lines of keys and values in words, and back.

use half::f16;

use super::Bounded;
use crate::{
    conformance::F16_ROUNDOFF,
    kv_type::{KV_BLOCK, KvType, SMALLEST_SCALE},
};

/// Hadamard's transform of each run of 32, element i of it being Σ_j ± x[j] / √32, negative where i and j share an odd
/// number of bits.
pub(super) fn mixed(line: &[f64]) -> Vec<f64> {
    let root = 32f64.sqrt();
    let element = |run: &[f64], i: usize| -> f64 {
        let mut sum = 0.0;
        for (j, x) in run.iter().enumerate() {
            sum += if (i & j).count_ones().is_multiple_of(2) { *x } else { -*x };
        }
        sum / root
    };
    line.chunks(32).flat_map(|run| (0..run.len()).map(move |i| element(run, i))).collect()
}

fn mixed_line(line: &[f32]) -> Vec<f32> {
    let line: Vec<f64> = line.iter().copied().map(f64::from).collect();
    mixed(&line).into_iter().map(|x| x as f32).collect()
}

/// The words of a line.
pub fn encode(line: &[f32], ty: KvType) -> Vec<u32> {
    let halves = |pair: &[f32]| {
        let bits = |i: usize| u32::from(f16::from_f32(pair.get(i).copied().unwrap_or(0.0)).to_bits());
        bits(0) | bits(1) << 16
    };
    match ty {
        KvType::F32 => line.iter().map(|x| x.to_bits()).collect(),
        KvType::F16 => line.chunks(2).map(halves).collect(),
        KvType::Q8_0 => {
            let line = mixed_line(line);
            let scales: Vec<f32> = line.chunks(32).map(scale).collect();
            let quantized = line.chunks(32).zip(&scales).flat_map(|(block, d)| {
                block.iter().map(move |x| (f64::from(*x) / f64::from(*d)).round().clamp(-255.0, 255.0) as i16)
            });
            let quantized: Vec<i16> = quantized.collect();
            let byte = |q: i16| (q.div_euclid(2) as i8).cast_unsigned();
            let words =
                quantized.chunks_exact(4).map(|q| u32::from_le_bytes([0, 1, 2, 3].map(|e| byte(q[e]))));
            let bits = |block: &[i16]| (0..).zip(block).map(|(i, q)| (q.rem_euclid(2) as u32) << i).sum();
            words.chain(quantized.chunks_exact(32).map(bits)).chain(scales.chunks(2).map(halves)).collect()
        }
    }
}

/// The values of a line.
pub fn decode(words: &[u32], head_dim: usize, ty: KvType) -> Vec<f32> {
    let half = |words: &[u32], i: usize| f16::from_bits((words[i / 2] >> (16 * (i % 2))) as u16).to_f32();
    let value = |i: usize| match ty {
        KvType::F32 => f32::from_bits(words[i]),
        KvType::F16 => half(words, i),
        KvType::Q8_0 => {
            let byte = words[i / 4].to_le_bytes()[i % 4].cast_signed();
            let low = (words[head_dim / 4 + i / 32] >> (i % 32) & 1) as i16;
            half(&words[head_dim / 4 + head_dim / 32..], i / 32) * f32::from(2 * i16::from(byte) + low)
        }
    };
    let values: Vec<f32> = (0..head_dim).map(value).collect();
    if ty == KvType::Q8_0 { mixed_line(&values) } else { values }
}

/// What lines of `x` can be off once they are kept as `ty`.
pub fn rounded(x: &Bounded, head_dim: usize, ty: KvType) -> Vec<f64> {
    let lines = x.values.chunks(head_dim).zip(x.bounds.chunks(head_dim));
    lines.flat_map(|(values, bounds)| rounded_line(values, bounds, ty)).collect()
}

fn rounded_line(values: &[f64], bounds: &[f64], ty: KvType) -> Vec<f64> {
    match ty {
        KvType::F32 => bounds.to_vec(),
        KvType::F16 => {
            let off =
                |(x, bound): (&f64, &f64)| bound + (x.abs() + bound) * F16_ROUNDOFF + f64::from(f32::EPSILON);
            values.iter().zip(bounds).map(off).collect()
        }
        // Each of the mixed block is off by half of a scale, which its norm bounds and f16 rounds.
        KvType::Q8_0 => {
            let blocks = values.chunks(KV_BLOCK as usize).zip(bounds.chunks(KV_BLOCK as usize));
            let off = blocks.flat_map(|(values, bounds)| {
                let squares = values.iter().zip(bounds).map(|(x, bound)| (x.abs() + bound).powi(2));
                let step = (squares.sum::<f64>().sqrt() / 254.0).max(f64::from(SMALLEST_SCALE));
                bounds.iter().map(move |bound| bound + step / 2.0 * f64::from(KV_BLOCK).sqrt())
            });
            off.collect()
        }
    }
}

/// `line`, elements moved away from where the next rounding decides between two integers or two scales.
pub(crate) fn decided(line: &[f32], ty: KvType) -> Vec<f32> {
    if ty != KvType::Q8_0 {
        return line.to_vec();
    }
    let mut line = mixed_line(line);
    for block in line.chunks_mut(32) {
        let nudged = |by: f32| scale(&block.iter().map(|x| x * by).collect::<Vec<_>>());
        if nudged(0.999_99) != nudged(1.000_01) {
            block.iter_mut().for_each(|x| *x *= 1.0001);
        }
        let d = scale(block);
        for x in block {
            let q = *x / d;
            if (q.abs().fract() - 0.5).abs() < 2e-3 {
                *x = q.trunc() * d;
            }
        }
    }
    mixed_line(&line)
}

fn scale(block: &[f32]) -> f32 {
    let largest = block.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    f16::from_f32((largest * (1.0 / 255.0)).max(f32::from(f16::MIN_POSITIVE))).to_f32()
}
