//! The product. Floats are multiplied and summed in f32 and rounded to the result's type once; the order of the sum is
//! the run's: `Forward` starts with the addend and takes the depth ascending, `Reverse` descending, `Tree` sums
//! neighbors first and adds the addend last. An f16 sum that leaves f16's range on the way counts as an overflow, since
//! a device may keep it in f16. Integers are exact modulo the result's width, or saturate where the operands say so.

use half::{bf16, f16};

use super::{super::convert::float, Failed, File, Matrix, Together, elements::name, fault};
use crate::{
    decode::width_mask,
    matrix::{Reg, Shape, Signs},
    number::Number,
    options::ReduceOrder,
    trap::TrapKind,
};

/// Magnitude from which on a number rounds to an infinite f16.
const F16_END: f32 = 65520.0;

fn floats(m: &Matrix, ty: Number) -> Vec<f32> {
    m.bits.iter().map(|&v| float(v, ty)).collect()
}

/// a · b + c of one row: `row` is a's, `b` has `row.len()` rows of `sum.len()`, `sum` is c's and the result's.
fn float_row(row: &[f32], b: &[f32], sum: &mut [f32], peak: &mut [f32], order: ReduceOrder) {
    let n = sum.len();
    let mut step = |k: usize| {
        let a = row[k];
        for ((s, &b), p) in sum.iter_mut().zip(&b[k * n..(k + 1) * n]).zip(peak.iter_mut()) {
            *s += a * b;
            *p = p.max(s.abs());
        }
    };
    match order {
        ReduceOrder::Forward => (0..row.len()).for_each(step),
        ReduceOrder::Reverse => (0..row.len()).rev().for_each(&mut step),
        ReduceOrder::Tree => {
            let total = pairwise(row, b, n);
            for ((s, t), p) in sum.iter_mut().zip(total).zip(peak) {
                *s += t;
                *p = s.abs().max(t.abs());
            }
        }
    }
}

/// The sum over the depth, neighbors first.
fn pairwise(row: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    if let [a] = row {
        return b.iter().map(|&b| a * b).collect();
    }
    let half = (row.len() / 2).next_power_of_two();
    let mut left = pairwise(&row[..half], &b[..half * n], n);
    for (l, r) in left.iter_mut().zip(pairwise(&row[half..], &b[half * n..], n)) {
        *l += r;
    }
    left
}

fn extended(m: &Matrix, ty: Number, signed: bool) -> Vec<u32> {
    let spare = 32 - 8 * ty.bytes();
    let extend = |&v: &u32| if signed { ((v << spare) as i32 >> spare) as u32 } else { v };
    m.bits.iter().map(extend).collect()
}

impl Together<'_, '_> {
    pub(super) fn mul_add(
        &mut self,
        file: &mut File,
        dst: Reg,
        of: [Reg; 3],
        signs: Signs,
    ) -> Result<(), Failed> {
        for reg in of {
            file.ready(self.p, reg);
        }
        let shapes = of.map(|reg| self.p.registers[reg as usize]);
        let result = self.p.registers[dst as usize];
        let [a, b, c] = of.map(|reg| file.at(reg));
        let bits = if result.elem.is_real() {
            self.float_product([a, b, c], shapes, result)
        } else if signs.saturate {
            saturating_product([a, b, c], shapes, result, signs)?
        } else {
            wrapping_product([a, b, c], shapes, result, signs)
        };
        let macs = result.len() as u64 * u64::from(shapes[0].cols);
        self.m.counters.matrices.multiply_adds += macs;
        let undefined = unknown([a, b, c], shapes);
        file.put(dst, Matrix { bits, undefined });
        Ok(())
    }

