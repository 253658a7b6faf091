//! Control twins of the fixtures about structs: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("block_generic", || block_generic::Case::new().stage()),
        ("block_tuple", || block_tuple::Case::new().stage()),
        ("block_empty", || block_empty::Case::new().stage()),
        ("block_enum", || block_enum::Case::new().stage()),
        ("block_bool", || block_bool::Case::new().stage()),
        ("block_wide_integer", || block_wide_integer::Case::new().stage()),
        ("block_in_block", || block_in_block::Case::new().stage()),
        ("push_half", || push_half::Case::new().stage()),
        ("push_wide_integer", || push_wide_integer::Case::new().stage()),
        ("push_array", || push_array::Case::new().stage()),
        ("push_too_large", || push_too_large::Case::new().stage()),
        ("push_tuple", || push_tuple::Case::new().stage()),
        ("push_without_derive", || push_without_derive::Case::new().stage()),
        ("block_without_derive", || block_without_derive::Case::new().stage()),
        ("buffer_of_bool", || buffer_of_bool::Case::new().stage()),
        ("field_unknown", || field_unknown::Case::new().stage()),
        ("block_by_value", || block_by_value::Case::new().stage()),
        ("push_field_unknown", || push_field_unknown::Case::new().stage()),
        ("block_nested_array", || block_nested_array::Case::new().stage()),
        ("push_byte", || push_byte::Case::new().stage()),
    ]
}

pub mod block_generic {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_tuple {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_empty {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_enum {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_bool {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_wide_integer {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_in_block {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod push_half {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod push_wide_integer {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod push_array {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod push_too_large {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod push_tuple {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod push_without_derive {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod block_without_derive {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod buffer_of_bool {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<u32>, y: &BufMut<f32>) {
        y[0] = if w[0] != 0 { 1.0 } else { 0.0 };
    }
}

pub mod field_unknown {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod block_by_value {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pair {
        a: f16,
        q: [u16; 4],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pair>, y: &BufMut<f32>) {
        let b = &w[1];
        y[0] = (b.a as f32) + (b.q[3] as f32);
    }
}

pub mod push_field_unknown {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
        m: i32,
        s: f32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[p.n] = p.s + (p.m as f32);
    }
}

pub mod block_nested_array {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Pairs {
        q: [u16; 8],
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(w: &Buf<Pairs>, y: &BufMut<f32>) {
        y[0] = w[0].q[3] as f32;
    }
}

pub mod push_byte {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>, #[push] p: Numbers) {
        y[0] = p.n;
    }
}
