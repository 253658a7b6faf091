//! Trial: K format weights times their integer scales in halves, eight rows of x.
use half::f16;
use kiln_dsl::prelude::*;

/// The shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub tiles: u32,
    pub subgroups: u32,
    /// Blocks of 256 of a row.
    pub blocks: u32,
    pub slots: u32,
    /// Whether x is in halves.
    pub halves: bool,
}

impl Shape {
    pub const fn rows(&self) -> u32 {
        self.tiles * 16
    }
    pub const fn own(&self) -> u32 {
        self.blocks / self.subgroups
    }
    pub const fn invocations(&self) -> u32 {
        self.subgroups * 32
    }
    pub const fn sums(&self) -> u32 {
        self.tiles * 128
    }
    /// 16-byte words of x of a step of a lane.
    pub const fn x_words(&self) -> u32 {
        if self.halves { 8 } else { 4 }
    }
    /// 16-byte words of x.
    pub const fn x_len(&self) -> u32 {
        self.blocks * 2 * (self.x_words() * 32 + 8 + 2)
    }
    const fn held(&self) -> u32 {
        2 * self.tiles * 13
    }
}

/// Push constants.
#[derive(Clone, Copy, Debug, Push)]
pub struct DirectPush {
    pub m: u32,
    pub groups: u32,
}

#[kernel(
    local_size = shape.invocations(),
    subgroup = 32,
    invocations = shape.invocations().max(256),
    workgroup_bytes = (2 * shape.subgroups * shape.sums() * 4).max(16384),
    grid = p.groups,
)]
pub fn direct(
    #[weight]
    #[len(p.m * shape.blocks * 37)]
    w: &Buf<u32>,
    #[len(shape.x_len())] x: &Buf<Vec4<u32>>,
    #[len(p.m * 8)] y: &BufMut<f32>,
    #[push] p: DirectPush,
    #[comptime] shape: Shape,
) {
    let (g, t) = (lane() >> 2, lane() & 3);
    let n_blocks = p.m * comptime!(shape.blocks);
    let n_tiles = p.m / comptime!(shape.rows());
    let first = subgroup_id() * comptime!(shape.own());
    let mut held = [0u32; comptime!(shape.slots * shape.held())];
    let n = comptime!(shape.subgroups * shape.sums());
    let shared = Shared::<f32>::new(comptime!(2 * n));
    for slot in comptime!(0..shape.slots) {
        ask(
            &held,
            &w,
            n_blocks,
            workgroup_id_x() * comptime!(shape.rows()) + g,
            first + slot,
            t,
            comptime!(slot),
            comptime!(shape),
        );
    }
    let mut side = 0u32;
    for tile in (workgroup_id_x()..n_tiles).step_by(p.groups) {
        let after = min(tile + p.groups, n_tiles - 1);
        let mut sums = [0.0; comptime!(shape.tiles * 4)];
        for b in comptime!(0..shape.own()) {
            let slot = comptime!(b % shape.slots);
            let mut now = [0u32; comptime!(shape.held())];
            for i in comptime!(0..shape.held()) {
                now[i] = held[comptime!(slot * shape.held() + i)];
            }
            let next = comptime!(b + shape.slots);
            if comptime!(next < shape.own()) {
                ask(
                    &held,
                    &w,
                    n_blocks,
                    tile * comptime!(shape.rows()) + g,
                    first + next,
                    t,
                    comptime!(slot),
                    comptime!(shape),
                );
            } else {
                let wrapped = comptime!(next - shape.own());
                ask(
                    &held,
                    &w,
                    n_blocks,
                    after * comptime!(shape.rows()) + g,
                    first + wrapped,
                    t,
                    comptime!(slot),
                    comptime!(shape),
                );
            }
            subgroup_barrier();
            for s in comptime!(0..2) {
                step(&sums, &now, &x, (first + b) * 2 + s, t, comptime!(s), comptime!(shape));
            }
        }
        for a in comptime!(0..shape.tiles * 4) {
            let at = side + (subgroup_id() * comptime!(shape.tiles) + comptime!(a / 4)) * 128 + lane() * 4;
            shared[at + comptime!(a % 4)] = sums[a];
        }
        barrier();
        for j in comptime!(0..shape.sums().div_ceil(shape.invocations())) {
            let i = local_id() + comptime!(j * shape.invocations());
            if i < comptime!(shape.sums()) {
                let at = side + i;
                let mut total = 0.0;
                for s in comptime!(0..shape.subgroups) {
                    total += shared[at + comptime!(s * shape.sums())];
                }
                let (of_rows, e) = (i >> 7, i & 3);
                let (row, column) = ((i >> 4) & 7, ((i >> 2) & 3) * 2 + (e & 1));
                y[column * p.m + tile * comptime!(shape.rows()) + of_rows * 16 + row + (e >> 1) * 8] = total;
            }
        }
        side = n - side;
    }
}

