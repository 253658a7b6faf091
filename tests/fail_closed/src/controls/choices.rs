//! Control twins of the fixtures about `match` and struct values: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("match_open", || match_open::Case::new().stage()),
        ("match_binding", || match_binding::Case::new().stage()),
        ("match_guard", || match_guard::Case::new().stage()),
        ("match_after_wildcard", || match_after_wildcard::Case::new().stage()),
        ("match_twice", || match_twice::Case::new().stage()),
        ("match_empty_range", || match_empty_range::Case::new().stage()),
        ("match_pattern", || match_pattern::Case::new().stage()),
        ("match_of_float", || match_of_float::Case::new().stage()),
        ("match_types", || match_types::Case::new().stage()),
        ("struct_without_derive", || struct_without_derive::Case::new().stage()),
        ("struct_rest", || struct_rest::Case::new().stage()),
        ("struct_missing_field", || struct_missing_field::Case::new().stage()),
        ("struct_field_type", || struct_field_type::Case::new().stage()),
        ("struct_array_field", || struct_array_field::Case::new().stage()),
        ("struct_generic", || struct_generic::Case::new().stage()),
        ("struct_assigned_to_let", || struct_assigned_to_let::Case::new().stage()),
        ("struct_added", || struct_added::Case::new().stage()),
    ]
}

pub mod match_open {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 => 1.0,
            _ => x[i],
        };
    }
}

pub mod match_binding {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 => 1.0,
            _ => x[i],
        };
    }
}

pub mod match_guard {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 => {
                if i > 4 {
                    1.0
                } else {
                    x[i]
                }
            }
            _ => x[i],
        };
    }
}

pub mod match_after_wildcard {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 => 1.0,
            3 => x[i],
            _ => 2.0,
        };
    }
}

pub mod match_twice {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0..=2 => 1.0,
            3..5 => 2.0,
            _ => x[i],
        };
    }
}

pub mod match_empty_range {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            7..8 => 1.0,
            _ => x[i],
        };
    }
}

pub mod match_pattern {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 | 1 => 1.0,
            _ => x[i],
        };
    }
}

pub mod match_of_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match x[i] as u32 {
            0 => 1.0,
            _ => 2.0,
        };
    }
}

pub mod match_types {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = match i {
            0 => 1.0,
            _ => i as f32 + x[i],
        };
    }
}

pub mod struct_without_derive {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let p = Pair { a: x[i], b: i };
        y[i] = p.a;
    }
}

pub mod struct_rest {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let p = Pair { a: x[i], b: i };
        let q = Pair { b: 1, a: p.a };
        y[i] = q.a;
    }
}

pub mod struct_missing_field {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let p = Pair { a: x[i], b: i };
        y[i] = p.a;
    }
}

pub mod struct_field_type {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let p = Pair { a: x[i], b: i };
        y[i] = p.a;
    }
}

pub mod struct_array_field {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: Vec2<f32>,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i];
    }
}

pub mod struct_generic {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        y[i] = x[i];
    }
}

pub mod struct_assigned_to_let {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let mut p = Pair { a: x[i], b: i };
        p.a = 2.0;
        y[i] = p.a;
    }
}

pub mod struct_added {
    use kiln_dsl::prelude::*;

    #[derive(Struct, Clone, Copy)]
    pub struct Pair {
        a: f32,
        b: u32,
    }

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let p = Pair { a: x[i], b: i };
        y[i] = p.a + 1.0;
    }
}
