//! Control twins of the fixtures about expressions: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, unused_assignments, unused_mut, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("question_mark", || question_mark::Case::new().stage()),
        ("closure", || closure::Case::new().stage()),
        ("unsafe_block", || unsafe_block::Case::new().stage()),
        ("async_block", || async_block::Case::new().stage()),
        ("await_expression", || await_expression::Case::new().stage()),
        ("range_value", || range_value::Case::new().stage()),
        ("slice", || slice::Case::new().stage()),
        ("if_let", || if_let::Case::new().stage()),
        ("let_chain", || let_chain::Case::new().stage()),
        ("const_block", || const_block::Case::new().stage()),
        ("underscore_value", || underscore_value::Case::new().stage()),
        ("mutable_reference", || mutable_reference::Case::new().stage()),
        ("reference_to_value", || reference_to_value::Case::new().stage()),
        ("dereference", || dereference::Case::new().stage()),
        ("call_of_value", || call_of_value::Case::new().stage()),
        ("cast_to_reference", || cast_to_reference::Case::new().stage()),
        ("array_value", || array_value::Case::new().stage()),
        ("unknown_macro", || unknown_macro::Case::new().stage()),
        ("macro_statement", || macro_statement::Case::new().stage()),
        ("string_literal", || string_literal::Case::new().stage()),
        ("character_literal", || character_literal::Case::new().stage()),
        ("wide_integer", || wide_integer::Case::new().stage()),
        ("wide_float", || wide_float::Case::new().stage()),
        ("huge_integer", || huge_integer::Case::new().stage()),
        ("huge_float", || huge_float::Case::new().stage()),
        ("boxed_value", || boxed_value::Case::new().stage()),
        ("pointer_cast", || pointer_cast::Case::new().stage()),
        ("if_without_else", || if_without_else::Case::new().stage()),
        ("compound_on_let", || compound_on_let::Case::new().stage()),
        ("rust_float_method", || rust_float_method::Case::new().stage()),
        ("rust_wrapping_method", || rust_wrapping_method::Case::new().stage()),
    ]
}

pub mod question_mark {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let v = x[i];
        y[i] = v;
    }
}

pub mod closure {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let double = x[i] * 2.0;
        y[i] = double;
    }
}

pub mod unsafe_block {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = { x[i] };
    }
}

pub mod async_block {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let later = { 1.0f32 };
        y[i] = x[i] + later;
    }
}

pub mod await_expression {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i];
    }
}

pub mod range_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..i {
            y[j] = x[j];
        }
    }
}

pub mod slice {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        for j in 0..4 {
            y[j] = x[j];
        }
    }
}

pub mod if_let {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if x[i] > 0.0 {
            y[i] = x[i];
        }
    }
}

pub mod let_chain {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        if i > 0 && i == 1 {
            y[i] = x[i];
        }
    }
}

pub mod const_block {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = comptime!(1.0f32) * x[i];
    }
}

pub mod underscore_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let _ = x[i];
        y[i] = 0.0;
    }
}

pub mod mutable_reference {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let r = &y;
        r[i] = x[i];
        y[i] = x[i];
    }
}

pub mod reference_to_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let r = x[i] + 1.0;
        y[i] = r;
    }
}

pub mod dereference {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let r = &x[i];
        y[i] = r;
    }
}

pub mod call_of_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = sqrt(x[i]);
    }
}

pub mod cast_to_reference {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i] as i32 as f32;
    }
}

pub mod array_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let a = [x[i], 1.0];
        y[i] = a[0];
    }
}

pub mod unknown_macro {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = comptime!(2.0f32) * x[i];
    }
}

pub mod macro_statement {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        comptime!(assert!(true));
        y[i] = x[i];
    }
}

pub mod string_literal {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let name = comptime!("x");
        comptime!(assert!(name == "x"));
        y[i] = x[i];
    }
}

pub mod character_literal {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let c = 99u32;
        y[i] = x[i] + (c as f32);
    }
}

pub mod wide_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let big = 1u32;
        y[i] = x[i] + (big as f32);
    }
}

pub mod wide_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = 1.0f32;
        y[i] = x[i];
    }
}

pub mod huge_integer {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let n = 4_294_967_295;
        y[i & n] = x[i];
    }
}

pub mod huge_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let low = -3e38;
        let high = (3e38) as f32;
        y[i] = clamp(x[i], low, high);
    }
}

pub mod boxed_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let a = x[0];
        y[0] = a;
    }
}

pub mod pointer_cast {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let a = &x[0];
        y[0] = a;
    }
}

pub mod if_without_else {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let a = if x[0] > 1.0 { 2.0 } else { 3.0 };
        y[0] = a;
    }
}

pub mod compound_on_let {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let mut sum = x[0];
        sum += 1.0;
        y[0] = sum;
    }
}

pub mod rust_float_method {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        y[0] = pow(x[0], 2.0);
    }
}

pub mod rust_wrapping_method {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        y[0] = x[0] + x[1].max(3);
    }
}
