//! The twin of each kernel of `kernels.rs`: the same without its fault. Each stages.

use std::cell::Cell;

use kiln_dsl::prelude::*;

#[derive(Block)]
pub struct Four {
    q: [u16; 4],
}

#[kernel(local_size = 8, grid = 1)]
pub fn literals(y: &BufMut<u32>) {
    let a: u8 = 255;
    let b: i8 = -128;
    let c: u32 = 4294967295;
    let d: f16 = 65504.0;
    y[0] = a as u32 + b as u32 + c + d as u32;
}

#[kernel(local_size = 8, grid = 1)]
pub fn indices(w: &Buf<Four>, y: &BufMut<u32>) {
    let b = &w[0];
    let tile = Shared::<u32>::new(8);
    tile[7] = 1;
    let mut v = vec2(1, 2);
    v[1] = 3;
    let a = [1, 2, 3];
    y[0] = b.q[3] as u32 + v[1] + a[2];
}

#[kernel(local_size = 8, grid = 1)]
pub fn lengths(y: &BufMut<u32>) {
    let n = comptime!(4u32);
    let a = Shared::<u32>::new(n * 2);
    let b = [0u32; n];
    let c = Shared::<u32>::new(1);
    a[7] = 1;
    c[0] = 1;
    y[0] = b[3];
}

#[kernel(local_size = 8, grid = 1)]
pub fn arithmetic(y: &BufMut<u32>) {
    let one = comptime!(1u32);
    y[0] = 7 / one;
    y[1] = y[2] + 7 % one;
    y[2] = 1 << 31;
    y[3] = (-2147483647i32 / -1) as u32;
}

#[kernel(local_size = 8, grid = 1)]
pub fn sizes(y: &BufMut<u32>) {
    y[0] = bitcast::<u32, _>(vec2(y[0] as u16, y[1] as u16));
}

#[kernel(local_size = 32, grid = 1, subgroup = 16)]
pub fn clusters(y: &BufMut<u32>) {
    let n = y[0];
    y[1] = subgroup::cluster_add(n, 8);
    y[2] = subgroup::cluster_max(n, 16);
    y[3] = subgroup::cluster_min(n, comptime!(2u32.pow(2)));
}

pub struct Wide;

#[device]
impl TensorFormat for Wide {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let scale = u.small(1);
        let low = u.word(0, at);
        splat((scale + low) as f32)
    }
}

#[kernel(local_size = 8, grid = 1)]
pub fn planes(w: &Buf<u32>, y: &BufMut<f32>) {
    let units = w.len() / 5;
    let tensor = comptime!(Tensor::new::<Wide>(w, units));
    let unit = comptime!(tensor.unit(units));
    y[0] = Wide::decode(&unit, 3);
}

pub struct Beyond;

#[device]
impl TensorFormat for Beyond {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2), Plane::table(8)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let last = u.word(0, 3);
        let narrow = u.small(1);
        let entry = u.word(2, 7);
        splat((last + narrow + entry + u.word(0, at >> 3)) as f32)
    }
}

#[kernel(local_size = 8, grid = 1)]
pub fn plane_words(w: &Buf<u32>, y: &BufMut<f32>) {
    let units = w.len() / 5;
    let tensor = comptime!(Tensor::new::<Beyond>(w, units));
    let unit = comptime!(tensor.unit(units));
    let loaded = comptime!(tensor.unit(units).load());
    y[0] = Beyond::decode(&unit, 3) + Beyond::decode(&loaded, 3);
}

pub struct Planar;

#[device]
impl TensorFormat for Planar {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(4)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        let scale = u.word(1, 0);
        splat((scale + u.word(0, at >> 3)) as f32)
    }
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn captured(w: &Buf<u32>, y: &BufMut<f32>) {
    dims!(R = 16, C = 32);
    let units = w.len() / 5;
    let tensor = comptime!(Tensor::new::<Planar>(w, units));
    let all =
        through::rows::<Planar>(R, C, comptime!(kiln_abi::spirv::ClampMode::Undefined)).slice((0, R, 0, C));
    let tile = Tile::<f16, MatA, Sg, R, C>::load_decoded(comptime!(&tensor), all, comptime!(false));
    let zero = Tile::<f16, MatB, Sg, C, R>::zero();
    let sums = mul_add(tile, zero, Tile::<f32, Acc, Sg, R, R>::zero());
    tile::store(sums, y, 0, 16);
}

