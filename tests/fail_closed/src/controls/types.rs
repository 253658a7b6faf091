//! Control twins of the fixtures about types: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("write_to_read_only", || write_to_read_only::Case::new().stage()),
        ("add_to_read_only", || add_to_read_only::Case::new().stage()),
        ("assign_to_let", || assign_to_let::Case::new().stage()),
        ("mixed_addition", || mixed_addition::Case::new().stage()),
        ("mixed_comparison", || mixed_comparison::Case::new().stage()),
        ("mixed_store", || mixed_store::Case::new().stage()),
        ("mixed_arms", || mixed_arms::Case::new().stage()),
        ("integer_literal_as_float", || integer_literal_as_float::Case::new().stage()),
        ("float_literal_as_integer", || float_literal_as_integer::Case::new().stage()),
        ("unknown_literal_type", || unknown_literal_type::Case::new().stage()),
        ("condition_of_integer", || condition_of_integer::Case::new().stage()),
        ("while_of_integer", || while_of_integer::Case::new().stage()),
        ("and_of_integers", || and_of_integers::Case::new().stage()),
        ("shift_of_float", || shift_of_float::Case::new().stage()),
        ("not_of_float", || not_of_float::Case::new().stage()),
        ("negated_unsigned", || negated_unsigned::Case::new().stage()),
        ("ordered_bool", || ordered_bool::Case::new().stage()),
        ("bool_as_float", || bool_as_float::Case::new().stage()),
        ("float_as_bool", || float_as_bool::Case::new().stage()),
        ("cast_to_wide_integer", || cast_to_wide_integer::Case::new().stage()),
        ("index_by_signed", || index_by_signed::Case::new().stage()),
        ("index_of_scalar", || index_of_scalar::Case::new().stage()),
        ("method_unknown", || method_unknown::Case::new().stage()),
        ("root_of_integer", || root_of_integer::Case::new().stage()),
        ("missing_argument", || missing_argument::Case::new().stage()),
        ("shared_of_bool", || shared_of_bool::Case::new().stage()),
        ("host_function", || host_function::Case::new().stage()),
        ("host_string", || host_string::Case::new().stage()),
        ("host_wide_integer", || host_wide_integer::Case::new().stage()),
        ("static_value", || static_value::Case::new().stage()),
        ("dimension_undeclared", || dimension_undeclared::Case::new().stage()),
        ("swizzle_target", || swizzle_target::Case::new().stage()),
        ("shared_of_tuple", || shared_of_tuple::Case::new().stage()),
        ("buffer_of_buffers", || buffer_of_buffers::Case::new().stage()),
        ("vector_of_eight", || vector_of_eight::Case::new().stage()),
        ("unsuffixed_float_index", || unsuffixed_float_index::Case::new().stage()),
        ("signed_into_unsigned", || signed_into_unsigned::Case::new().stage()),
        ("store_of_half", || store_of_half::Case::new().stage()),
        ("usize_index", || usize_index::Case::new().stage()),
    ]
}

pub mod write_to_read_only {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = 1.0;
        y[i] = x[i];
    }
}

pub mod add_to_read_only {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] += 1.0;
        y[i] = x[i];
    }
}

pub mod assign_to_let {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut v = x[i];
        v = 1.0;
        y[i] = v;
    }
}

pub mod mixed_addition {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i] + (i as f32);
    }
}

pub mod mixed_comparison {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if x[i] < (i as f32) {
            y[i] = 0.0;
        }
    }
}

pub mod mixed_store {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = i as f32;
        y[i] = x[i];
    }
}

pub mod mixed_arms {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let v = if i > 2 { x[i] } else { i as f32 };
        y[i] = v;
    }
}

pub mod integer_literal_as_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i] * 2.0;
    }
}

pub mod float_literal_as_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i + 1] = x[i];
    }
}

pub mod unknown_literal_type {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let n: u32 = 4;
        y[n] = x[i];
    }
}

pub mod condition_of_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if i != 0 {
            y[i] = 0.0;
        }
        y[i] = x[i];
    }
}

pub mod while_of_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut n = i;
        while n > 0 {
            n -= 1;
        }
        y[i] = x[i];
    }
}

pub mod and_of_integers {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if i > 0 && i < 9 {
            y[i] = 0.0;
        }
        y[i] = x[i];
    }
}

pub mod shift_of_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i >> 1] = x[i];
    }
}

pub mod not_of_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i & !1] = x[i];
    }
}

pub mod negated_unsigned {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = -x[i];
    }
}

pub mod ordered_bool {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let a = i > 1;
        let b = a == a;
        if b {
            y[i] = x[i];
        }
    }
}

pub mod bool_as_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = (i > 1) as u32 as f32;
        y[i] = x[i];
    }
}

pub mod float_as_bool {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let b = x[i] != 0.0;
        if b {
            y[i] = 0.0;
        }
    }
}

pub mod cast_to_wide_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let n = i as u16;
        y[n as u32] = x[i];
    }
}

pub mod index_by_signed {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i];
    }
}

pub mod index_of_scalar {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let v = vec2(x[i], 1.0);
        y[i] = v[0];
    }
}

pub mod method_unknown {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i].sqrt();
    }
}

pub mod root_of_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = sqrt(x[i]);
    }
}

pub mod missing_argument {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = max(x[i], 0.0);
    }
}

pub mod shared_of_bool {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let flags = Shared::<u32>::new(64);
        flags[local_id()] = 1;
        y[i] = x[i];
    }
}

pub mod host_function {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = comptime!(f32::sqrt(2.0)) * x[i];
    }
}

pub mod host_string {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        const NAME: &str = "x";
        let n = comptime!(NAME.len());
        y[n] = x[i];
    }
}

pub mod host_wide_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        const BIG: u32 = 1;
        y[i] = x[BIG];
    }
}

pub mod static_value {
    use kiln_dsl::prelude::*;

    const LIMIT: u32 = 1;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[LIMIT] = x[i];
    }
}

pub mod dimension_undeclared {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        dims!(N = 4);
        y[N] = x[i];
    }
}

pub mod swizzle_target {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let mut v = vec2(x[0], x[1]);
        v[0] = 1.0;
        y[0] = v[0];
    }
}

pub mod shared_of_tuple {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let tile = Shared::<f32>::new(64);
        tile[local_id()] = x[0];
        y[0] = tile[local_id()];
    }
}

pub mod buffer_of_buffers {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = x[0];
    }
}

pub mod vector_of_eight {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<Vec4<f32>>, y: &BufMut<f32>) {
        y[0] = x[0][0];
    }
}

pub mod unsuffixed_float_index {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        y[1] = x[0];
    }
}

pub mod signed_into_unsigned {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let n = local_id() as i32;
        y[(n + 1) as u32] = x[0];
    }
}

pub mod store_of_half {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f16>, y: &BufMut<f32>) {
        y[0] = x[0] as f32;
    }
}

pub mod usize_index {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i: u32 = 0;
        y[i] = x[0];
    }
}
