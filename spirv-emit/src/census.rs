//! What a module uses, as a set of keys; and the capabilities that use calls for, derived from the words alone.
//!
//! The union of the keys over all kernels is compared with a declared set, both ways. The capabilities are derived
//! here a second time, from types, storage classes and instructions as they stand in the words, so that a test can
//! hold the writer's declarations against them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kiln_abi::spirv::{
    BuiltIn, Capability, Decoration, ExecutionMode, FloatEncoding, GlslOp, GroupOperation, Op, OperandKind,
    Scope, StorageClass,
};

use crate::lower::capabilities::DECODES;
use crate::words::{DecodeError, Instruction, decode, text};

/// One thing a module uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An instruction.
    Op(Op),
    /// An extended instruction, by number.
    Glsl(u32),
    /// A capability, by number.
    Capability(u32),
    /// A decoration, by number.
    Decoration(u32),
    /// A builtin, by number.
    BuiltIn(u32),
    /// A storage class, by number.
    StorageClass(u32),
    /// An execution mode, by number.
    ExecutionMode(u32),
    /// One bit of a load's or store's memory operands.
    MemoryOperand(u32),
    /// One bit of a barrier's memory semantics.
    Semantics(u32),
    /// A scope, by number.
    Scope(u32),
    /// A group operation, by number.
    Group(u32),
    /// A loop control mask.
    LoopControl(u32),
    /// A selection control mask.
    SelectionControl(u32),
    /// A float encoding, by number.
    FloatEncoding(u32),
    /// One bit of a multiply-add's matrix operands.
    MatrixOperand(u32),
    /// One bit of a matrix reduction.
    MatrixReduce(u32),
    /// One bit of a tensor load's or store's operands.
    TensorOperand(u32),
    /// The addressing and memory models, by number.
    Model(u32, u32),
    /// An extension that a capability of the table names; empty for one that none does.
    Extension(&'static str),
    /// A packed format, by number.
    PackedFormat(u32),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = |kind: &str, name: Option<&str>, n: u32| match name {
            Some(name) => write!(f, "{kind} {name}"),
            None => write!(f, "{kind} {n}"),
        };
        match *self {
            Key::Op(op) => named("op", Some(op.name()), 0),
            Key::Glsl(n) => named("glsl", GlslOp::from_number(n).map(GlslOp::name), n),
            Key::Capability(n) => named("capability", Capability::from_number(n).map(Capability::name), n),
            Key::Decoration(n) => named("decoration", Decoration::from_number(n).map(Decoration::name), n),
            Key::BuiltIn(n) => named("builtin", BuiltIn::from_number(n).map(BuiltIn::name), n),
            Key::StorageClass(n) => named("storage", StorageClass::from_number(n).map(StorageClass::name), n),
            Key::ExecutionMode(n) => named("mode", ExecutionMode::from_number(n).map(ExecutionMode::name), n),
            Key::Scope(n) => named("scope", Scope::from_number(n).map(Scope::name), n),
            Key::Group(n) => named("group", GroupOperation::from_number(n).map(GroupOperation::name), n),
            Key::MemoryOperand(bit) => write!(f, "memory {bit:#x}"),
            Key::Semantics(bit) => write!(f, "semantics {bit:#x}"),
            Key::LoopControl(mask) => write!(f, "loop {mask}"),
            Key::SelectionControl(mask) => write!(f, "selection {mask}"),
            Key::FloatEncoding(n) => {
                named("encoding", FloatEncoding::from_number(n).map(FloatEncoding::name), n)
            }
            Key::MatrixOperand(bit) => write!(f, "matrix {bit:#x}"),
            Key::MatrixReduce(bit) => write!(f, "reduce {bit:#x}"),
            Key::TensorOperand(bit) => write!(f, "tensor {bit:#x}"),
            Key::Model(addressing, memory) => write!(f, "model {addressing} {memory}"),
            Key::Extension(name) => write!(f, "extension {name}"),
            Key::PackedFormat(n) => write!(f, "packed {n}"),
        }
    }
}

