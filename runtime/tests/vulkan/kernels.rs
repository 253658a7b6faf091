//! The kernels that the tests run. Push constant 0 is always the number of elements.

use kiln_abi::{Access, StagedKernel, spirv::Capability};

use crate::assembler::{Assembler, Id};

const LOCAL: u32 = 64;

/// Workgroups for `n` elements.
pub fn groups(n: u32) -> u32 {
    n.div_ceil(LOCAL)
}

/// Push constants as bytes.
pub fn push(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn per_element(
    name: &str,
    bindings: &[(&str, Access)],
    fields: u32,
    body: impl FnOnce(&mut Assembler, Id),
) -> StagedKernel {
    let mut asm = Assembler::new(LOCAL, bindings, fields);
    let index = asm.global_index();
    let n = asm.push(0);
    asm.if_less(index, n, |asm| body(asm, index));
    asm.finish(name)
}

/// `output[i] = input[i] * p1 + p2`
pub fn affine() -> StagedKernel {
    per_element("affine", &[("input", Access::Read), ("output", Access::Write)], 3, |asm, i| {
        let x = asm.load(0, i);
        let (factor, term) = (asm.push(1), asm.push(2));
        let product = asm.multiply(x, factor);
        let sum = asm.add(product, term);
        asm.store(1, i, sum);
    })
}

/// `total[i] = total[i] * 3 + input[i]`: neither idempotent nor commutative, so that order shows.
pub fn accumulate() -> StagedKernel {
    per_element("accumulate", &[("input", Access::Read), ("total", Access::ReadWrite)], 1, |asm, i| {
        let (x, total) = (asm.load(0, i), asm.load(1, i));
        let three = asm.constant(3);
        let tripled = asm.multiply(total, three);
        let sum = asm.add(tripled, x);
        asm.store(1, i, sum);
    })
}

/// `output[i] = the subgroup size`, required to be `size` if there is one.
pub fn subgroup_size(size: Option<u32>) -> StagedKernel {
    let mut asm = Assembler::new(LOCAL, &[("output", Access::Write)], 1);
    if let Some(size) = size {
        asm.require_subgroup_size(size);
    }
    let index = asm.global_index();
    let (n, width) = (asm.push(0), asm.subgroup_size());
    asm.if_less(index, n, |asm| asm.store(0, index, width));
    asm.finish("subgroup_size")
}

/// `grid = [p1, 1, 1]`: the workgroup counts of an indirect dispatch. Runs with n = 1.
pub fn write_grid() -> StagedKernel {
    per_element("write_grid", &[("grid", Access::Write)], 2, |asm, i| {
        let x = asm.push(1);
        let (one, two) = (asm.constant(1), asm.constant(2));
        asm.store(0, i, x);
        asm.store(0, one, one);
        asm.store(0, two, one);
    })
}

/// `output[i] = i stepped p1 times through a generator`
pub fn slow() -> StagedKernel {
    per_element("slow", &[("output", Access::Write)], 2, |asm, i| {
        let count = asm.push(1);
        let (a, c) = (asm.constant(SLOW_FACTOR), asm.constant(SLOW_TERM));
        // The loop needs a block of its own to come from.
        let (zero, one) = (asm.constant(0), asm.constant(1));
        asm.if_less(zero, one, |asm| {
            let value = asm.repeat(i, count, |asm, x| {
                let product = asm.multiply(x, a);
                asm.add(product, c)
            });
            asm.store(0, i, value);
        });
    })
}

/// The generator of [`slow`].
pub const SLOW_FACTOR: u32 = 1_664_525;
/// As above.
pub const SLOW_TERM: u32 = 1_013_904_223;

/// [`affine`], which also declares a capability that it has no use for.
pub fn needing(capability: Capability) -> StagedKernel {
    let mut asm = Assembler::new(LOCAL, &[("output", Access::Write)], 1);
    asm.capability(capability);
    let index = asm.global_index();
    let n = asm.push(0);
    asm.if_less(index, n, |asm| asm.store(0, index, n));
    asm.finish(&format!("needing_{}", capability.name()))
}
