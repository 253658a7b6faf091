//! Kernels with faults that only staging can see, and the twin of each.
//!
//! A line that ends in `//~ CODE token` holds an error at the column where `token` first stands in it.

use kiln_abi::{Kernel, StageErrors, StagedKernel};

use crate::twins as good;

/// What is wrong with each kernel here is known only while it is staged.
#[rustfmt::skip]
#[expect(unreachable_code, unused_variables, reason = "among the faults")]
mod bad {
    use std::cell::Cell;

    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Four {
        q: [u16; 4],
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn literals(y: &BufMut<u32>) {
        let a: u8 = 256; //~ E100 256
        let b: i8 = -129; //~ E100 -129
        let c: u32 = -1; //~ E100 -1
        let d: f16 = 70000.0; //~ E100 70000
        y[0] = a as u32 + b as u32 + c + d as u32;
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn indices(w: &Buf<Four>, y: &BufMut<u32>) {
        let b = &w[0];
        let tile = Shared::<u32>::new(8);
        tile[8] = 1; //~ E101 tile[8]
        let mut v = vec2(1, 2);
        v[2] = 3; //~ E101 v[2]
        let a = [1, 2, 3];
        y[0] = b.q[4] as u32 + v[1] + a[3]; //~ E101 b.q[4], E101 a[3]
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn lengths(y: &BufMut<u32>) {
        let n = y[0];
        let a = Shared::<u32>::new(n); //~ E103 Shared
        let b = [0u32; n]; //~ E103 [0u32
        let c = Shared::<u32>::new(0); //~ E102 Shared
        a[0] = 1;
        c[0] = 1;
        y[0] = b[0];
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn arithmetic(y: &BufMut<u32>) {
        let zero = comptime!(0u32);
        y[0] = 7 / zero; //~ E030 /
        y[1] = y[2] + 7 % zero; //~ E030 %
        y[2] = 1 << 32; //~ E032 <<
        y[3] = (-2147483648i32 / -1) as u32; //~ E031 /
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn sizes(y: &BufMut<u32>) {
        y[0] = bitcast::<u32, _>(vec2(y[0], y[1])); //~ E106 bitcast
    }

    #[kernel(local_size = 32, grid = 1, subgroup = 8)]
    pub fn clusters(y: &BufMut<u32>) {
        let n = y[0];
        y[1] = subgroup::cluster_add(n, 6); //~ E114 subgroup
        y[2] = subgroup::cluster_max(n, 16); //~ E114 subgroup
        y[3] = subgroup::cluster_min(n, n); //~ E103 subgroup
    }

    pub struct Wide;

    #[device]
    impl TensorFormat for Wide {
        const BLK: u32 = 32;
        const UNIT: u32 = 32;
        const PLANES: &'static [Plane] = &[Plane::unit(16), Plane::unit(2)];

        fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
            let scale = u.small(2); //~ E104 small
            let low = u.word(u.small(1), at); //~ E104 word
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
            let last = u.word(0, 4); //~ E104 word
            let narrow = u.word(1, 0); //~ E104 word
            let entry = u.word(2, 8); //~ E104 word
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
            let scale = u.word(1, 0); //~ E022 word
            splat((scale + u.word(0, at >> 3)) as f32)
        }
    }

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn captured(w: &Buf<u32>, y: &BufMut<f32>) {
        dims!(R = 16, C = 32);
        let units = w[0];
        let tensor = comptime!(Tensor::new::<Planar>(w, units));
        let all = through::rows::<Planar>(R, C, comptime!(kiln_abi::spirv::ClampMode::Undefined)).slice((0, R, 0, C));
        let tile = Tile::<f16, MatA, Sg, R, C>::load_decoded(comptime!(&tensor), all, comptime!(false));
        let zero = Tile::<f16, MatB, Sg, C, R>::zero();
        let sums = mul_add(tile, zero, Tile::<f32, Acc, Sg, R, R>::zero());
        tile::store(sums, y, 0, 16);
    }

    pub struct SmallFirst;

    #[device]
    impl TensorFormat for SmallFirst {
        const BLK: u32 = 32;
        const UNIT: u32 = 32;
        const PLANES: &'static [Plane] = &[Plane::unit(2), Plane::unit(16)];

        fn decode4(u: &Unit, at: u32) -> Vec4<f32> {
            splat((u.small(0) + at) as f32)
        }
    }

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn first_plane(w: &Buf<u32>, y: &BufMut<f32>) {
        dims!(R = 16, C = 32);
        let tensor = comptime!(Tensor::new::<SmallFirst>(w, 16u32.read()));
        let all = through::rows::<SmallFirst>(R, C, comptime!(kiln_abi::spirv::ClampMode::Undefined)).slice((0, R, 0, C));
        let tile = Tile::<f16, MatA, Sg, R, C>::load_decoded(comptime!(&tensor), all, comptime!(false)); //~ E131 Tile
        let zero = Tile::<f16, MatB, Sg, C, R>::zero();
        let sums = mul_add(tile, zero, Tile::<f32, Acc, Sg, R, R>::zero());
        tile::store(sums, y, 0, 16);
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn absent(#[when(n > 4)] x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32) {
        y[0] = x[1]; //~ E010 x[1], E013 x[1]
        y[1] = n;
    }

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn renamed(y: &BufMut<f32>) {
        dims!(TALL = 16, WIDE = 16, SHORT = 8);
        let sums = Tile::<f32, Acc, Sg, TALL, WIDE>::zero();
        let other = tile::renamed::<_, _, _, _, _, SHORT, WIDE>(sums); //~ E130 tile
        tile::store(other, y, 0, 16);
    }

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn fragments(x: &Buf<u32>, y: &BufMut<Vec4<f32>>) {
        dims!(M = 16, N = 16, K = 16);
        let w = x[lane()];
        let a = Tile::<f16, MatA, Sg, M, K>::of_words(w, w, w, w);
        let b = Tile::<f16, MatB, Sg, K, N>::of_words(w, w); //~ E132 Tile
        let sums = mul_add(a, b, Tile::<f32, Acc, Sg, M, N>::zero());
        y[lane()] = fragment::sums(sums); //~ E132 fragment
    }

    #[kernel(local_size = 32, subgroup = 16, grid = 1)]
    pub fn narrow_fragments(y: &BufMut<Vec4<f32>>) {
        dims!(M = 16, N = 8);
        y[global_id_x()] = fragment::sums(Tile::<f32, Acc, Sg, M, N>::zero()); //~ E133 fragment
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn reuses(y: &BufMut<u32>) {
        let a = Shared::<u32>::new(8);
        a[local_id()] = 1;
        let b = a.reuse(9); //~ E113 reuse
        b[local_id()] = 2;
        let c = b.reuse_as::<f16>(8); //~ E115 reuse_as
        c[local_id()] = 2.0;
        y[0] = 1;
    }

    #[kernel(local_size = 32, subgroup = 32, grid = 1)]
    pub fn overlays(y: &BufMut<u32>) {
        let pairs = Shared::<u32>::new(32).reuse_as::<Vec2<f16>>(32);
        pairs[lane()][0] = 1.0; //~ E118 pairs
        let threes = pairs.reuse_as::<Vec3<u32>>(8); //~ E115 reuse_as
        let wide = Shared::<u16>::new(64).reuse_as::<u32>(32);
        y[0] = atomic::add(&wide[0], 1); //~ E116 atomic
        dims!(R = 8, C = 8);
        let parts = Shared::<Vec4<f32>>::new(16).reuse_as::<f32>(65); //~ E113 reuse_as
        tile::store(Tile::<f32, Acc, Sg, R, C>::zero(), &parts, 0, 8); //~ E117 tile
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn steps(y: &BufMut<u32>) {
        for i in (0..8).step_by(0) { //~ E107 for
            y[i] = 1;
        }
        for i in (0..8i32).step_by(-2) { //~ E107 for
            y[i as u32] = 1;
        }
    }

    #[device]
    fn sized(y: &BufMut<u32>, #[comptime] n: u32) {
        dims!(ROWS = n); //~ E108 ROWS
        y[0] = ROWS;
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn dimensions(y: &BufMut<u32>) {
        sized(&y, comptime!(4));
        sized(&y, comptime!(8));
        y[1] = comptime!(dim::<COLS>()); //~ E109 dim
        dims!(COLS = 2);
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn host_jump(y: &BufMut<u32>) { //~ E110 host_jump
        if y[0] > 1 {
            y[1] = 2;
            comptime!(return);
        }
    }

    #[device]
    fn forever(n: u32) -> u32 { //~ E111 forever
        if n > 0 { forever(n - 1) + forever(n) } else { n }
    }

    #[device]
    fn ping(n: u32) -> u32 { //~ E111 ping
        pong(n)
    }

    #[device]
    fn pong(n: u32) -> u32 {
        ping(n)
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn recursion(y: &BufMut<u32>) {
        y[0] = forever(y[1]);
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn mutual_recursion(y: &BufMut<u32>) {
        y[0] = ping(y[1]);
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn unreachable(y: &BufMut<u32>) {
        for i in 0..4 {
            if i == y[i] {
                break;
                y[i] = 1; //~ E021 y[i]
            }
        }
        return;
        y[0] = 1; //~ E021 y[0]
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn after_loop(y: &BufMut<u32>) {
        let mut i: u32 = 0;
        loop {
            i += 1;
        }
        y[0] = 1; //~ E021 y[0]
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn escape(y: &BufMut<u32>) {
        let first = y[0];
        let kept = comptime!(Cell::new(first));
        if first > 1 {
            let inner = y[1];
            comptime!(kept.set(inner));
        }
        let outer = comptime!(kept.get());
        y[2] = outer + 1; //~ E022 +
    }

    #[kernel(local_size = 8, grid = 1)]
    pub fn unused(x: &Buf<u32>, y: &BufMut<u32>) { //~ V063 x:
        y[0] = 1;
    }

    #[derive(Push)]
    pub struct Count {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn barrier_in_branch(y: &BufMut<u32>, #[push] p: Count) {
        if local_id() < 32 {
            barrier(); //~ V054 barrier
        }
        if p.n > 4 && global_id_x() < p.n {
            y[0] = 1;
        } else {
            barrier(); //~ V054 barrier
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn barrier_after_return(y: &BufMut<u32>, #[push] p: Count) {
        let i = global_id_x();
        if i >= p.n {
            return;
        }
        barrier(); //~ V054 barrier
        y[i] = 1;
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn barrier_in_loop(y: &BufMut<u32>, #[push] p: Count) {
        for i in (local_id()..p.n).step_by(64) {
            barrier(); //~ V054 barrier
            y[i] = 1;
        }
        loop {
            barrier(); //~ V054 barrier
            if local_id() > y[0] + 3 {
                break;
            }
            if local_id() == p.n {
                break;
            }
        }
    }

    #[kernel(local_size = 64, subgroup = 32, grid = 1)]
    pub fn subgroup_in_branch(y: &BufMut<u32>, #[push] p: Count) {
        if lane() < p.n {
            y[0] = subgroup::add(y[1]); //~ V055 subgroup::
            subgroup_barrier(); //~ V054 subgroup_barrier
        }
        if subgroup::elect() {
            y[2] = subgroup::shuffle(y[1], 3); //~ V055 subgroup::
        }
    }

    #[kernel(local_size = [64, 8], grid = 1)] //~ E112 [64
    pub fn many_invocations(y: &BufMut<u32>) {
        y[local_id()] = 1;
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn much_memory(y: &BufMut<u32>) {
        let a = Shared::<u32>::new(2048);
        let b = Shared::<u32>::new(2049); //~ V067 Shared
        a[0] = 1;
        b[0] = 1;
        y[0] = 1;
    }

    #[kernel(local_size = 64, grid = 1, requires = [Float16, StorageBuffer16BitAccess])]
    pub fn beyond_the_arm(x: &Buf<f16>, y: &BufMut<u32>) {
        let lanes = subgroup_size(); //~ V068 subgroup_size
        y[0] = dot4_i8(y[1], y[2]) as u32 + (x[0] + x[1]) as u32; //~ V068 dot4_i8
        y[1] = subgroup::add(lanes); //~ V068 subgroup::
    }
}

pub type Staged = Result<StagedKernel, StageErrors>;

macro_rules! pairs {
    ($($name:ident)*) => { vec![$((stringify!($name), bad::$name.stage(), good::$name.stage())),*] };
}

/// Name, the kernel with the fault staged, its twin staged.
pub fn staged() -> Vec<(&'static str, Staged, Staged)> {
    let mut all = pairs! {
        Literals Indices Lengths Arithmetic Sizes Steps Dimensions HostJump Recursion MutualRecursion Unreachable AfterLoop
        Escape Unused Clusters Reuses BarrierInBranch BarrierAfterReturn BarrierInLoop SubgroupInBranch ManyInvocations MuchMemory
        BeyondTheArm Overlays Planes PlaneWords Renamed Captured FirstPlane
        Fragments NarrowFragments
    };
    all.push(("Absent", bad::Absent::new(4).stage(), good::Absent::new(4).stage()));
    all
}