/// Every key of a module.
///
/// # Errors
/// What the op table cannot read.
pub fn census(words: &[u32]) -> Result<BTreeSet<Key>, DecodeError> {
    let instructions = decode(words)?;
    let constants = constants(&instructions);
    let glsl = |set: u32| {
        let named = |i: &Instruction<'_>| i.result == set && text(i.parts[0].words) == "GLSL.std.450";
        instructions.iter().any(|i| i.op == Op::ExtInstImport && named(i))
    };
    let value = |id: u32| constants.get(&id).copied().unwrap_or(u32::MAX);
    let mut keys = BTreeSet::new();
    for i in &instructions {
        keys.insert(Key::Op(i.op));
        for part in &i.parts {
            let word = part.words.first().copied().unwrap_or(0);
            match part.kind {
                OperandKind::GlslOp if !glsl(i.word(0)) => {}
                OperandKind::GlslOp => drop(keys.insert(Key::Glsl(word))),
                OperandKind::Capability => drop(keys.insert(Key::Capability(word))),
                OperandKind::Decoration => drop(keys.insert(Key::Decoration(word))),
                OperandKind::StorageClass => drop(keys.insert(Key::StorageClass(word))),
                OperandKind::ExecutionMode => drop(keys.insert(Key::ExecutionMode(word))),
                OperandKind::GroupOperation => drop(keys.insert(Key::Group(word))),
                OperandKind::LoopControl => drop(keys.insert(Key::LoopControl(word))),
                OperandKind::SelectionControl => drop(keys.insert(Key::SelectionControl(word))),
                OperandKind::Scope => drop(keys.insert(Key::Scope(value(word)))),
                OperandKind::Semantics => keys.extend(bits(value(word)).map(Key::Semantics)),
                OperandKind::OptMemory => keys.extend(bits(word).map(Key::MemoryOperand)),
                OperandKind::OptFloatEncoding => drop(keys.insert(Key::FloatEncoding(word))),
                OperandKind::OptMatrixOperands => keys.extend(bits(word).map(Key::MatrixOperand)),
                OperandKind::MatrixReduce => keys.extend(bits(word).map(Key::MatrixReduce)),
                OperandKind::TensorOperands => keys.extend(bits(word).map(Key::TensorOperand)),
                OperandKind::Id
                | OperandKind::Ids
                | OperandKind::Literal
                | OperandKind::Literals
                | OperandKind::String
                | OperandKind::ContextLiteral => {}
                OperandKind::PackedFormat => drop(keys.insert(Key::PackedFormat(word))),
            }
        }
        match i.op {
            Op::MemoryModel => drop(keys.insert(Key::Model(i.word(0), i.word(1)))),
            Op::Extension => {
                let named = i.parts.first().map(|part| text(part.words)).unwrap_or_default();
                let known = Capability::ALL.iter().filter_map(|c| c.extension()).find(|e| *e == named);
                keys.insert(Key::Extension(known.unwrap_or_default()));
            }
            _ => {}
        }
        if i.op == Op::Decorate && i.word(1) == Decoration::BuiltIn.number() {
            keys.insert(Key::BuiltIn(i.word(2)));
        }
    }
    Ok(keys)
}

fn constants(instructions: &[Instruction<'_>]) -> BTreeMap<u32, u32> {
    instructions.iter().filter(|i| i.op == Op::Constant).map(|i| (i.result, i.word(0))).collect()
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|b| 1 << b).filter(move |bit| mask & bit != 0)
}

/// A type as far as capabilities are concerned: which narrow scalars it is made of, and whether it is a pointer.
#[derive(Clone, Default)]
struct TypeUse {
    narrow: BTreeSet<Narrow>,
    pointer: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Narrow {
    Int8,
    Int16,
    Float16,
}

impl Narrow {
    fn arithmetic(self) -> Capability {
        match self {
            Narrow::Int8 => Capability::Int8,
            Narrow::Int16 => Capability::Int16,
            Narrow::Float16 => Capability::Float16,
        }
    }

