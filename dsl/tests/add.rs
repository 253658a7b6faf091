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
