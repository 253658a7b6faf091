//! Kernels whose loads decode, reading their blocks one word too far: what a device has to make visible.

use std::collections::HashSet;

use kiln_abi::{Device, DeviceError, LaunchError, StagedKernel, launch::check_device};
use kiln_kernels::{
    Registry,
    conformance::{Failure, check},
};

use crate::run::broken_layouts;

/// What a device made of shifted pointers.
#[derive(Clone, Debug, Default)]
pub struct Shifts {
    /// Launches with a shifted pointer whose results differed.
    pub caught: usize,
    /// What did not differ, and what could not be launched.
    pub failures: Vec<String>,
}

/// Launches every case of those variants whose loads decode and that the device takes, with the decoding function's
/// pointer shifted; none where a format's layout is not what it promises, which fails then.
pub fn run(registry: &Registry, device: &dyn Device) -> Shifts {
    let mut shifts = Shifts { failures: broken_layouts(registry.formats()), ..Shifts::default() };
    if !shifts.failures.is_empty() {
        return shifts;
    }
    for variant in registry.variants().filter(|v| v.role == "gemm" || v.role == "attention") {
        let kernel = match variant.stage() {
            Ok(kernel) => kernel,
            Err(errors) => {
                shifts.failures.push(format!("{}: {errors}", variant.name));
                continue;
            }
        };
        let Some(words) = shifted(&kernel.words) else { continue };
        if check_device(device, &kernel).is_err() {
            continue;
        }
        let wrong = StagedKernel { words, ..kernel };
        for case in variant.cases() {
            match check(device, &wrong, &case) {
                Ok(_) => {
                    shifts.failures.push(format!("{}, {}: the shift was not seen", variant.name, case.name))
                }
                Err(failure) if !is_seen(&failure) => {
                    shifts.failures.push(format!("{}: {failure}", variant.name))
                }
                Err(_) => shifts.caught += 1,
            }
        }
    }
    shifts
}

/// Whether a result differs, or an interpreter said where a pointer left its buffer; a launch that the device refuses or
/// loses itself in says nothing.
fn is_seen(failure: &Failure) -> bool {
    match failure {
        Failure::Launch { error, .. } => {
            matches!(**error, LaunchError::Device(DeviceError::Trap { .. }))
        }
        _ => true,
    }
}

/// The module with every word that a decoding function reads behind its pointer taken from the next one; `None` where
/// nothing decodes.
fn shifted(words: &[u32]) -> Option<Vec<u32>> {
    const HEADER: usize = 5;
    const TYPE_INT: u32 = 21;
    const TYPE_POINTER: u32 = 32;
    const CONSTANT: u32 = 43;
    const PARAMETER: u32 = 55;
    const ACCESS_CHAIN: u32 = 65;
    const I_ADD: u32 = 128;
    const PHYSICAL_STORAGE_BUFFER: u32 = 5349;
    let (mut out, mut at) = (words[..HEADER].to_vec(), HEADER);
    let (mut pointers, mut u32_, mut one) = (HashSet::new(), None, None);
    let mut shifts = 0;
    while at < words.len() {
        let inst = &words[at..at + (words[at] >> 16) as usize];
        match *inst {
            [op, id, 32, 0] if op & 0xffff == TYPE_INT => u32_ = Some(id),
            [op, ty, id, 1] if op & 0xffff == CONSTANT && Some(ty) == u32_ => one = Some(id),
            [op, id, PHYSICAL_STORAGE_BUFFER, _] if op & 0xffff == TYPE_POINTER => _ = pointers.insert(id),
            [op, ty, id] if op & 0xffff == PARAMETER && pointers.contains(&ty) => _ = pointers.insert(id),
            _ => {}
        }
        out.extend_from_slice(inst);
        if let [op, _, _, base, _, index] = *inst
            && op & 0xffff == ACCESS_CHAIN
            && pointers.contains(&base)
        {
            let sum = out[3];
            out[3] += 1;
            let chain = out.len() - inst.len();
            out[chain + 5] = sum;
            out.splice(chain..chain, [5 << 16 | I_ADD, u32_?, sum, index, one?]);
            shifts += 1;
        }
        at += inst.len();
    }
    (shifts > 0).then_some(out)
}