pub struct WideFirst;

#[device]
impl TensorFormat for WideFirst {
    const BLK: u32 = 32;
    const UNIT: u32 = 32;
    const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2)];

    fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
        splat((u.small(1) + at) as f32)
    }
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn first_plane(w: &Buf<u32>, y: &BufMut<f32>) {
    dims!(R = 16, C = 32);
    let tensor = comptime!(Tensor::new::<WideFirst>(w, 16u32.read()));
    let all = through::rows::<WideFirst>(R, C, comptime!(kiln_abi::spirv::ClampMode::Undefined))
        .slice((0, R, 0, C));
    let tile = Tile::<f16, MatA, Sg, R, C>::load_decoded(comptime!(&tensor), all, comptime!(false));
    let zero = Tile::<f16, MatB, Sg, C, R>::zero();
    let sums = mul_add(tile, zero, Tile::<f32, Acc, Sg, R, R>::zero());
    tile::store(sums, y, 0, 16);
}

#[kernel(local_size = 8, grid = 1)]
pub fn absent(#[when(n > 4)] x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32) {
    if comptime!(n > 4) {
        y[0] = x[1];
    }
    y[1] = n;
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn renamed(y: &BufMut<f32>) {
    dims!(TALL = 16, WIDE = 16, SHORT = 16);
    let sums = Tile::<f32, Acc, Sg, TALL, WIDE>::zero();
    let other = tile::renamed::<_, _, _, _, _, SHORT, WIDE>(sums);
    tile::store(other, y, 0, 16);
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn fragments(x: &Buf<u32>, y: &BufMut<Vec4<f32>>) {
    dims!(M = 16, N = 8, K = 16);
    let w = x[lane()];
    let a = Tile::<f16, MatA, Sg, M, K>::of_words(w, w, w, w);
    let b = Tile::<f16, MatB, Sg, K, N>::of_words(w, w);
    let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
    y[lane()] = fragment::sums(sums);
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn narrow_fragments(y: &BufMut<Vec4<f32>>) {
    dims!(M = 16, N = 8);
    y[global_id_x()] = fragment::sums(Tile::<f32, Acc, Sg, M, N>::zero());
}

#[kernel(local_size = 8, grid = 1)]
pub fn reuses(y: &BufMut<u32>) {
    let a = Shared::<u32>::new(9);
    a[local_id()] = 1;
    let b = a.reuse(9);
    b[local_id()] = 2;
    let c = b.reuse_as::<f32>(8);
    c[local_id()] = 2.0;
    y[0] = 1;
}

#[kernel(local_size = 32, subgroup = 32, grid = 1)]
pub fn overlays(y: &BufMut<u32>) {
    let pairs = Shared::<u32>::new(32).reuse_as::<Vec2<f16>>(32);
    pairs[lane()] = vec2(1.0, pairs[lane()].y());
    let threes = Shared::<Vec3<f32>>::new(8).reuse_as::<Vec3<u32>>(8);
    threes[lane() / 4] = vec3(1, 2, 3);
    let wide = Shared::<u32>::new(32).reuse_as::<u32>(32);
    y[0] = atomic::add(&wide[0], 1);
    dims!(R = 8, C = 8);
    let parts = Shared::<Vec4<f32>>::new(16).reuse_as::<Vec4<f32>>(16);
    tile::store(Tile::<f32, Acc, Sg, R, C>::zero(), &parts, 0, 2);
}

#[kernel(local_size = 8, grid = 1)]
pub fn steps(y: &BufMut<u32>) {
    for i in (0..8).step_by(1) {
        y[i] = 1;
    }
    for i in (0..8i32).step_by(2) {
        y[i as u32] = 1;
    }
}

#[device]
fn sized(y: &BufMut<u32>, #[comptime] n: u32) {
    dims!(ROWS = n);
    y[0] = ROWS;
}

#[kernel(local_size = 8, grid = 1)]
pub fn dimensions(y: &BufMut<u32>) {
    sized(&y, comptime!(4));
    sized(&y, comptime!(4));
    dims!(COLS = 2);
    y[1] = comptime!(dim::<COLS>());
}

#[kernel(local_size = 8, grid = 1)]
pub fn host_jump(y: &BufMut<u32>) {
    if y[0] > 1 {
        y[1] = 2;
        return;
    }
}

#[device]
fn finite(n: u32, #[comptime] depth: u32) -> u32 {
    if comptime!(depth > 0) { finite(n - 1, comptime!(depth - 1)) + n } else { n }
}

#[kernel(local_size = 8, grid = 1)]
pub fn recursion(y: &BufMut<u32>) {
    y[0] = finite(y[1], comptime!(40));
}

#[kernel(local_size = 8, grid = 1)]
pub fn mutual_recursion(y: &BufMut<u32>) {
    y[0] = finite(y[1], comptime!(1));
}

#[kernel(local_size = 8, grid = 1)]
pub fn unreachable(y: &BufMut<u32>) {
    for i in 0..4 {
        if i == y[i] {
            y[i] = 1;
            break;
        }
    }
    y[0] = 1;
    return;
}

#[kernel(local_size = 8, grid = 1)]
pub fn after_loop(y: &BufMut<u32>) {
    let mut i = 0;
    loop {
        i += 1;
        if i == 4 {
            break;
        }
    }
    y[0] = i;
}

#[kernel(local_size = 8, grid = 1)]
pub fn escape(y: &BufMut<u32>) {
    let first = y[0];
    let kept = comptime!(Cell::new(first));
    let inner = y[1];
    comptime!(kept.set(inner));
    if y[0] > 1 {
        y[3] = inner;
    }
    let outer = comptime!(kept.get());
    y[2] = outer + 1;
}

#[kernel(local_size = 8, grid = 1)]
pub fn unused(x: &Buf<u32>, y: &BufMut<u32>) {
    y[0] = x[1];
}

#[derive(Push)]
pub struct Count {
    n: u32,
}

#[kernel(local_size = 64, grid = 1)]
pub fn barrier_in_branch(y: &BufMut<u32>, #[push] p: Count) {
    if local_id() < 64 {
        barrier();
    }
    if p.n > 4 && workgroup_id_x() < p.n {
        y[0] = 1;
    } else {
        barrier();
    }
    // Loaded data may be the same for all.
    if y[3] == 1 {
        barrier();
    }
}

#[kernel(local_size = 64, grid = 1)]
pub fn barrier_after_return(y: &BufMut<u32>, #[push] p: Count) {
    if workgroup_id_x() * 64 + local_id() / 64 >= p.n {
        return;
    }
    barrier();
    if global_id_x() >= p.n {
        return;
    }
    y[0] = 1;
}

#[kernel(local_size = 64, grid = 1)]
pub fn barrier_in_loop(y: &BufMut<u32>, #[push] p: Count) {
    for start in (0..p.n).step_by(64) {
        barrier();
        if start + local_id() < p.n {
            y[start + local_id()] = 1;
        }
    }
    let mut half: u32 = 32;
    while half > 0 {
        barrier();
        if local_id() == p.n {
            half = half / 2;
            continue;
        }
        half = half / 2;
    }
    barrier();
}

#[kernel(local_size = 64, subgroup = 32, grid = 1)]
pub fn subgroup_in_branch(y: &BufMut<u32>, #[push] p: Count) {
    if subgroup_id() + local_id() / 32 < p.n {
        y[0] = subgroup::add(y[1]);
        subgroup_barrier();
    }
    let total = subgroup::add(y[1]);
    if subgroup::elect() {
        y[2] = total;
    }
}

#[kernel(local_size = [64, 8], grid = 1, invocations = 512)]
pub fn many_invocations(y: &BufMut<u32>) {
    y[local_id()] = 1;
}

#[kernel(local_size = 64, grid = 1, workgroup_bytes = 16388)]
pub fn much_memory(y: &BufMut<u32>) {
    let a = Shared::<u32>::new(2048);
    let b = Shared::<u32>::new(2049);
    a[0] = 1;
    b[0] = 1;
    y[0] = 1;
}

#[kernel(local_size = 64, grid = 1, requires = [
    Float16, StorageBuffer16BitAccess, GroupNonUniform, GroupNonUniformArithmetic, DotProduct,
    DotProductInput4x8BitPacked,
])]
pub fn beyond_the_arm(x: &Buf<f16>, y: &BufMut<u32>) {
    let lanes = subgroup_size();
    y[0] = dot4_i8(y[1], y[2]) as u32 + (x[0] + x[1]) as u32;
    y[1] = subgroup::add(lanes);
}
