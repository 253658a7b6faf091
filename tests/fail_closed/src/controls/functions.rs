//! Control twins of the fixtures about functions: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("comptime_from_value", || comptime_from_value::Case::new().stage()),
        ("argument_type", || argument_type::Case::new().stage()),
        ("result_type", || result_type::Case::new().stage()),
        ("host_function_called", || host_function_called::Case::new().stage()),
        ("generic_without_bound", || generic_without_bound::Case::new().stage()),
        ("format_without_decode", || {
            format_without_decode::Case::<format_without_decode::One>::new().stage()
        }),
        ("not_a_format", || not_a_format::Case::<not_a_format::One>::new().stage()),
        ("block_of_other_format", || {
            block_of_other_format::Case::<block_of_other_format::One>::new().stage()
        }),
        ("argument_of_other_format", || {
            argument_of_other_format::Case::<argument_of_other_format::One>::new().stage()
        }),
        ("choice_of_blocks", || choice_of_blocks::Case::<choice_of_blocks::One>::new().stage()),
        ("device_returns_wide", || device_returns_wide::Case::new().stage()),
        ("decode_wide_index", || decode_wide_index::Case::<decode_wide_index::One>::new().stage()),
        ("decode_result_type", || decode_result_type::Case::<decode_result_type::One>::new().stage()),
        ("decode4_result_type", || decode4_result_type::Case::<decode4_result_type::One>::new().stage()),
    ]
}

pub mod comptime_from_value {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32, #[comptime] n: u32) -> f32 {
        a * (n as f32)
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i], comptime!(4));
    }
}

pub mod argument_type {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> f32 {
        a
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod result_type {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> u32 {
        a as u32
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]) as f32;
    }
}

pub mod host_function_called {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> f32 {
        a
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod generic_without_bound {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper<T: Arith>(a: T) -> T {
        a + a
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod format_without_decode {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct OneBlock {
        d: f32,
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = OneBlock;
        const BLK: u32 = 1;
        fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
            b.d
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 0);
    }
}

pub mod not_a_format {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct OneBlock {
        d: f32,
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = OneBlock;
        const BLK: u32 = 1;
        fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
            b.d
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 0);
    }

    pub fn chosen() -> Case<One> {
        Case::new()
    }
}

pub mod block_of_other_format {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct OneBlock {
        d: f32,
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = OneBlock;
        const BLK: u32 = 1;
        fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
            b.d
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 0);
    }
}

pub mod argument_of_other_format {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct OneBlock {
        d: f32,
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = OneBlock;
        const BLK: u32 = 1;
        fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
            b.d
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 0);
    }

    pub fn right(w: BufferRef<OneBlock>, y: BufferRef<f32>) -> CaseArgs<One> {
        CaseArgs { w, y }
    }
}

pub mod choice_of_blocks {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct OneBlock {
        d: f32,
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = OneBlock;
        const BLK: u32 = 1;
        fn decode<R: Rail>(b: &BlockRef<OneBlock, R>, _at: u32) -> f32 {
            b.d
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[if local_id() > 2 { 0 } else { 1 }], 0);
    }
}

pub mod device_returns_wide {
    use kiln_dsl::prelude::*;

    #[device]
    fn wide(n: u32) -> u32 {
        n as u32
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>) {
        y[0] = wide(3) as u32;
    }
}

pub mod decode_wide_index {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Eight {
        d: f16,
        q: [u16; 4],
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = Eight;
        const BLK: u32 = 8;
        fn decode<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> f32 {
            b.d as f32 * b.q[at & 3] as f32
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 1);
    }
}

pub mod decode_result_type {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Eight {
        d: f16,
        q: [u16; 4],
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = Eight;
        const BLK: u32 = 8;
        fn decode<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> f32 {
            b.d as f32 * b.q[at & 3] as f32
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 1);
    }
}

pub mod decode4_result_type {
    use kiln_dsl::prelude::*;

    #[derive(Block)]
    pub struct Eight {
        d: f16,
        q: [u16; 4],
    }

    pub struct One;

    #[device]
    impl QuantFormat for One {
        type Block = Eight;
        const BLK: u32 = 8;
        fn decode<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> f32 {
            b.d as f32 * b.q[at & 3] as f32
        }
        fn decode4<R: Rail>(b: &BlockRef<Eight, R>, at: u32) -> Vec4<f32> {
            let d = b.d as f32;
            vec4(d, d, d, d)
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case<F: QuantFormat>(w: &Buf<F::Block>, y: &BufMut<f32>) {
        y[0] = F::decode(&w[0], 1);
    }
}
