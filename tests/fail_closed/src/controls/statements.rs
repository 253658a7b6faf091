//! Control twins of the fixtures about statements: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("let_else", || let_else::Case::new().stage()),
        ("uninitialized_let", || uninitialized_let::Case::new().stage()),
        ("struct_pattern", || struct_pattern::Case::new().stage()),
        ("mutable_in_tuple", || mutable_in_tuple::Case::new().stage()),
        ("array_annotation", || array_annotation::Case::new().stage()),
        ("variable_annotation", || variable_annotation::Case::new().stage()),
        ("mutable_comptime", || mutable_comptime::Case::new().stage()),
        ("statement_attribute", || statement_attribute::Case::new().stage()),
        ("loop_attribute", || loop_attribute::Case::new().stage()),
        ("static_item", || static_item::Case::new().stage()),
        ("function_item", || function_item::Case::new().stage()),
        ("struct_item", || struct_item::Case::new().stage()),
        ("loop_label", || loop_label::Case::new().stage()),
        ("break_label", || break_label::Case::new().stage()),
        ("block_label", || block_label::Case::new().stage()),
        ("continue_label", || continue_label::Case::new().stage()),
        ("break_value", || break_value::Case::new().stage()),
        ("break_outside_loop", || break_outside_loop::Case::new().stage()),
        ("continue_outside_loop", || continue_outside_loop::Case::new().stage()),
        ("break_in_comptime_loop", || break_in_comptime_loop::Case::new().stage()),
        ("loop_over_iterator", || loop_over_iterator::Case::new().stage()),
        ("inclusive_range", || inclusive_range::Case::new().stage()),
        ("open_range", || open_range::Case::new().stage()),
        ("reversed_range", || reversed_range::Case::new().stage()),
        ("loop_pattern", || loop_pattern::Case::new().stage()),
        ("while_let", || while_let::Case::new().stage()),
        ("return_value", || return_value::Case::new().stage()),
        ("several_errors", || several_errors::Case::new().stage()),
        ("assert_macro", || assert_macro::Case::new().stage()),
        ("vec_macro", || vec_macro::Case::new().stage()),
        ("type_item", || type_item::Case::new().stage()),
        ("continue_in_comptime_loop", || continue_in_comptime_loop::Case::new().stage()),
        ("unroll_to_a_value", || unroll_to_a_value::Case::new().stage()),
        ("mutable_loop_variable", || mutable_loop_variable::Case::new().stage()),
    ]
}

pub mod let_else {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let v = x[i];
        y[i] = v;
    }
}

pub mod uninitialized_let {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut v = 0.0;
        v = x[i];
        y[i] = v;
    }
}

pub mod struct_pattern {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let (a, _) = (x[i], i);
        y[i] = a;
    }
}

pub mod mutable_in_tuple {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let (first, b) = (x[i], 1.0);
        let mut a = first;
        a += b;
        y[i] = a;
    }
}

pub mod array_annotation {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let a = [x[i], 1.0f32];
        y[i] = a[1];
    }
}

pub mod variable_annotation {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut a: f32 = x[i];
        a += 1.0;
        y[i] = a;
    }
}

pub mod mutable_comptime {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut n = comptime!(4u32);
        n += i;
        y[i] = x[n];
    }
}

pub mod statement_attribute {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let v = x[i];
        y[i] = v;
    }
}

pub mod loop_attribute {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        #[unroll]
        for j in 0..4 {
            y[j] = x[j];
        }
    }
}

pub mod static_item {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        const COUNT: u32 = 0;
        y[i] = x[COUNT];
    }
}

pub mod function_item {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        use kiln_dsl::prelude::sqrt as root;
        y[i] = root(x[i]);
    }
}

pub mod struct_item {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        const INNER: f32 = 1.0;
        y[i] = INNER;
        y[i] = x[i];
    }
}

pub mod loop_label {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        loop {
            break;
        }
        y[i] = x[i];
    }
}

pub mod break_label {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        loop {
            break;
        }
        y[i] = x[i];
    }
}

pub mod block_label {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        {
            y[i] = x[i];
        }
    }
}

pub mod continue_label {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..4 {
            if j == 1 {
                continue;
            }
            y[j] = x[j];
        }
    }
}

pub mod break_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut v = 0.0;
        loop {
            v = x[i];
            break;
        }
        y[i] = v;
    }
}

pub mod break_outside_loop {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if i > 4 {
            return;
        }
        y[i] = x[i];
    }
}

pub mod continue_outside_loop {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if i > 4 {
            return;
        }
        y[i] = x[i];
    }
}

pub mod break_in_comptime_loop {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in comptime!((0..4u32).filter(|j| *j != 2)) {
            y[j] = x[j];
        }
    }
}

pub mod loop_over_iterator {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..x.len() {
            y[i] = x[j];
        }
    }
}

pub mod inclusive_range {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..5 {
            y[j] = x[j];
        }
    }
}

pub mod open_range {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in (0..8).step_by(2) {
            y[j] = x[j];
        }
    }
}

pub mod reversed_range {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..4 {
            y[3 - j] = x[3 - j];
        }
    }
}

pub mod loop_pattern {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for _ in 0..4u32 {
            y[i] = x[i];
        }
    }
}

pub mod while_let {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        while x[i] > y[i] {
            y[i] = x[i];
        }
    }
}

pub mod return_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i];
        return;
    }
}

pub mod several_errors {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let a = i;
        let b = a;
        y[b] = x[i];
    }
}

pub mod assert_macro {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>) {
        comptime!(assert!(64 > 0));
        y[0] = y[1];
    }
}

pub mod vec_macro {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        let a = [0.0f32; 4];
        y[0] = a[0];
    }
}

pub mod type_item {
    use kiln_dsl::prelude::*;

    type Word = u32;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>) {
        y[0] = 1 as Word;
    }
}

pub mod continue_in_comptime_loop {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        for i in 0..4 {
            if y[i] > 1.0 {
                continue;
            }
            y[i] = 1.0;
        }
    }
}

pub mod unroll_to_a_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<u32>) {
        let n = comptime!(4u32);
        for i in comptime!(0..n) {
            y[i] = 1;
        }
    }
}

pub mod mutable_loop_variable {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(y: &BufMut<f32>) {
        for i in (0..4).step_by(2) {
            y[i] = 1.0;
        }
    }
}
