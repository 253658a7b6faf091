//! Kernels mean what Rust means: each test runs one and compares it with the same code on the host.

mod device;

use device::run;
use kiln_dsl::prelude::*;

/// Push constants of the kernels here.
#[derive(Push, Clone, Copy)]
pub struct Count {
    /// A count.
    pub n: u32,
}

macro_rules! results {
    ($kernel:expr, $args:ident, $x:expr, $out:expr) => {
        run(&$kernel, $x, ($out, 0xdead), |x, y| $args { x, y }).unwrap()
    };
}

/// Loops: break, continue, nesting, steps, an early return.
#[kernel(local_size = 8, grid = 1)]
pub fn loops(x: &Buf<u32>, y: &BufMut<u32>) {
    let t = local_id();
    let mut sum = 0;
    for i in 0..x[t] {
        if i == 3 {
            continue;
        }
        if i * t > 20 {
            break;
        }
        let mut j = i;
        while j > 0 {
            j /= 2;
            if j == 1 {
                break;
            }
            sum += j;
        }
        sum += i;
    }
    for i in (t..17).step_by(5) {
        sum = sum * 3 + i;
    }
    let mut k = 0;
    loop {
        k += 2;
        if k > t {
            break;
        } else if k == 4 {
            sum ^= 1;
            continue;
        }
        sum += k;
    }
    y[t] = sum;
    if t % 2 == 0 {
        return;
    }
    y[t + 8] = sum + 1;
}

fn loops_on_the_host(x: &[u32]) -> Vec<u32> {
    let mut y = vec![0xdead; 16];
    for t in 0..8u32 {
        let mut sum = 0u32;
        for i in 0..x[t as usize] {
            if i == 3 {
                continue;
            }
            if i * t > 20 {
                break;
            }
            let mut j = i;
            while j > 0 {
                j /= 2;
                if j == 1 {
                    break;
                }
                sum += j;
            }
            sum += i;
        }
        for i in (t..17).step_by(5) {
            sum = sum * 3 + i;
        }
        let mut k = 0;
        loop {
            k += 2;
            if k > t {
                break;
            } else if k == 4 {
                sum ^= 1;
                continue;
            }
            sum += k;
        }
        y[t as usize] = sum;
        if t % 2 != 0 {
            y[t as usize + 8] = sum + 1;
        }
    }
    y
}

#[test]
fn loops_run_as_on_the_host() {
    let x = [0, 1, 2, 5, 8, 13, 21, 34];
    assert_eq!(results!(Loops, LoopsArgs, &x, 16), loops_on_the_host(&x));
}

/// What happens in which order.
#[kernel(local_size = 1, grid = 1)]
pub fn order(x: &Buf<u32>, y: &BufMut<u32>) {
    let mut i = x[0];
    let mut a = [10, 20, 30, 40];
    // The place is computed before the value.
    a[i] += {
        i += 1;
        i * 100
    };
    y[0] = a[0];
    y[1] = a[1];
    // A name keeps the value it was given.
    let before = i;
    i += 5;
    y[2] = before;
    y[3] = i;
    // Operands from left to right.
    y[4] = i + {
        i = 1;
        i
    };
    // Shadowing.
    let before = before + 1;
    y[5] = before;
    let (p, q) = if before > 1 { (i, before) } else { (before, i) };
    y[6] = p * 10 + q;
    // The right side of an assignment goes first, then its place.
    y[i + 6] = {
        i = 2;
        77
    };
    y[9] = i;
}

#[test]
fn evaluation_order_is_left_to_right() {
    let y = results!(Order, OrderArgs, &[0], 10);
    assert_eq!(y, [110, 20, 1, 6, 7, 2, 12, 0xdead, 77, 2]);
}

