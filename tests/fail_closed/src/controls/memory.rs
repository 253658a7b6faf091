//! Control twins of the fixtures about atomics and views of memory: the same code without the fault.
#![allow(missing_docs, reason = "each module is named after its fixture")]
#![allow(unused_variables, dead_code, reason = "as short as the fixture")]

use kiln_abi::Kernel;

use crate::Control;

/// Name of the fixture, staging of its twin.
pub fn all() -> Vec<Control> {
    vec![
        ("shared_after_reuse", || shared_after_reuse::Case::new().stage()),
        ("print_too_few", || print_too_few::Case::new().stage()),
        ("print_too_many", || print_too_many::Case::new().stage()),
        ("print_format", || print_format::Case::new().stage()),
        ("print_brace", || print_brace::Case::new().stage()),
        ("print_vector", || print_vector::Case::new().stage()),
        ("print_without_text", || print_without_text::Case::new().stage()),
        ("atomic_of_float", || atomic_of_float::Case::new().stage()),
        ("atomic_on_read_only", || atomic_on_read_only::Case::new().stage()),
        ("atomic_on_variable", || atomic_on_variable::Case::new().stage()),
        ("atomic_of_value", || atomic_of_value::Case::new().stage()),
        ("atomic_mixed", || atomic_mixed::Case::new().stage()),
        ("atomic_narrow", || atomic_narrow::Case::new().stage()),
    ]
}

pub mod atomic_of_float {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<u32>) {
        let i = global_id_x();
        atomic::add(&y[0], x[i] as u32);
    }
}

pub mod atomic_on_read_only {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        let i = global_id_x();
        atomic::add(&y[0], i + x[i]);
        y[i] = 1;
    }
}

pub mod atomic_on_variable {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        let i = global_id_x();
        let mut n = x[i];
        n += 1;
        atomic::add(&y[i], n);
    }
}

pub mod atomic_of_value {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        let i = global_id_x();
        atomic::add(&y[0], x[i]);
    }
}

pub mod atomic_mixed {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        let i = global_id_x();
        atomic::max(&y[0], x[i]);
    }
}

pub mod atomic_narrow {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<u32>, y: &BufMut<u32>) {
        let i = global_id_x();
        atomic::add(&y[0], 1);
        y[i] = x[i];
    }
}

pub mod print_too_few {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{} of {}", i, x[i]);
        y[i] = x[i];
    }
}

pub mod print_too_many {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{}", i);
        y[i] = x[i];
    }
}

pub mod print_format {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{i}");
        y[i] = x[i];
    }
}

pub mod print_brace {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{}", i);
        y[i] = x[i];
    }
}

pub mod print_vector {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{}", vec2(x[i], 1.0).x());
        y[i] = x[i];
    }
}

pub mod print_without_text {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        kprintln!("{}", i);
        y[i] = x[i];
    }
}

pub mod shared_after_reuse {
    use kiln_dsl::prelude::*;

    #[kernel(local_size = 64, grid = 1)]
    pub fn case(x: &Buf<f32>, y: &BufMut<f32>) {
        let i = global_id_x();
        let a = Shared::<f32>::new(64);
        a[local_id()] = x[i];
        barrier();
        y[i] = a[63 - local_id()];
        let b = a.reuse(64);
        b[local_id()] = 2.0;
        y[i] = b[local_id()];
    }
}
