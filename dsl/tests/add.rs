//! The smallest kernel, end to end: a function in, words and a launch out.

use kiln_abi::{Access, BufferId, Grid, Kernel};
use kiln_dsl::prelude::*;

/// Push constants of [`Add`].
#[derive(Push, Clone, Copy)]
pub struct AddPush {
    /// Elements.
    pub n: u32,
}

/// `y = a + b`.
#[kernel(local_size = 256, grid = p.n.div_ceil(256))]
pub fn add(
    #[len(p.n)] a: &Buf<f32>,
    #[len(p.n)] b: &Buf<f32>,
    #[len(p.n)] y: &BufMut<f32>,
    #[push] p: AddPush,
) {
    let i = global_id_x();
    if i < p.n {
        y[i] = a[i] + b[i];
    }
}

fn args(n: u32) -> AddArgs {
    let range = |id| BufferRef::new(BufferId(id), 0, 4000);
    AddArgs { a: range(1), b: range(2), y: range(3), p: AddPush { n } }
}

#[test]
fn layout_follows_from_the_function() {
    let staged = Add::new().stage().unwrap();
    assert_eq!(staged.name, "add");
    assert_eq!(staged.words[0], kiln_abi::spirv::MAGIC);
    let access: Vec<_> =
        staged.layout.bindings.iter().map(|b| (b.name.as_str(), b.index, b.access)).collect();
    assert_eq!(access, [("a", 0, Access::Read), ("b", 1, Access::Read), ("y", 2, Access::Write)]);
    assert_eq!(staged.layout.push[0].name, "n");
    assert_eq!(staged.layout.local_size, [256, 1, 1]);
}

#[test]
fn staging_is_the_same_on_every_thread() {
    let here = Add.stage().unwrap();
    let there = std::thread::spawn(|| Add.stage().unwrap()).join().unwrap();
    assert_eq!(here, there);
}

#[test]
fn contracts_are_counted_on_the_host() {
    let bound = Add.bind(&args(1000));
    assert_eq!(bound.grid, Grid([4, 1, 1]));
    assert_eq!(bound.needed_bytes, [Some(4000); 3]);
    assert_eq!(bound.push, 1000u32.to_ne_bytes());
    assert_eq!(Add.bind(&args(u32::MAX)).needed_bytes, [Some(4 * u64::from(u32::MAX)); 3]);
}

/// A tile, known while staging.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Invocations along x and y.
    pub size: [u32; 2],
    /// The subgroup size, if it matters.
    pub lanes: Option<u32>,
}

/// `y = x` in any element type, `N` times.
#[kernel(
    local_size = t.size,
    subgroup = t.lanes,
    grid = [p.n / (t.size[0] * N), 2 + p.n % 7],
)]
pub fn copy_all<T: Num + Elem, const N: u32>(
    #[len((p.n - 1) * t.size[1])] x: &Buf<T>,
    y: &BufMut<T>,
    #[push] p: AddPush,
    #[comptime] t: Tile,
) where
    T: Copy,
{
    for i in comptime!(0..N) {
        let at = global_id_x() * N + i;
        if at < p.n {
            y[at] = x[at] + x[0];
        }
    }
}

#[test]
fn options_follow_the_comptime_parameters() {
    let tile = Tile { size: [8, 4], lanes: Some(16) };
    let kernel = CopyAll::<u16, 3>::new(tile);
    let staged = kernel.stage().unwrap();
    assert_eq!(staged.name, "copy_all<u16, 3>(t: Tile { size: [8, 4], lanes: Some(16) })");
    assert_eq!((staged.layout.local_size, staged.layout.subgroup_size), ([8, 4, 1], Some(16)));
    assert_eq!(staged.layout.bindings[0].elem_bytes, 2);
    let none = CopyAll::<f32, 1>::new(Tile { lanes: None, ..tile }).stage().unwrap();
    assert_eq!((none.layout.subgroup_size, none.layout.bindings[0].elem.as_str()), (None, "f32"));

    let args = |n| {
        let range = |id| BufferRef::new(BufferId(id), 0, 64);
        CopyAllArgs { x: range(1), y: range(2), p: AddPush { n } }
    };
    let bound = kernel.bind(&args(100));
    assert_eq!((bound.grid, bound.needed_bytes), (Grid([4, 4, 1]), vec![Some(99 * 4 * 2), None]));
    assert_eq!(kernel.bind(&args(0)).needed_bytes[0], Some(0), "a difference does not wrap");
}

/// `y = x` where both have a contract.
#[kernel(local_size = 64, checked = wary, grid = p.n.div_ceil(64))]
pub fn copy_known(
    #[len(p.n)] x: &Buf<f32>,
    #[len(p.n)] y: &BufMut<f32>,
    #[push] p: AddPush,
    #[comptime] wary: bool,
) {
    if global_id_x() < p.n {
        y[global_id_x()] = x[global_id_x()];
    }
}

#[test]
fn a_driver_checks_what_no_launch_does_and_what_it_is_asked_to() {
    fn checked(kernel: &impl Kernel) -> bool {
        kernel.stage().unwrap().layout.checked
    }
    assert!(!checked(&CopyKnown::new(false)));
    assert!(checked(&CopyKnown::new(true)));
    // A buffer of it has no contract.
    assert!(checked(&CopyAll::<f32, 1>::new(Tile { size: [8, 4], lanes: None })));
}
