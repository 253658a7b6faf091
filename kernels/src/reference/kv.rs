//! Lines of keys and values in words, and back.

use half::f16;

use crate::kv_type::KvType;

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
            let scales: Vec<f32> = line.chunks(32).map(scale).collect();
            let quantized = line.chunks(32).zip(&scales).flat_map(|(block, d)| {
                block.iter().map(move |x| (f64::from(*x) / f64::from(*d)).round().clamp(-127.0, 127.0) as i8)
            });
            let bytes: Vec<u8> = quantized.map(i8::cast_unsigned).collect();
            let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            words.chain(scales.chunks(2).map(halves)).collect()
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
            let q = words[i / 4].to_le_bytes()[i % 4].cast_signed();
            half(&words[head_dim / 4..], i / 32) * f32::from(q)
        }
    };
    (0..head_dim).map(value).collect()
}

/// `line`, elements moved away from where the next rounding of a quotient decides between two integers.
pub(crate) fn decided(line: &[f32], ty: KvType) -> Vec<f32> {
    let mut line = line.to_vec();
    if ty == KvType::Q8_0 {
        for block in line.chunks_mut(32) {
            let d = scale(block);
            for x in block {
                let q = *x / d;
                if (q.abs().fract() - 0.5).abs() < 1e-3 {
                    *x = q.trunc() * d;
                }
            }
        }
    }
    line
}

fn scale(block: &[f32]) -> f32 {
    let largest = block.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    f16::from_f32((largest * (1.0 / 127.0)).max(f32::from(f16::MIN_POSITIVE))).to_f32()
}
