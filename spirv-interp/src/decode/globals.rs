//! The module's declarations: types, constants, decorations, variables, functions and the entry point.

use std::collections::{HashMap, HashSet};

use kiln_abi::spirv::{BuiltIn, ClampMode, Decoration, ExecutionMode, MatrixUse, Op, Scope, StorageClass};

use super::{
    error::{DecodeError, Decoded},
    flow::{self, Function},
    reader::{Raw, Words, text},
    types::{MAX_VALUE_SCALARS, Member, Type, Types},
};
use crate::{
    matrix::{MAX_DIM, Shape, Sharing, ViewType},
    number::Number,
};

const GL_COMPUTE: u32 = 5;
/// The addressing model that decode functions' pointers call for.
const PHYSICAL_STORAGE_BUFFER_64: u32 = 5348;
/// Elements of the largest matrix.
const MAX_MATRIX_ELEMENTS: u64 = 1 << 20;
const MAX_CONSTANT_SCALARS: u64 = 1 << 20;

/// A module-scope variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    pub(crate) id: u32,
    pub(crate) word: u32,
    pub(crate) class: StorageClass,
    pub(crate) pointee: u32,
}

/// Everything outside function bodies.
pub(crate) struct Globals<'a> {
    pub(crate) words: &'a Words<'a>,
    pub(crate) types: Types,
    /// Type of each typed id, in functions too.
    pub(crate) type_of: HashMap<u32, u32>,
    /// Scalars of each constant; `None` is an undefined one.
    pub(crate) constants: HashMap<u32, Vec<Option<u32>>>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: HashMap<u32, Function>,
    pub(crate) entry: u32,
    pub(crate) local_size: [u32; 3],
    pub(crate) vulkan_model: bool,
    sets: HashSet<u32>,
    /// Instruction sets that compute nothing, and whether one is of lines to print.
    silent_sets: HashMap<u32, bool>,
    strings: HashMap<u32, String>,
    decorations: HashMap<(u32, Option<u32>, Decoration), Option<u32>>,
    constant_scalars: u64,
}

impl<'a> Globals<'a> {
    pub(crate) fn collect(words: &'a Words<'a>, entry: &str) -> Decoded<Self> {
        let mut g = Globals {
            words,
            types: Types::default(),
            type_of: words.list.iter().filter(|r| r.ty != 0).map(|r| (r.id, r.ty)).collect(),
            constants: HashMap::new(),
            variables: Vec::new(),
            functions: HashMap::new(),
            entry: 0,
            local_size: [0; 3],
            vulkan_model: false,
            sets: HashSet::new(),
            silent_sets: HashMap::new(),
            strings: HashMap::new(),
            decorations: HashMap::new(),
            constant_scalars: 0,
        };
        let first = words.list.iter().position(|r| r.op == Op::Function).unwrap_or(words.list.len());
        let (declarations, bodies) = words.list.split_at(first);
        let mut sizes = HashMap::new();
        for raw in declarations {
            g.declare(raw, entry, &mut sizes)?;
        }
        g.functions = flow::functions(words, bodies, first)?;
        if g.entry == 0 {
            return Err(DecodeError::NoEntry { name: entry.to_owned() });
        }
        let word = words.list.first().map_or(0, |r| r.word);
        let no_size = DecodeError::Malformed { word, what: "the entry point has no LocalSize" };
        g.local_size = sizes.get(&g.entry).copied().ok_or(no_size)?;
        Ok(g)
    }

    /// Decoration `d` of `id` (or of its member): its first literal, 0 when it has none.
    pub(crate) fn decoration(&self, id: u32, member: Option<u32>, d: Decoration) -> Option<u32> {
        self.decorations.get(&(id, member, d)).map(|v| v.unwrap_or(0))
    }

    pub(crate) fn builtin(&self, id: u32) -> Option<BuiltIn> {
        BuiltIn::from_number(self.decoration(id, None, Decoration::BuiltIn)?)
    }

    pub(crate) fn is_glsl(&self, set: u32) -> bool {
        self.sets.contains(&set)
    }