/// Casts of one word.
#[kernel(local_size = 1, grid = 1)]
pub fn casts(x: &Buf<u32>, y: &BufMut<u32>) {
    let w = x[0];
    y[0] = w as u8 as u32;
    y[1] = w as i8 as u32;
    y[2] = w as u16 as u32;
    y[3] = w as i16 as i32 as u32;
    y[4] = w as i8 as i16 as u16 as u32;
    y[5] = ((w as i32) >> 3) as u32;
    y[6] = (w as i8 as u8 as i32) as u32;
    y[7] = bitcast::<u32, _>((w as i32) as f32);
    y[8] = bitcast::<u32, _>(w as f32);
    y[9] = ((w & 1023) as f32 * -0.75) as i32 as u32;
    y[10] = (w > 7) as u32;
    y[11] = (w as i16 as f16) as f32 as i32 as u32;
    y[12] = (w as i32 % 7) as u32;
    y[13] = (w as i32 / 7) as u32;
    y[14] = !w ^ (w << 3) | (w >> 30);
    y[15] = (-(w as i32)) as u32;
}

#[test]
fn casts_are_rusts() {
    for w in [0u32, 1, 5, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x1_0081, 0x7fff_ffff, 0xffff_fff0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "what is tested")]
        let expected = [
            u32::from(w as u8),
            (w as i8) as u32,
            u32::from(w as u16),
            i32::from(w as i16) as u32,
            u32::from(i16::from(w as i8) as u16),
            ((w as i32) >> 3) as u32,
            i32::from(w as i8 as u8) as u32,
            ((w as i32) as f32).to_bits(),
            (w as f32).to_bits(),
            ((w & 1023) as f32 * -0.75) as i32 as u32,
            u32::from(w > 7),
            f16::from_f32(f32::from(w as i16)).to_f32() as i32 as u32,
            (w as i32 % 7) as u32,
            (w as i32 / 7) as u32,
            !w ^ (w << 3) | (w >> 30),
            (w as i32).wrapping_neg() as u32,
        ];
        assert_eq!(results!(Casts, CastsArgs, &[w], 16), expected, "of {w:#x}");
    }
}

/// A block whose fields have every kind.
#[derive(Block)]
pub struct Mixed {
    d: f16,
    q: [i8; 6],
    w: [u16; 2],
    s: f32,
    v: Vec2<f32>,
}
const _: () = assert!(Mixed::BYTES == 24);

#[device]
fn weigh<R: Rail>(b: &BlockRef<Mixed, R>, at: u32, #[comptime] negate: bool) -> f32 {
    let q = b.q[at] as f32;
    let signed = if negate { -q } else { q };
    b.s * signed + (b.d as f32) + (b.w[1] as f32) + b.v[1]
}

/// A block in a buffer and the same block in workgroup memory.
#[kernel(local_size = 4, grid = 1)]
pub fn blocks(x: &Buf<Mixed>, y: &BufMut<f32>) {
    let t = local_id();
    let staged = Shared::<Mixed>::new(2);
    let b = &x[1];
    if t == 0 {
        let s = &staged[1];
        s.d = b.d;
        s.s = b.s;
        s.w[1] = b.w[1];
        s.v = b.v;
        for i in comptime!(0..6u32) {
            s.q[i] = b.q[i];
        }
    }
    barrier();
    y[t] = weigh(b, t, comptime!(false));
    y[t + 4] = weigh(&staged[1], t, comptime!(true));
}