/// Asks for block `b` of rows `row` and those 8, 16, ... behind.
#[device]
fn ask(
    held: &PlaceArray<u32, Local>,
    w: &Buf<u32>,
    n_blocks: u32,
    row: u32,
    b: u32,
    t: u32,
    #[comptime] slot: u32,
    #[comptime] shape: Shape,
) {
    let four = comptime!(w.view::<Vec4<u32>>());
    for half in comptime!(0..2 * shape.tiles) {
        let block = row * comptime!(shape.blocks) + b + comptime!(half * 8 * shape.blocks);
        let at = comptime!(slot * shape.held() + half * 13);
        let q0 = four[block * 8 + t];
        let q1 = four[block * 8 + t + 4];
        let sc = four[n_blocks * 8 + block];
        let d = w[n_blocks * 36 + block];
        held[at] = q0.x();
        held[at + 1] = q0.y();
        held[at + 2] = q0.z();
        held[at + 3] = q0.w();
        held[at + 4] = q1.x();
        held[at + 5] = q1.y();
        held[at + 6] = q1.z();
        held[at + 7] = q1.w();
        held[at + 8] = sc.x();
        held[at + 9] = sc.y();
        held[at + 10] = sc.z();
        held[at + 11] = sc.w();
        held[at + 12] = d;
    }
}

/// Adds the products of a step: four units.
#[device]
fn step(
    sums: &PlaceArray<f32, Local>,
    now: &PlaceArray<u32, Local>,
    x: &Buf<Vec4<u32>>,
    at: u32,
    t: u32,
    #[comptime] s: u32,
    #[comptime] shape: Shape,
) {
    let n = comptime!(shape.x_words());
    let mut xw = [0u32; 64];
    for i in comptime!(0..n) {
        let four = x[(at * n + i) * 32 + lane()];
        if comptime!(shape.halves) {
            xw[comptime!(4 * i)] = four.x();
            xw[comptime!(4 * i + 1)] = four.y();
            xw[comptime!(4 * i + 2)] = four.z();
            xw[comptime!(4 * i + 3)] = four.w();
        } else {
            xw[comptime!(8 * i)] = signed(four.x(), comptime!(0));
            xw[comptime!(8 * i + 1)] = signed(four.x(), comptime!(8));
            xw[comptime!(8 * i + 2)] = signed(four.y(), comptime!(0));
            xw[comptime!(8 * i + 3)] = signed(four.y(), comptime!(8));
            xw[comptime!(8 * i + 4)] = signed(four.z(), comptime!(0));
            xw[comptime!(8 * i + 5)] = signed(four.z(), comptime!(8));
            xw[comptime!(8 * i + 6)] = signed(four.w(), comptime!(0));
            xw[comptime!(8 * i + 7)] = signed(four.w(), comptime!(8));
        }
    }
    let one = comptime!(x.view::<u32>());
    let two = comptime!(x.view::<Vec2<f32>>());
    let behind = comptime!(shape.blocks * 2 * n * 32);
    let xs = one[(behind * 4) + at * 32 + lane()];
    let dx = two[(behind + comptime!(shape.blocks * 2 * 8)) * 2 + at * 4 + t];
    for tile in comptime!(0..shape.tiles) {
        let mut left = [0u32; 32];
        let mut mins = [0u32; 2];
        let mut ds = [0.0; 4];
        for half in comptime!(0..2) {
            let base = comptime!((2 * tile + half) * 13);
            let low = now[comptime!(base + 8 + 2 * s)];
            let high = now[comptime!(base + 9 + 2 * s)];
            let pair = select(t > 1, high, low) >> ((t & 1) * 16);
            let sc = pair & 63;
            mins[half] = (pair >> 8) & 63;
            let dd = unpack_half(now[comptime!(base + 12)]);
            ds[comptime!(2 * half)] = dd.x();
            ds[comptime!(2 * half + 1)] = dd.y() * -16777216.0;
            let scale = halves(((sc << 16) | sc) | 0x6400_6400) - splat::<Vec2<f16>>(1024.0);
            let sixteenth = scale * splat::<Vec2<f16>>(0.0625);
            let (base0, base1) = (scale * splat::<Vec2<f16>>(-1024.0), scale * splat::<Vec2<f16>>(-64.0));
            for j in comptime!(0..4) {
                let word = now[comptime!(base + 4 * s + j)];
                let behind = word >> 8;
                let at = comptime!(half * 16 + 4 * j);
                left[at] = words(fma(halves((word & 0x000f_000f) | 0x6400_6400), scale, base0));
                left[at + 1] = words(fma(halves((behind & 0x000f_000f) | 0x6400_6400), scale, base0));
                left[at + 2] = words(fma(halves((word & 0x00f0_00f0) | 0x6400_6400), sixteenth, base1));
                left[at + 3] = words(fma(halves((behind & 0x00f0_00f0) | 0x6400_6400), sixteenth, base1));
            }
        }
        let high = comptime!(product(&left, &xw, 0));
        let low = comptime!(product(&left, &xw, 16));
        let a = offset(mins[0], 0, mins[1], 0, xs);
        let b = offset(mins[0] << 16, 0, mins[1] << 16, 0, xs);
        for e in comptime!(0..4) {
            let all = fma(comptime!(part(high, e)), 128.0, comptime!(part(low, e)));
            let of = fma(comptime!(part(a, e)), 512.0, comptime!(part(b, e)));
            let d = ds[comptime!(e / 2 * 2)];
            let m = ds[comptime!(e / 2 * 2 + 1)];
            let both = fma(of, m, all * d);
            let own = comptime!(lane_d(dx, e));
            sums[comptime!(tile * 4 + e)] = fma(both, own, sums[comptime!(tile * 4 + e)]);
        }
    }
}