    /// Whether the set computes nothing; if so, whether it is the one of lines to print.
    pub(crate) fn silent(&self, set: u32) -> Option<bool> {
        self.silent_sets.get(&set).copied()
    }

    pub(crate) fn string(&self, id: u32) -> Option<&str> {
        self.strings.get(&id).map(String::as_str)
    }

    /// The value of a defined scalar constant.
    pub(crate) fn scalar(&self, id: u32) -> Option<u32> {
        match self.constants.get(&id)?.as_slice() {
            [Some(v)] => Some(*v),
            _ => None,
        }
    }

    pub(crate) fn type_of(&self, word: u32, id: u32) -> Decoded<u32> {
        self.type_of.get(&id).copied().ok_or(DecodeError::WrongId { word, id, expected: "a value" })
    }

    fn declare(&mut self, raw: &Raw, entry: &str, sizes: &mut HashMap<u32, [u32; 3]>) -> Decoded<()> {
        let ops = self.words.operands(raw);
        let (word, id) = (raw.word, raw.id);
        let type_error = |what| DecodeError::Type { word, op: raw.op.name(), what };
        match raw.op {
            Op::String => {
                self.strings.extend(text(ops).map(|(line, _)| (id, line.to_owned())));
                Ok(())
            }
            Op::Name | Op::MemberName | Op::Line | Op::Extension | Op::Capability => Ok(()),
            Op::ExtInstImport => {
                match text(ops) {
                    Some((name, _)) if name == "GLSL.std.450" => drop(self.sets.insert(id)),
                    Some((name, _)) if name.starts_with("NonSemantic.") => {
                        self.silent_sets.insert(id, name == "NonSemantic.DebugPrintf");
                    }
                    _ => {}
                }
                Ok(())
            }
            Op::MemoryModel => match ops {
                [0, 1] => Ok(()),
                [0 | PHYSICAL_STORAGE_BUFFER_64, 3] => {
                    self.vulkan_model = true;
                    Ok(())
                }
                _ => Err(type_error(
                    "is none of Logical GLSL450, Logical Vulkan and PhysicalStorageBuffer64 Vulkan",
                )),
            },
            Op::EntryPoint => {
                if ops[0] == GL_COMPUTE && text(&ops[2..]).is_some_and(|(name, _)| name == entry) {
                    self.entry = ops[1];
                }
                Ok(())
            }
            Op::ExecutionMode => match *ops {
                [f, mode, x, y, z] if mode == ExecutionMode::LocalSize.number() => {
                    sizes.insert(f, [x, y, z]);
                    Ok(())
                }
                _ => Err(type_error("LocalSize needs three numbers")),
            },
            Op::Decorate | Op::MemberDecorate => {
                let (member, rest) =
                    if raw.op == Op::Decorate { (None, &ops[1..]) } else { (Some(ops[1]), &ops[2..]) };
                if let Some(d) = Decoration::from_number(rest[0]) {
                    self.decorations.insert((ops[0], member, d), rest.get(1).copied());
                }
                Ok(())
            }
            Op::Variable => {
                let Type::Pointer { class, pointee } = *self.types.get(word, raw.ty)? else {
                    return Err(type_error("needs a pointer type"));
                };
                if ops[0] != class.number() || class == StorageClass::Function {
                    return Err(type_error("has another storage class than its pointer type"));
                }
                self.variables.push(Variable { id, word, class, pointee });
                Ok(())
            }
            Op::Undef
            | Op::ConstantTrue
            | Op::ConstantFalse
            | Op::Constant
            | Op::ConstantComposite
            | Op::ConstantNull => self.constant(raw),
            _ => {
                let ty = self.declared_type(raw)?;
                self.types.add(word, id, ty)
            }
        }
    }

