//! The validator on modules that are changed at random: it never panics, and what it still accepts is valid SPIR-V.
#![expect(clippy::unwrap_used, reason = "tests")]

use kiln_abi::{
    DType,
    spirv::{GroupOperation, MemorySemantics, Op, Scope, StorageClass},
};
use kiln_golden::{fixtures, spirv_val};
use kiln_spirv_emit::{
    disasm::disassemble,
    ir::{Inst, Module, Node, Operand, Region, Type, TypeId, ValueId},
    lower::lower,
    verify::verify,
};

const ROUNDS: u32 = 10_000;
/// With KILN_LONG=1.
const LONG_ROUNDS: u32 = 200_000;
/// How many of the accepted modules the outside validator judges; it takes some milliseconds for each.
const JUDGED: usize = 150;

/// xorshift64*: the same changes on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(bits).unwrap() % n.max(1)
    }

    fn small(&mut self, n: usize) -> u32 {
        u32::try_from(self.below(n)).unwrap()
    }
}

#[test]
fn what_the_validator_accepts_is_valid_and_it_never_panics() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut accepted, mut refused) = (Vec::new(), 0);
    let long = std::env::var_os("KILN_LONG").is_some();
    for _ in 0..if long { LONG_ROUNDS } else { ROUNDS } {
        let (name, _) = fixtures::ALL[random.below(fixtures::ALL.len())];
        let mut module = fixtures::build(name).unwrap();
        let before = module.clone();
        for _ in 0..=random.below(2) {
            change(&mut module, &mut random);
        }
        if module == before {
            continue;
        }
        match verify(module) {
            Ok(verified) => accepted.push(lower(&verified)),
            Err(e) => {
                assert!(!e.errors.is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 1000, "{refused} modules were refused");
    assert!(accepted.len() > JUDGED, "{} modules were accepted", accepted.len());
    let stride = accepted.len() / JUDGED;
    for kernel in accepted.iter().step_by(stride) {
        if let Err(e) = spirv_val(&kernel.words) {
            panic!("{}: {e}\n{}", kernel.name, disassemble(&kernel.words).unwrap());
        }
    }
}

fn change(m: &mut Module, random: &mut Random) {
    let (n_values, n_types) = (m.values.len() + 1, m.types.len() + 1);
    match random.below(10) {
        0 => {
            let value = random.below(m.values.len());
            m.values[value].ty = TypeId(random.small(n_types));
        }
        1 => {
            let ty = random.below(m.types.len());
            change_type(&mut m.types[ty], random, n_types);
        }
        2 => {
            let global = random.below(m.globals.len());
            m.globals[global].value = ValueId(random.small(n_values));
        }
        3 => m.entry.body = shuffled(std::mem::replace(&mut m.entry.body, empty()), random),
        4 | 5 => same_type(m, random),
        _ => {
            let mut insts = Vec::new();
            collect(&mut m.entry.body, &mut insts);
            let inst = random.below(insts.len());
            change_inst(insts[inst], random, n_values);
        }
    }
}

/// An operand becomes another value of its type: often still a good module, with another meaning.
fn same_type(m: &mut Module, random: &mut Random) {
    let types: Vec<TypeId> = m.values.iter().map(|v| v.ty).collect();
    let mut insts = Vec::new();
    collect(&mut m.entry.body, &mut insts);
    let inst = random.below(insts.len());
    let operands = &mut insts[inst].operands;
    let position = random.below(operands.len());
    if let Some(Operand::Value(old)) = operands.get(position).cloned()
        && let Some(&ty) = types.get(old.0 as usize)
    {
        let alike: Vec<usize> = (0..types.len()).filter(|&i| types[i] == ty).collect();
        let new = alike[random.below(alike.len())];
        operands[position] = Operand::Value(ValueId(u32::try_from(new).unwrap()));
    }
}

fn empty() -> Region {
    Region { id: kiln_spirv_emit::ir::RegionId(0), nodes: Vec::new() }
}

fn change_type(ty: &mut Type, random: &mut Random, n_types: usize) {
    let dtypes = [DType::Bool, DType::I8, DType::U16, DType::I32, DType::U32, DType::F16, DType::F32];
    let dtype = dtypes[random.below(dtypes.len())];
    *ty = match random.below(5) {
        0 => Type::Scalar(dtype),
        1 => Type::Vector { elem: dtype, n: u8::try_from(random.below(6)).unwrap() },
        2 => Type::Array { elem: TypeId(random.small(n_types)), len: random.small(9), stride: None },
        3 => Type::Pointer { class: StorageClass::Workgroup, pointee: TypeId(random.small(n_types)) },
        _ => Type::RuntimeArray { elem: TypeId(random.small(n_types)), stride: random.small(9) },
    };
}

fn collect<'m>(region: &'m mut Region, insts: &mut Vec<&'m mut Inst>) {
    for node in &mut region.nodes {
        match node {
            Node::Inst(inst) => insts.push(inst),
            Node::If { then, otherwise, .. } => {
                collect(then, insts);
                collect(otherwise, insts);
            }
            Node::Loop { header, body, step, .. } => {
                collect(header, insts);
                collect(body, insts);
                collect(step, insts);
            }
            Node::Print { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {}
        }
    }
}

fn change_inst(inst: &mut Inst, random: &mut Random, n_values: usize) {
    match random.below(6) {
        0 => inst.op = Op::ALL[random.below(Op::ALL.len())],
        1 => inst.result = Some(ValueId(random.small(n_values))),
        2 => inst.no_contraction = !inst.no_contraction,
        3 => drop(inst.operands.pop()),
        _ if inst.operands.is_empty() => inst.operands.push(Operand::Lit(0)),
        _ => {
            let position = random.below(inst.operands.len());
            inst.operands[position] = match random.below(12) {
                0 => Operand::Lit(random.small(5)),
                1 => Operand::Scope([Scope::Device, Scope::Workgroup, Scope::Subgroup][random.below(3)]),
                2 => Operand::Semantics(MemorySemantics(0x6148 & !(1 << random.below(16)))),
                3 => Operand::Group(GroupOperation::InclusiveScan),
                _ => Operand::Value(ValueId(random.small(n_values))),
            };
        }
    }
}

/// Two of the region's nodes change places.
fn shuffled(mut region: Region, random: &mut Random) -> Region {
    let n = region.nodes.len();
    region.nodes.swap(random.below(n), random.below(n));
    region
}