    fn float_product(&mut self, of: [&Matrix; 3], shapes: [Shape; 3], result: Shape) -> Vec<u32> {
        let [a, b, mut sum] = [0, 1, 2].map(|i| floats(of[i], shapes[i].elem));
        let (depth, n) = (shapes[0].cols as usize, result.cols as usize);
        let mut bits = Vec::with_capacity(sum.len());
        let mut peak = vec![0f32; n];
        for (row, sum) in a.chunks(depth).zip(sum.chunks_mut(n)) {
            peak.fill(0.0);
            float_row(row, &b, sum, &mut peak, self.m.order);
            match result.elem {
                Number::F32 => bits.extend(sum.iter().map(|s| s.to_bits())),
                Number::BF16 => bits.extend(sum.iter().map(|&s| u32::from(bf16::from_f32(s).to_bits()))),
                _ => {
                    bits.extend(sum.iter().map(|&s| u32::from(f16::from_f32(s).to_bits())));
                    // An infinity that came in is none that overflowed: the peak is infinite too then.
                    let over = |p: &&f32| p.is_finite() && **p >= F16_END;
                    self.m.counters.f16_overflows += peak.iter().filter(over).count() as u64;
                }
            }
        }
        bits
    }
}

fn wrapping_product(of: [&Matrix; 3], shapes: [Shape; 3], result: Shape, signs: Signs) -> Vec<u32> {
    let a = extended(of[0], shapes[0].elem, signs.a);
    let b = extended(of[1], shapes[1].elem, signs.b);
    let mut sum = extended(of[2], shapes[2].elem, signs.c);
    let (depth, n) = (shapes[0].cols as usize, result.cols as usize);
    for (row, sum) in a.chunks(depth).zip(sum.chunks_mut(n)) {
        for (&a, b) in row.iter().zip(b.chunks(n)) {
            for (s, &b) in sum.iter_mut().zip(b) {
                *s = s.wrapping_add(a.wrapping_mul(b));
            }
        }
    }
    let mask = width_mask(result.elem);
    sum.iter_mut().for_each(|s| *s &= mask);
    sum
}

fn saturating_product(
    of: [&Matrix; 3],
    shapes: [Shape; 3],
    result: Shape,
    signs: Signs,
) -> Result<Vec<u32>, Failed> {
    let wide = |i: usize, signed: bool| -> Vec<i128> {
        let number = |v: u32| if signed { i128::from(v as i32) } else { i128::from(v) };
        extended(of[i], shapes[i].elem, signed).into_iter().map(number).collect()
    };
    let (a, b, c) = (wide(0, signs.a), wide(1, signs.b), wide(2, signs.c));
    let (depth, n, width) = (shapes[0].cols as usize, result.cols as usize, 8 * result.elem.bytes());
    let (low, high) = if signs.result {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    let mut bits = Vec::with_capacity(c.len());
    for (e, &c) in c.iter().enumerate() {
        let (row, col) = (e / n, e % n);
        let product: i128 = (0..depth).map(|k| a[row * depth + k] * b[k * n + col]).sum();
        if !(low..=high).contains(&product) {
            let detail = format!(
                "{}: the product {product} leaves {low}..={high} before it is accumulated with saturation",
                name(&result, e)
            );
            return Err(fault(TrapKind::Integer, detail));
        }
        bits.push((product + c).clamp(low, high) as u32 & width_mask(result.elem));
    }
    Ok(bits)
}

/// The elements of a product that something undefined goes into.
fn unknown(of: [&Matrix; 3], shapes: [Shape; 3]) -> Vec<bool> {
    let [a, b, c] = of;
    if a.undefined.is_empty() && b.undefined.is_empty() && c.undefined.is_empty() {
        return Vec::new();
    }
    let (rows, depth, cols) = (shapes[0].rows as usize, shapes[0].cols as usize, shapes[1].cols as usize);
    let row: Vec<bool> = (0..rows).map(|r| (0..depth).any(|k| a.unknown(r * depth + k))).collect();
    let col: Vec<bool> = (0..cols).map(|c| (0..depth).any(|k| b.unknown(k * cols + c))).collect();
    let out: Vec<bool> = (0..rows * cols).map(|e| row[e / cols] || col[e % cols] || c.unknown(e)).collect();
    if out.contains(&true) { out } else { Vec::new() }
}