#[test]
fn blocks_are_read_by_reference_in_every_memory() {
    let mut bytes = [0u8; 48];
    let block = &mut bytes[24..];
    block[0..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
    block[2..8].copy_from_slice(&[1, 2, 0xfd, 4, 5, 6]);
    block[10..12].copy_from_slice(&300u16.to_le_bytes());
    block[12..16].copy_from_slice(&2.0f32.to_le_bytes());
    block[20..24].copy_from_slice(&0.25f32.to_le_bytes());
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let y: Vec<f32> = results!(Blocks, BlocksArgs, &words, 8).into_iter().map(f32::from_bits).collect();
    assert_eq!(y, [302.75, 304.75, 294.75, 308.75, 298.75, 296.75, 306.75, 292.75]);
}

/// Workgroup memory, comptime loops, local arrays, named dimensions.
#[kernel(local_size = n, grid = 1)]
pub fn reversed(x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32, #[comptime] doubled: bool) {
    dims!(LEN = n);
    let t = local_id();
    let tile = Shared::<u32>::new(LEN);
    tile[t] = x[t];
    barrier();
    let mut parts = [0, 0];
    for i in comptime!(0..n) {
        if t + i < LEN {
            parts[i & 1] += tile[n - 1 - i];
        }
    }
    let total = if doubled { parts[0] * 2 } else { parts[0] };
    y[t] = tile[n - 1 - t] + total * 1000 + parts[1];
}

#[test]
fn comptime_values_choose_the_variant() {
    let x = [1, 2, 3, 4];
    for doubled in [false, true] {
        let y = results!(Reversed::new(4, doubled), ReversedArgs, &x, 4);
        let expected: Vec<u32> = (0..4usize)
            .map(|t| {
                let parts =
                    [0, 1].map(|odd| (0..4 - t).filter(|i| i % 2 == odd).map(|i| x[3 - i]).sum::<u32>());
                x[3 - t] + parts[0] * (1 + u32::from(doubled)) * 1000 + parts[1]
            })
            .collect();
        assert_eq!(y, expected);
    }
}

/// Vectors, packed words, mathematics.
#[kernel(local_size = 1, grid = 1)]
pub fn vectors(x: &Buf<Vec4<f32>>, y: &BufMut<f32>) {
    let mut v = x[0];
    v[1] += 0.5;
    let w = v * v - splat::<Vec4<f32>>(1.0);
    y[0] = w.x() + w[3] * 10.0;
    y[1] = dot(v, w);
    y[2] = max(v.y(), 2.0).min(7.5).sqrt();
    y[3] = fma(v.x(), 2.0, v.z());
    let h = unpack_half(pack_half(vec2(v.x(), v.y())));
    y[4] = h[0] + h[1];
    y[5] = dot4_i8_acc(0x01ff_0203, 0x0102_fe01, 100) as f32;
    y[6] = clamp((v.z() as i32) - 9, -4, 3) as f32;
    y[7] = scale(v, 2.0)[comptime!(3u32)];
}

#[test]
fn vectors_and_packed_words() {
    let x = [1.0f32, 2.0, 3.0, 4.0].map(f32::to_bits);
    let y: Vec<f32> = results!(Vectors, VectorsArgs, &x, 8).into_iter().map(f32::from_bits).collect();
    let v = [1.0f32, 2.5, 3.0, 4.0];
    let w = v.map(|c| c * c - 1.0);
    let dot: f32 = v.iter().zip(w).map(|(a, b)| a * b).sum();
    // Bytes 3, 2, -1, 1 and 1, -2, 2, 1.
    let packed = 100.0 + (3.0 - 4.0 - 2.0 + 1.0);
    assert_eq!(y, [w[0] + w[3] * 10.0, dot, 2.5f32.sqrt(), 5.0, 3.5, packed, -4.0, 8.0]);
}

/// Lanes of a subgroup of eight.
#[kernel(local_size = 8, grid = p.n)]
pub fn lanes(x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Count) {
    let v = x[lane()];
    let mut out = subgroup::add(v) + 1000 * subgroup::max(v);
    out += 100_000 * subgroup::shuffle_xor(v, 1);
    y[lane()] = out;
    y[8 + lane()] = subgroup::inclusive_add(v) * 1000 + subgroup::exclusive_add(v);
    y[16 + lane()] = subgroup::ballot(v > 3).x() * 10 + subgroup::broadcast(v, 2);
    let (every, some) = (subgroup::all(v > 3), subgroup::any(v > 3));
    if subgroup::elect() && !every && some {
        y[24] = subgroup_size() * num_workgroups_x() * p.n;
    }
}

#[test]
fn lanes_work_together() {
    let x = [1, 2, 3, 4, 5, 6, 7, 8];
    let y = run(&Lanes, &x, (25, 0), |x, y| LanesArgs { x, y, p: Count { n: 1 } }).unwrap();
    for t in 0..8usize {
        assert_eq!(y[t], 36 + 8000 + 100_000 * x[t ^ 1]);
        let before: u32 = x[..t].iter().sum();
        assert_eq!(y[8 + t], (before + x[t]) * 1000 + before);
        assert_eq!(y[16 + t], 0b1111_1000 * 10 + 3);
    }
    assert_eq!(y[24], 8);
}
