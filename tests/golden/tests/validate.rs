//! Every module that the writer makes of a hand-written kernel is accepted by the outside validator.

use kiln_abi::{DType, spirv::Op};
use kiln_golden::{sketch::Sketch, spirv_val};

#[test]
fn add_is_accepted() {
    let mut k = Sketch::new("add");
    let x = k.buf("x", DType::F32, false);
    let y = k.buf("y", DType::F32, false);
    let z = k.buf("z", DType::F32, true);
    let i = k.gid();
    let (a, b) = (k.get(x, i), k.get(y, i));
    let sum = k.op(Op::FAdd, DType::F32, &[a, b]);
    k.set(z, i, sum);
    let staged = k.compile().unwrap();
    spirv_val(&staged.words).unwrap();
    println!("{:?}", staged.layout);
}