#[track_caller]
fn lane_d(dx: Ex<Vec2<f32>>, e: u32) -> Ex<f32> {
    if e % 2 == 0 { dx.x() } else { dx.y() }
}

#[track_caller]
fn part(v: Ex<Vec4<f32>>, e: u32) -> Ex<f32> {
    match e {
        0 => v.x(),
        1 => v.y(),
        2 => v.z(),
        _ => v.w(),
    }
}

#[device]
fn halves(word: u32) -> Vec2<f16> {
    bitcast::<Vec2<f16>, u32>(word)
}

#[device]
fn words(pair: Vec2<f16>) -> u32 {
    bitcast::<u32, Vec2<f16>>(pair)
}

#[device]
fn signed(word: u32, #[comptime] shift: u32) -> u32 {
    let bits = ((word >> shift) & 0x00ff_00ff) ^ 0x6480_6480;
    words(halves(bits) - splat::<Vec2<f16>>(1152.0))
}

#[device]
fn offset(a: u32, b: u32, c: u32, d: u32, x: u32) -> Vec4<f32> {
    dims!(M = 16, N = 8, K = 16);
    let left = Tile::<f16, MatA, Sg, M, K>::of_words(a, b, c, d);
    let right = Tile::<f16, MatB, Sg, K, N>::of_words(x, 0u32);
    fragment::sums(mul_add(left, right, Tile::<f32, Acc, Sg, M, N>::zero()))
}

#[track_caller]
fn product(left: &PlaceArray<u32, Local>, x: &PlaceArray<u32, Local>, from: u32) -> Ex<Vec4<f32>> {
    let at = |array: &PlaceArray<u32, Local>, i: u32| get(array, i);
    let mut factors = Vec::new();
    for j in 0..4 {
        for h in 0..2 {
            let l = [0, 1].map(|half| [0, 1].map(|p| at(left, half * 16 + 4 * j + 2 * h + p)));
            let r = [0, 1].map(|p| at(x, from + (4 * h + j) * 2 + p));
            factors.push(([l[0][0], l[0][1], l[1][0], l[1][1]], r));
        }
    }
    chained(&Chain(factors))
}

#[device]
fn get(array: &PlaceArray<u32, Local>, #[comptime] i: u32) -> u32 {
    array[i]
}

type Factors = ([Ex<u32>; 4], [Ex<u32>; 2]);
struct Chain(Vec<Factors>);

impl<'a> Read for &'a Chain {
    type Out = &'a Chain;
    fn read(&self) -> &'a Chain {
        self
    }
}

#[device]
fn chained(factors: &Chain) -> Vec4<f32> {
    dims!(M = 16, N = 8, K = 16);
    let mut acc = Tile::<f32, Acc, Sg, M, N>::zero();
    for i in comptime!(0..factors.0.len() as u32) {
        let (a, b) = comptime!(factors.0[i as usize]);
        let left = Tile::<f16, MatA, Sg, M, K>::of_words(
            comptime!(a[0]),
            comptime!(a[1]),
            comptime!(a[2]),
            comptime!(a[3]),
        );
        let right = Tile::<f16, MatB, Sg, K, N>::of_words(comptime!(b[0]), comptime!(b[1]));
        acc = mul_add(left, right, acc);
    }
    fragment::sums(acc)
}
