//! Control twins of the fixtures about signatures: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("early_return", || early_return::Case::new().stage()),
        ("device_async", || device_async::Case::new().stage()),
        ("device_const", || device_const::Case::new().stage()),
        ("device_abi", || device_abi::Case::new().stage()),
        ("device_options", || device_options::Case::new().stage()),
        ("device_parameter_type", || device_parameter_type::Case::new().stage()),
        ("device_parameter_pattern", || device_parameter_pattern::Case::new().stage()),
        ("device_parameter_attribute", || device_parameter_attribute::Case::new().stage()),
        ("device_returns_reference", || device_returns_reference::Case::new().stage()),
        ("mutable_comptime_parameter", || mutable_comptime_parameter::Case::new().stage()),
        ("device_on_struct", || device_on_struct::Case::new().stage()),
        ("kernel_on_struct", || kernel_on_struct::Case::new().stage()),
        ("kernel_async", || kernel_async::Case::new().stage()),
        ("kernel_const", || kernel_const::Case::new().stage()),
        ("kernel_abi", || kernel_abi::Case::new().stage()),
        ("kernel_returns", || kernel_returns::Case::new().stage()),
        ("kernel_lifetime", || kernel_lifetime::Case::new().stage()),
        ("kernel_without_buffer", || kernel_without_buffer::Case::new(4).stage()),
        ("kernel_value_parameter", || kernel_value_parameter::Case::new().stage()),
        ("kernel_mutable_buffer", || kernel_mutable_buffer::Case::new().stage()),
        ("kernel_parameter_pattern", || kernel_parameter_pattern::Case::new().stage()),
        ("kernel_two_pushes", || kernel_two_pushes::Case::new().stage()),
        ("kernel_without_grid", || kernel_without_grid::Case::new().stage()),
        ("kernel_without_local_size", || kernel_without_local_size::Case::new().stage()),
        ("kernel_unknown_option", || kernel_unknown_option::Case::new().stage()),
        ("kernel_option_twice", || kernel_option_twice::Case::new().stage()),
        ("grid_of_four", || grid_of_four::Case::new().stage()),
        ("grid_operator", || grid_operator::Case::new().stage()),
        ("len_on_push", || len_on_push::Case::new().stage()),
        ("len_of_float", || len_of_float::Case::new().stage()),
        ("weight_written", || weight_written::Case::new().stage()),
        ("weight_on_push", || weight_on_push::Case::new().stage()),
        ("view_of_written", || view_of_written::Case::new().stage()),
        ("when_on_push", || when_on_push::Case::new(true).stage()),
        ("when_of_value", || when_of_value::Case::new(4).stage()),
        ("weight_stored_to", || weight_stored_to::Case::new().stage()),
        ("requires_unknown", || requires_unknown::Case::new().stage()),
        ("parameter_attribute", || parameter_attribute::Case::new(4).stage()),
        ("kernel_method", || kernel_method::Case::new().stage()),
        ("shared_in_launch_arguments", || shared_in_launch_arguments::Case::new().stage()),
    ]
}

pub mod early_return {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> f32 {
        return if a > 0.0 { a } else { 0.0 };
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod device_async {
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

pub mod device_const {
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

pub mod device_abi {
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

pub mod device_options {
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

pub mod device_parameter_type {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> f32 {
        let table = [a, 1.0];
        table[0]
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod device_parameter_pattern {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(a: f32) -> f32 {
        let pair = (a, 1.0f32);
        pair.0
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod device_parameter_attribute {
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

pub mod device_returns_reference {
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

pub mod mutable_comptime_parameter {
    use kiln_dsl::prelude::*;

    #[device]
    fn helper(mut a: f32) -> f32 {
        a += 1.0;
        a
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = helper(x[i]);
    }
}

pub mod device_on_struct {
    use kiln_dsl::prelude::*;

    pub struct Helper;
    #[device]
    impl Helper {
        fn double(a: f32) -> f32 {
            a * 2.0
        }
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = Helper::double(x[0]);
    }
}

pub mod kernel_on_struct {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_async {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_const {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_abi {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_returns {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_lifetime {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_without_buffer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>, #[comptime] n: u32) {
        y[0] = n;
    }
}

pub mod kernel_value_parameter {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[0] = p.n as f32;
    }
}

pub mod kernel_mutable_buffer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_parameter_pattern {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_two_pushes {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[push] p: Numbers) {
        y[0] = p.n as f32;
    }
}

pub mod kernel_without_grid {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_without_local_size {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_unknown_option {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1, subgroup = 32)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod kernel_option_twice {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod grid_of_four {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = [1, 1, 1])]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod grid_operator {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = (1 + 3) * 2)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod len_on_push {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[len(p.n)] y: &BufMut<f32>, #[push] p: Numbers) {
        y[0] = p.n as f32;
    }
}

pub mod len_of_float {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[len(p.n * 2)] y: &BufMut<f32>, #[push] p: Numbers) {
        y[0] = p.n as f32;
    }
}

pub mod weight_written {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[weight] w: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = w[0];
    }
}

pub mod weight_on_push {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[weight] w: &Buf<u32>, y: &BufMut<u32>, #[push] p: Numbers) {
        y[0] = p.n + w[0];
    }
}

pub mod view_of_written {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<f32>) {
        let halves = x.view::<u16>();
        y[0] = halves[1] as f32;
    }
}

pub mod when_on_push {
    use kiln_dsl::prelude::*;

    #[derive(Push)]
    pub struct Numbers {
        n: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[when(both)] x: &Buf<u32>, y: &BufMut<u32>, #[push] p: Numbers, #[comptime] both: bool) {
        y[0] = p.n + x[0];
    }
}

pub mod when_of_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[when(n > 0)] x: &Buf<u32>, y: &BufMut<u32>, #[comptime] n: u32) {
        y[0] = x[n];
    }
}

pub mod weight_stored_to {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(#[weight] w: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = w[0];
    }
}

pub mod requires_unknown {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1, requires = [DotProduct])]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = x[0];
    }
}

pub mod parameter_attribute {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>, #[comptime] n: u32) {
        y[0] = n as f32;
    }
}

pub mod kernel_method {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        y[0] = 1.0;
    }
}

pub mod shared_in_launch_arguments {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        let t = Shared::<f32>::new(64);
        t[local_id()] = 1.0;
        y[0] = t[local_id()];
    }
}
