//! Errors found while staging: code, line and column, all of a kernel at once; and the twin of each that stages.
//!
//! A line that ends in `//~ CODE token` holds an error at the column where `token` first stands in it.

use std::collections::BTreeSet;

use kiln_abi::{Kernel, StageErrors, StagedKernel};

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
        y[1] = subgroup::cluster_add(n, 6); //~ E112 subgroup
        y[2] = subgroup::cluster_max(n, 16); //~ E112 subgroup
        y[3] = subgroup::cluster_min(n, n); //~ E103 subgroup
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
}

/// The same kernels without the fault.
mod good {
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
}

type Staged = Result<StagedKernel, StageErrors>;

macro_rules! pairs {
    ($($name:ident)*) => { vec![$((stringify!($name), bad::$name.stage(), good::$name.stage())),*] };
}

fn staged() -> Vec<(&'static str, Staged, Staged)> {
    pairs! {
        Literals Indices Lengths Arithmetic Sizes Steps Dimensions HostJump Recursion MutualRecursion Unreachable
        Escape Unused Clusters
    }
}

#[test]
fn errors_stand_at_the_users_token_all_at_once() {
    let mut expected = BTreeSet::new();
    for (line, text) in (1u32..).zip(include_str!("staging.rs").lines()) {
        let Some((code, marks)) = text.split_once("//~ ") else { continue };
        if code.trim().is_empty() || code.contains('"') || code.starts_with("//!") {
            continue;
        }
        for mark in marks.split(", ") {
            let (id, token) = mark.split_once(' ').unwrap();
            let column = code.find(token).unwrap_or_else(|| panic!("line {line} has no `{token}`")) + 1;
            expected.insert((line, u32::try_from(column).unwrap(), id.to_owned()));
        }
    }
    let mut found = BTreeSet::new();
    for (name, bad, _) in staged() {
        let errors = bad.err().unwrap_or_else(|| panic!("{name} stages")).errors;
        for e in errors {
            assert!(e.at.file.ends_with("staging.rs"), "{e}");
            found.insert((e.at.line, e.at.column, e.code.to_owned()));
        }
    }
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

#[test]
fn every_code_of_the_language_has_a_fixture() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl/src");
    let texts =
        std::fs::read_dir(sources).unwrap().map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap());
    let codes: BTreeSet<String> = texts
        .flat_map(|text| text.split('"').map(str::to_owned).collect::<Vec<_>>())
        .filter(|s| s.len() == 4 && s.starts_with('E') && s[1..].chars().all(|c| c.is_ascii_digit()))
        .collect();
    let shown: BTreeSet<String> = staged()
        .into_iter()
        .filter_map(|(_, bad, _)| bad.err())
        .flat_map(|e| e.errors)
        .map(|e| e.code.to_owned())
        .collect();
    assert!(codes.len() > 8, "{codes:?}");
    assert!(codes.is_subset(&shown), "without a fixture: {:?}", codes.difference(&shown));
}

#[test]
fn the_twins_stage() {
    for (name, _, good) in staged() {
        if let Err(errors) = good {
            panic!("{name}: {errors}");
        }
    }
}