    fn constant(&mut self, raw: &Raw) -> Decoded<()> {
        let (word, ops) = (raw.word, self.words.operands(raw));
        let type_error = |what| Err(DecodeError::Type { word, op: raw.op.name(), what });
        let n = self.types.scalars(raw.ty);
        if n == 0 || n > MAX_VALUE_SCALARS {
            return type_error("needs a type whose values have a fixed size");
        }
        let dtype = match self.types.get(word, raw.ty)? {
            Type::Scalar(d) => Some(*d),
            _ => None,
        };
        let scalars = match (raw.op, dtype) {
            (Op::Undef, _) => vec![None; n as usize],
            (Op::ConstantNull, _) => vec![Some(0); n as usize],
            (Op::ConstantTrue, Some(Number::Bool)) => vec![Some(1)],
            (Op::ConstantFalse, Some(Number::Bool)) => vec![Some(0)],
            (Op::Constant, Some(d)) if d != Number::Bool => {
                vec![Some(ops[0] & width_mask(d))]
            }
            (Op::ConstantComposite, None) => {
                let mut all = Vec::new();
                for &part in ops {
                    let missing = DecodeError::WrongId { word, id: part, expected: "a constant" };
                    all.extend_from_slice(self.constants.get(&part).ok_or(missing)?);
                }
                let splats = self.types.shape(raw.ty).is_none_or(|_| self.splats(raw.ty, ops));
                if all.len() != n as usize || !splats {
                    return type_error("has another number of scalars than its type");
                }
                all
            }
            _ => return type_error("does not fit its type"),
        };
        self.constant_scalars += scalars.len() as u64;
        if self.constant_scalars > MAX_CONSTANT_SCALARS {
            let (found, allowed) = (self.constant_scalars, MAX_CONSTANT_SCALARS);
            return Err(DecodeError::TooLarge { what: "scalars in constants", found, allowed });
        }
        self.constants.insert(raw.id, scalars);
        Ok(())
    }

    /// Whether `parts` is the one element that a matrix constant of type `ty` repeats.
    fn splats(&self, ty: u32, parts: &[u32]) -> bool {
        match (self.types.get(0, ty), parts) {
            (Ok(Type::Matrix { elem, .. }), [part]) => self.type_of.get(part) == Some(elem),
            _ => false,
        }
    }

    fn matrix_type(&self, raw: &Raw) -> Decoded<Type> {
        let ops = self.words.operands(raw);
        let type_error = |what| DecodeError::Type { word: raw.word, op: raw.op.name(), what };
        let constant = |i: usize| {
            let found = ops.get(i).and_then(|&id| self.scalar(id));
            found.ok_or(type_error("needs constants for scope, extents and use"))
        };
        let elem = match self.types.get(raw.word, ops[0])? {
            Type::Scalar(d) if *d != Number::Bool => *d,
            _ => return Err(type_error("needs numbers as elements")),
        };
        let sharing = match Scope::from_number(constant(1)?) {
            Some(Scope::Subgroup) => Sharing::Subgroup,
            Some(Scope::Workgroup) => Sharing::Workgroup,
            _ => return Err(type_error("has a scope other than Subgroup and Workgroup")),
        };
        let (rows, cols) = (constant(2)?, constant(3)?);
        let len = u64::from(rows) * u64::from(cols);
        if len == 0 || len > MAX_MATRIX_ELEMENTS {
            let what = "elements in one matrix";
            return Err(DecodeError::TooLarge { what, found: len, allowed: MAX_MATRIX_ELEMENTS });
        }
        let usage = MatrixUse::from_number(constant(4)?).ok_or(type_error("has an unknown use"))?;
        Ok(Type::Matrix { elem: ops[0], shape: Shape { elem, sharing, rows, cols, usage } })
    }

