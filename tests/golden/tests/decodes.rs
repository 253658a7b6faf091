//! How kernels of a format decode, by their words: no bytes picked one by one, no tables in registers.
#![expect(clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use kiln_abi::spirv::{Op, StorageClass};
use kiln_kernels::Registry;
use kiln_spirv_emit::words::{Instruction, decode};

/// Roles whose kernels decode blocks.
const ROLES: [&str; 3] = ["get_rows", "decode", "gemv"];
/// Bytes of a constant array at most; a longer one is a table, which is a buffer's plane.
const MAX_ARRAY_BYTES: u32 = 64;

/// What a decode must not do, found in a module.
fn faults(words: &[u32]) -> Vec<String> {
    let module = decode(words).unwrap_or_else(|e| panic!("{e}"));
    let by_id: BTreeMap<u32, &Instruction<'_>> =
        module.iter().filter(|i| i.result != 0).map(|i| (i.result, i)).collect();
    module.iter().filter_map(|i| Some(format!("word {}: {}", i.at, fault(i, &by_id)?))).collect()
}

fn fault(i: &Instruction<'_>, by_id: &BTreeMap<u32, &Instruction<'_>>) -> Option<&'static str> {
    let is_constant = |id: u32| by_id.get(&id).is_some_and(|i| i.op == Op::Constant);
    match i.op {
        Op::VectorExtractDynamic => {
            let vector = by_id.get(&i.word(0))?.ty;
            (scalar_bits(vector, by_id) == Some(8)).then_some("a byte of a vector picked by its index")
        }
        Op::Load => (scalar_bits(i.ty, by_id) == Some(8)).then_some("a load of single bytes"),
        Op::ConstantComposite => {
            let (bytes, array) = (bytes(i.ty, by_id)?, by_id.get(&i.ty)?.op == Op::TypeArray);
            (array && bytes > MAX_ARRAY_BYTES).then_some("a constant array that should be a table")
        }
        Op::AccessChain => {
            let class = by_id.get(&i.ty)?.word(0);
            let own =
                [StorageClass::Function, StorageClass::Private].map(StorageClass::number).contains(&class);
            let indices = i.parts.iter().flat_map(|p| p.words.iter()).skip(1);
            (own && indices.copied().any(|id| !is_constant(id))).then_some("an own array indexed by a value")
        }
        _ => None,
    }
}

/// Bits of a number, or of a vector's.
fn scalar_bits(ty: u32, by_id: &BTreeMap<u32, &Instruction<'_>>) -> Option<u32> {
    let ty = by_id.get(&ty)?;
    match ty.op {
        Op::TypeInt | Op::TypeFloat => Some(ty.word(0)),
        Op::TypeVector => scalar_bits(ty.word(0), by_id),
        _ => None,
    }
}

/// Bytes of a number, a vector, or an array of them.
fn bytes(ty: u32, by_id: &BTreeMap<u32, &Instruction<'_>>) -> Option<u32> {
    let ty = by_id.get(&ty)?;
    match ty.op {
        Op::TypeInt | Op::TypeFloat => Some(ty.word(0) / 8),
        Op::TypeVector => Some(bytes(ty.word(0), by_id)? * ty.word(1)),
        Op::TypeArray => Some(bytes(ty.word(0), by_id)? * by_id.get(&ty.word(1))?.word(0)),
        _ => None,
    }
}

#[test]
fn no_decode_picks_bytes_or_keeps_tables() {
    let registry = Registry::builtin();
    let mut formats = 0;
    for row in registry.formats() {
        let mut roles = 0;
        // Forms and tiles repeat a format's decoding; the first variant of an arm has all of it.
        let mut arms = Vec::new();
        for variant in row.variants.iter().filter(|v| ROLES.contains(&v.role)) {
            if arms.contains(&(variant.role, variant.arm)) {
                continue;
            }
            arms.push((variant.role, variant.arm));
            let words = variant.stage().unwrap_or_else(|e| panic!("{e}")).words;
            let faults = faults(&words);
            assert!(faults.is_empty(), "{}:\n{}", variant.name, faults.join("\n"));
            roles += 1;
        }
        assert!(roles >= ROLES.len(), "{} decodes in {roles} kernels", row.name);
        formats += 1;
    }
    assert!(formats > 20, "{formats} formats");
}

/// A module of these instructions, numbers beginning at 1.
fn module(instructions: &[(Op, &[u32])]) -> Vec<u32> {
    let mut words = vec![0x0723_0203, 0x0001_0600, 0, 100, 0];
    for (op, operands) in instructions {
        words.push((operands.len() as u32 + 1) << 16 | u32::from(op.number()));
        words.extend_from_slice(operands);
    }
    words
}

#[test]
fn each_fault_is_seen_and_its_neighbor_is_not() {
    let (byte, word, uniform) = ((Op::TypeInt, &[1, 8, 0][..]), (Op::TypeInt, &[2, 32, 0][..]), 12);
    let function = StorageClass::Function.number();
    let pick = |of: u32| {
        let vector = [3, of, 4];
        module(&[byte, word, (Op::TypeVector, &vector), (Op::VectorExtractDynamic, &[of, 9, 8, 7])])
    };
    // The vector that is picked from has to be known: a load of it.
    let picked = |of: u32| {
        let vector = [3, of, 4];
        module(&[
            byte,
            word,
            (Op::TypeVector, &vector),
            (Op::CompositeConstruct, &[3, 8, 20, 20, 20, 20]),
            (Op::VectorExtractDynamic, &[of, 9, 8, 7]),
        ])
    };
    assert!(faults(&pick(1)).is_empty());
    assert_eq!((faults(&picked(1)).len(), faults(&picked(2)).len()), (1, 0));
    let loaded = |ty: u32| module(&[byte, word, (Op::Load, &[ty, 9, 8])]);
    assert_eq!((faults(&loaded(1)).len(), faults(&loaded(2)).len()), (1, 0));
    let table = |n: u32| {
        let constants = vec![6; n as usize];
        let composite = [&[5, 7], &constants[..]].concat();
        module(&[
            word,
            (Op::Constant, &[2, 4, n]),
            (Op::TypeArray, &[5, 2, 4]),
            (Op::Constant, &[2, 6, 0]),
            (Op::ConstantComposite, &composite),
        ])
    };
    assert_eq!((faults(&table(17)).len(), faults(&table(16)).len()), (1, 0));
    let indexed = |class: u32, index: u32| {
        module(&[
            word,
            (Op::Constant, &[2, 4, 1]),
            (Op::TypePointer, &[5, class, 2]),
            (Op::AccessChain, &[5, 8, 7, index]),
        ])
    };
    assert_eq!((faults(&indexed(function, 9)).len(), faults(&indexed(function, 4)).len()), (1, 0));
    assert_eq!(faults(&indexed(uniform, 9)), [""; 0]);
}
