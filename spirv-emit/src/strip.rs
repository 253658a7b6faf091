//! Takes the four-wide decoding functions out of a module, for devices that call the one-element ones alone.

use std::collections::BTreeSet;

use kiln_abi::spirv::{Capability, Op, TensorOperands};

use crate::words::{DecodeError, Instruction, decode, text};

/// The module without `CooperativeMatrixDecodeVectorNV`: without the capability and its extension, without the
/// functions that only such loads call, and without the loads' mention of them. Any other module stays as it is.
///
/// # Errors
/// Words that the op table cannot read.
pub fn without_decode_vector(words: &[u32]) -> Result<Vec<u32>, DecodeError> {
    let module = decode(words)?;
    let capability = Capability::CooperativeMatrixDecodeVectorNV;
    let declares = |i: &Instruction<'_>| i.op == Op::Capability && i.word(0) == capability.number();
    if !module.iter().any(declares) {
        return Ok(words.to_vec());
    }
    let gone = twins(&module);
    let mut out = words[..5].to_vec();
    let mut inside = false;
    for (i, inst) in module.iter().enumerate() {
        let end = module.get(i + 1).map_or(words.len(), |next| next.at);
        let own = &words[inst.at..end];
        match inst.op {
            Op::Function if gone.contains(&inst.result) => inside = true,
            Op::FunctionEnd if inside => inside = false,
            _ if inside || declares(inst) => {}
            Op::Extension if Some(text(inst.parts[0].words).as_str()) == capability.extension() => {}
            Op::Name | Op::Decorate if gone.contains(&inst.word(0)) => {}
            Op::CooperativeMatrixLoadTensorNV if twin(inst).is_some() => {
                let tensor = inst.parts.last().map_or(0, |p| p.words.len());
                let (first, mask) = (out.len(), own.len() - tensor);
                // The function is named last.
                out.extend_from_slice(&own[..own.len() - 1]);
                out[first] -= 1 << 16;
                out[first + mask] &= !TensorOperands::DECODE_VECTOR;
            }
            _ => out.extend_from_slice(own),
        }
    }
    Ok(out)
}

/// The four-wide function of a load.
fn twin(inst: &Instruction<'_>) -> Option<u32> {
    let tensor = inst.parts.last()?.words;
    let (mask, ids) = tensor.split_first()?;
    (inst.op == Op::CooperativeMatrixLoadTensorNV && mask & TensorOperands::DECODE_VECTOR != 0)
        .then(|| ids.last().copied())?
}

/// The four-wide functions, and what they define.
fn twins(module: &[Instruction<'_>]) -> BTreeSet<u32> {
    let functions: BTreeSet<u32> = module.iter().filter_map(twin).collect();
    let (mut gone, mut inside) = (BTreeSet::new(), false);
    for inst in module {
        inside |= inst.op == Op::Function && functions.contains(&inst.result);
        if inside {
            gone.insert(inst.result);
        }
        inside &= inst.op != Op::FunctionEnd;
    }
    gone.remove(&0);
    gone
}