    fn tensor_type(&self, raw: &Raw) -> Decoded<Type> {
        let ops = self.words.operands(raw);
        let wrong = |what| DecodeError::Type { word: raw.word, op: raw.op.name(), what };
        let constant = |i: usize| ops.get(i).and_then(|&id| self.scalar(id));
        let dim = constant(0).filter(|&n| (1..=MAX_DIM as u32).contains(&n));
        let dim = dim.ok_or(wrong("needs a constant of 1 to 5 dimensions"))?;
        if raw.op == Op::TypeTensorLayoutNV {
            let clamp = constant(1).and_then(ClampMode::from_number);
            return Ok(Type::TensorLayout { dim, clamp: clamp.ok_or(wrong("needs a constant clamp mode"))? });
        }
        let has_dimensions = constant(1).ok_or(wrong("needs a constant bool"))? != 0;
        let (mut permutation, mut seen) = ([0; MAX_DIM], [false; MAX_DIM]);
        for (i, p) in permutation.iter_mut().take(dim as usize).enumerate() {
            let axis = constant(2 + i).filter(|&a| a < dim && !seen[a as usize]);
            *p = axis.ok_or(wrong("needs a permutation of its dimensions"))?;
            seen[*p as usize] = true;
        }
        if ops.len() != 2 + dim as usize {
            return Err(wrong("needs a permutation of its dimensions"));
        }
        Ok(Type::TensorView(ViewType { dim, has_dimensions, permutation }))
    }

    fn declared_type(&self, raw: &Raw) -> Decoded<Type> {
        let (word, ops) = (raw.word, self.words.operands(raw));
        let type_error = |what| Err(DecodeError::Type { word, op: raw.op.name(), what });
        let known = |id: u32| self.types.get(word, id).map(|_| id);
        Ok(match raw.op {
            Op::TypeVoid => Type::Void,
            Op::TypeBool => Type::Scalar(Number::Bool),
            Op::TypeInt => Type::Scalar(match (ops[0], ops[1]) {
                (8, 0) => Number::U8,
                (8, 1) => Number::I8,
                (16, 0) => Number::U16,
                (16, 1) => Number::I16,
                (32, 0) => Number::U32,
                (32, 1) => Number::I32,
                _ => return type_error("has a width other than 8, 16 and 32"),
            }),
            Op::TypeFloat => Type::Scalar(match *ops {
                [16] => Number::F16,
                [32] => Number::F32,
                // The one encoding that the reader lets through.
                [16, _] => Number::BF16,
                _ => return type_error("is neither an f16, a bfloat16 nor an f32"),
            }),
            Op::TypeCooperativeMatrixKHR => self.matrix_type(raw)?,
            Op::TypeTensorLayoutNV | Op::TypeTensorViewNV => self.tensor_type(raw)?,
            Op::TypeVector => match (self.types.get(word, ops[0])?, ops[1]) {
                (Type::Scalar(d), n @ 2..=4) => Type::Vector { elem: ops[0], dtype: *d, n },
                _ => return type_error("needs a scalar type and 2 to 4 components"),
            },
            Op::TypeArray => match self.scalar(ops[1]) {
                Some(len) if len > 0 => {
                    let stride = self.decoration(raw.id, None, Decoration::ArrayStride);
                    Type::Array { elem: known(ops[0])?, len, stride }
                }
                _ => return type_error("needs a constant length of at least 1"),
            },
            Op::TypeRuntimeArray => {
                let stride = self.decoration(raw.id, None, Decoration::ArrayStride);
                Type::RuntimeArray { elem: known(ops[0])?, stride }
            }
            Op::TypeStruct => {
                let members = ops.iter().zip(0..).map(|(&ty, i)| {
                    let offset = self.decoration(raw.id, Some(i), Decoration::Offset);
                    Ok(Member { ty: known(ty)?, offset })
                });
                Type::Struct(members.collect::<Decoded<_>>()?)
            }
            Op::TypePointer => match StorageClass::from_number(ops[0]) {
                Some(class) => Type::Pointer { class, pointee: known(ops[1])? },
                None => return type_error("has no known storage class"),
            },
            Op::TypeFunction => {
                let params = ops[1..].iter().map(|&p| known(p)).collect::<Decoded<_>>()?;
                Type::Function { result: known(ops[0])?, params }
            }
            _ => {
                return Err(DecodeError::Malformed { word, what: "an instruction stands outside functions" });
            }
        })
    }
}

/// The bits a scalar of type `d` has.
pub(crate) const fn width_mask(d: Number) -> u32 {
    match d.bytes() {
        1 => 0xff,
        2 => 0xffff,
        _ => u32::MAX,
    }
}