    fn storage(self) -> Capability {
        match self {
            Narrow::Int8 => Capability::StorageBuffer8BitAccess,
            Narrow::Int16 | Narrow::Float16 => Capability::StorageBuffer16BitAccess,
        }
    }
}

/// The capabilities that a module's types, variables and instructions need, whatever it declares.
///
/// # Errors
/// What the op table cannot read.
pub fn capabilities_from_words(words: &[u32]) -> Result<BTreeSet<Capability>, DecodeError> {
    let instructions = decode(words)?;
    let constants = constants(&instructions);
    let mut caps = BTreeSet::from([Capability::Shader]);
    let mut types: BTreeMap<u32, TypeUse> = BTreeMap::new();
    let mut values: BTreeMap<u32, u32> = BTreeMap::new();
    let mut computed = BTreeSet::new();
    let mut bfloat = BTreeSet::new();
    for i in &instructions {
        caps.extend(i.op.capabilities());
        if i.ty != 0 {
            values.insert(i.result, i.ty);
        }
        match i.op {
            Op::MemoryModel if i.word(1) == 3 => drop(caps.insert(Capability::VulkanMemoryModel)),
            Op::Decorate if i.word(1) == Decoration::BuiltIn.number() && i.word(2) >= 36 => {
                caps.insert(Capability::GroupNonUniform);
            }
            Op::TypeFloat if i.parts.len() > 1 => {
                caps.insert(Capability::BFloat16TypeKHR);
                bfloat.insert(i.result);
            }
            Op::TypeInt | Op::TypeFloat => drop(types.insert(i.result, scalar(i))),
            Op::TypeCooperativeMatrixKHR => {
                if bfloat.contains(&i.word(0)) {
                    caps.insert(Capability::BFloat16CooperativeMatrixKHR);
                }
                types.insert(i.result, types.get(&i.word(0)).cloned().unwrap_or_default());
            }
            Op::TypeVector | Op::TypeArray | Op::TypeRuntimeArray | Op::TypeStruct | Op::TypePointer => {
                let parts = ids(i).filter_map(|id| types.get(&id));
                let narrow = parts.flat_map(|t| t.narrow.iter().copied()).collect();
                let pointer = (i.op == Op::TypePointer).then(|| i.word(0));
                if pointer == Some(StorageClass::PhysicalStorageBuffer.number()) {
                    caps.insert(Capability::PhysicalStorageBufferAddresses);
                }
                types.insert(i.result, TypeUse { narrow, pointer });
            }
            Op::Variable => {
                let narrow = types.get(&i.ty).map(|t| t.narrow.clone()).unwrap_or_default();
                if i.word(0) == StorageClass::StorageBuffer.number() {
                    caps.extend(narrow.iter().map(|n| n.storage()));
                } else {
                    computed.extend(narrow);
                }
            }
            Op::CooperativeMatrixLoadTensorNV => {
                let mask = i.parts.last().map_or(0, |p| p.words[0]);
                caps.extend(DECODES.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, cap)| *cap));
                computed.extend(types.get(&i.ty).map(|t| t.narrow.clone()).unwrap_or_default());
            }
            // Moving and converting is allowed wherever the storage is.
            Op::Load | Op::Store | Op::SConvert | Op::UConvert | Op::FConvert => {}
            _ => {
                let operands = ids(i).filter_map(|id| values.get(&id));
                for ty in operands.chain([&i.ty]).filter_map(|ty| types.get(ty)) {
                    if ty.pointer.is_none() {
                        computed.extend(ty.narrow.iter().copied());
                    }
                }
            }
        }
        let scopes = i.parts.iter().filter(|p| p.kind == OperandKind::Scope).map(|p| p.words[0]);
        if scopes.into_iter().any(|id| constants.get(&id) == Some(&Scope::Device.number())) {
            caps.insert(Capability::VulkanMemoryModelDeviceScope);
        }
    }
    caps.extend(computed.iter().map(|n| n.arithmetic()));
    // A narrow type that no buffer holds has no storage capability to live on.
    for narrow in types.values().flat_map(|t| &t.narrow) {
        if !caps.contains(&narrow.storage()) {
            caps.insert(narrow.arithmetic());
        }
    }
    Ok(caps)
}

fn ids(i: &Instruction<'_>) -> impl Iterator<Item = u32> {
    let ids = i.parts.iter().filter(|p| matches!(p.kind, OperandKind::Id | OperandKind::Ids));
    ids.map(|p| p.words[0])
}

fn scalar(i: &Instruction<'_>) -> TypeUse {
    let narrow = match (i.op, i.word(0)) {
        (Op::TypeInt, 8) => Some(Narrow::Int8),
        (Op::TypeInt, 16) => Some(Narrow::Int16),
        (Op::TypeFloat, 16) => Some(Narrow::Float16),
        _ => None,
    };
    TypeUse { narrow: narrow.into_iter().collect(), pointer: None }
}
