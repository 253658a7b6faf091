//! `y[t] = x[t] ⊕ x[t + T] ⊕ …` over T invocations: reads memory once, and as fast as memory gives it.
//!
//! The yardstick of profiles and of kernel timings: bytes of x over its time are what any other kernel can hope to read.
//!
//! Shapes: x `[groups, each, 256, 4]` u32, y `[groups, 256]` u32. A workgroup owns `each` rows of 256 vectors, an invocation
//! one vector of each row, eight of them on their way at once. Traffic: `16·each` bytes read for 4 written. Exact.

use kiln_abi::Kernel;
use kiln_dsl::prelude::*;

use crate::{
    Variant,
    conformance::{Buffer, Case, Expected, Random, u32_bytes},
};

/// Vectors that an invocation has on their way.
const AT_ONCE: u32 = 8;
const LOCAL_SIZE: u32 = 256;
/// Vectors of each invocation where the rate of memory is wanted.
const EACH: u32 = 64;

/// Push constants of `read_all`.
#[derive(Clone, Copy, Debug, Push)]
pub struct ReadPush {
    /// Workgroups.
    pub groups: u32,
    /// Vectors of an invocation, a multiple of 8.
    pub each: u32,
}

impl ReadPush {
    /// As much of `bytes` as whole workgroups read.
    pub fn within(bytes: u64) -> Self {
        let group = u64::from(LOCAL_SIZE * EACH) * 16;
        // Far below where the words of x, or the workgroups of a launch, could no longer be counted.
        ReadPush { groups: (bytes / group).min(16_384) as u32, each: EACH }
    }

    /// Bytes of x.
    pub fn bytes_read(&self) -> u64 {
        u64::from(self.groups) * u64::from(LOCAL_SIZE * self.each) * 16
    }

    /// Bytes of y.
    pub fn bytes_written(&self) -> u64 {
        u64::from(self.groups * LOCAL_SIZE) * 4
    }
}

/// The kernel.
#[kernel(local_size = LOCAL_SIZE, grid = p.groups)]
pub fn read_all(
    #[len(p.groups * p.each * LOCAL_SIZE)] x: &Buf<Vec4<u32>>,
    #[len(p.groups * LOCAL_SIZE)] y: &BufMut<u32>,
    #[push] p: ReadPush,
) {
    let mut sum = 0u32;
    let first = workgroup_id_x() * p.each * LOCAL_SIZE + local_id();
    for i in (0..p.each).step_by(AT_ONCE) {
        for j in comptime!(0..AT_ONCE) {
            let v = x[first + (i + j) * LOCAL_SIZE];
            sum ^= (v.x() ^ v.y()) ^ (v.z() ^ v.w());
        }
    }
    y[global_id_x()] = sum;
}

/// The kernel's one variant.
pub fn variants() -> Vec<Variant> {
    vec![Variant::new("read_all", ReadAll::new(), || [(1, 8), (3, 16)].map(case).into())]
}

fn case((groups, each): (u32, u32)) -> Case {
    let mut random = Random::new(groups.into());
    let words: Vec<u32> = (0..groups * each * LOCAL_SIZE * 4).map(|_| random.bits() as u32).collect();
    let of_group = words.chunks_exact((each * LOCAL_SIZE * 4) as usize);
    let sum = |group: &[u32], lane: usize| {
        let vectors = group.chunks_exact(4).skip(lane).step_by(LOCAL_SIZE as usize);
        vectors.flatten().fold(0, |sum, word| sum ^ word)
    };
    let expected: Vec<u32> =
        of_group.flat_map(|group| (0..LOCAL_SIZE as usize).map(move |lane| sum(group, lane))).collect();
    Case {
        name: format!("groups = {groups}, each = {each}"),
        buffers: vec![Buffer::Input(u32_bytes(&words)), Buffer::Output(4 * expected.len())],
        expected: vec![Expected::words(1, &expected)],
        bind: Box::new(move |r| {
            ReadAll::new().bind(&ReadAllArgs { x: r[0].into(), y: r[1].into(), p: ReadPush { groups, each } })
        }),
    }
}
