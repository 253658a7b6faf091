//! What a module says about its ids: names, decorations, types and constants in words.

use std::collections::{BTreeMap, BTreeSet};

use kiln_abi::spirv::{BuiltIn, ClampMode, Decoration, MatrixUse, Op, Scope, StorageClass};

use super::values::{Scalar, scalar_text};
use crate::words::{Instruction, text};

/// A decoration's number and its literals.
type Decorated = (u32, Vec<u32>);

#[derive(Default)]
pub(super) struct Facts {
    /// Types, constants, the extended instruction set and named variables, in words.
    texts: BTreeMap<u32, String>,
    /// Which of the texts replace the line that declares them.
    inline: BTreeSet<u32>,
    scalars: BTreeMap<u32, Scalar>,
    constants: BTreeMap<u32, u32>,
    decorations: BTreeMap<u32, Vec<Decorated>>,
    members: BTreeMap<(u32, u32), Vec<Decorated>>,
    n_structs: usize,
    functions: Vec<(usize, usize)>,
}

impl Facts {
    pub(super) fn new(instructions: &[Instruction<'_>]) -> Self {
        let mut facts = Facts::default();
        for i in instructions {
            facts.note(i);
        }
        facts
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(&id).map(String::as_str)
    }

    pub(super) fn stands_where_used(&self, id: u32) -> bool {
        self.inline.contains(&id)
    }

    pub(super) fn constant(&self, id: u32) -> Option<u32> {
        self.constants.get(&id).copied()
    }

    pub(super) fn in_function(&self, at: usize) -> bool {
        self.functions.iter().any(|&(start, end)| start < at && at < end)
    }

    pub(super) fn decorations(&self, id: u32) -> impl Iterator<Item = (u32, &[u32])> {
        self.decorations.get(&id).into_iter().flatten().map(|(d, literals)| (*d, literals.as_slice()))
    }

    /// `struct S0 { u32 @0, f32 @4 }`
    pub(super) fn struct_line(&self, i: &Instruction<'_>) -> String {
        let members = (0u32..).zip(&i.parts).map(|(n, part)| {
            let ty = self.any(part.words[0]);
            let decorations = self.members.get(&(i.result, n)).into_iter().flatten();
            decorations.fold(ty, |text, (decoration, literals)| match Decoration::from_number(*decoration) {
                Some(Decoration::Offset) => format!("{text} @{}", literals[0]),
                Some(other) => format!("{text} {}{literals:?}", other.name()),
                None => format!("{text} Decoration{decoration}{literals:?}"),
            })
        });
        let members: Vec<String> = members.collect();
        format!("struct {} {{ {} }}", self.any(i.result), members.join(", "))
    }

    fn any(&self, id: u32) -> String {
        self.text(id).map_or_else(|| format!("?{id}"), str::to_owned)
    }

    fn note(&mut self, i: &Instruction<'_>) {
        let literals = |from: usize| i.parts.iter().skip(from).map(|p| p.words[0]).collect::<Vec<_>>();
        match i.op {
            Op::Name => {
                let name = format!("%{}", text(i.parts[1].words));
                if !self.texts.values().any(|t| *t == name) {
                    self.texts.insert(i.word(0), name);
                }
            }
            Op::Decorate => {
                let builtin =
                    (i.word(1) == Decoration::BuiltIn.number()).then(|| BuiltIn::from_number(i.word(2)));
                if let Some(builtin) = builtin.flatten() {
                    self.texts.entry(i.word(0)).or_insert_with(|| format!("%{}", builtin.name()));
                }
                self.decorations.entry(i.word(0)).or_default().push((i.word(1), literals(2)));
            }
            Op::MemberDecorate => {
                let member = (i.word(0), i.word(1));
                self.members.entry(member).or_default().push((i.word(2), literals(3)));
            }
            Op::Function => self.functions.push((i.at, usize::MAX)),
            Op::FunctionEnd => {
                if let Some(last) = self.functions.last_mut() {
                    last.1 = i.at;
                }
            }
            Op::TypeStruct => {
                let name = format!("S{}", self.n_structs);
                self.n_structs += 1;
                self.texts.insert(i.result, name);
            }
            _ => {
                if let Some(text) = self.inline_text(i) {
                    self.texts.insert(i.result, text);
                    self.inline.insert(i.result);
                }
            }
        }
    }

    /// The text of a declaration that is printed where it is used.
    fn inline_text(&mut self, i: &Instruction<'_>) -> Option<String> {
        let id = |position: usize| self.any(i.word(position));
        let listed = || i.parts.iter().map(|p| self.any(p.words[0])).collect::<Vec<_>>();
        let scalar = match i.op {
            Op::TypeBool => Some(Scalar::Bool),
            Op::TypeInt => Some(Scalar::Int { bits: i.word(0), signed: i.word(1) == 1 }),
            Op::TypeFloat if i.parts.len() > 1 => None,
            Op::TypeFloat => Some(Scalar::Float { bits: i.word(0) }),
            _ => None,
        };
        if let Some(scalar) = scalar {
            self.scalars.insert(i.result, scalar);
            return Some(scalar.name());
        }
        Some(match i.op {
            Op::TypeVoid => "void".to_owned(),
            Op::TypeVector => format!("Vec{}<{}>", i.word(1), id(0)),
            Op::TypeArray => format!("[{}; {}{}]", id(0), self.constant(i.word(1))?, self.stride(i.result)),
            Op::TypeRuntimeArray => format!("[{}{}]", id(0), self.stride(i.result)),
            Op::TypePointer => {
                let class = StorageClass::from_number(i.word(0)).map_or("?", StorageClass::name);
                format!("*{class} {}", id(1))
            }
            Op::TypeFloat => "bf16".to_owned(),
            Op::TypeCooperativeMatrixKHR => {
                let number = |position: usize| self.constant(i.word(position));
                let scope = number(1).and_then(Scope::from_number).map_or("?", Scope::name);
                let of = number(4).and_then(MatrixUse::from_number).map_or("?", |of| match of {
                    MatrixUse::MatrixAKHR => "A",
                    MatrixUse::MatrixBKHR => "B",
                    MatrixUse::MatrixAccumulatorKHR => "Acc",
                });
                format!("Matrix{of}<{}, {scope}, {}x{}>", id(0), number(2)?, number(3)?)
            }
            Op::TypeTensorLayoutNV => {
                let clamp = self.constant(i.word(1)).and_then(ClampMode::from_number);
                let clamp = clamp.map_or("?", ClampMode::name);
                format!("TensorLayout<{}, {clamp}>", self.constant(i.word(0))?)
            }
            Op::TypeTensorViewNV => format!("TensorView<{}>", listed().join(", ")),
            Op::TypeFunction => format!("fn({}) -> {}", listed()[1..].join(", "), id(0)),
            Op::ExtInstImport => text(i.parts[0].words),
            Op::ConstantTrue => "true".to_owned(),
            Op::ConstantFalse => "false".to_owned(),
            Op::ConstantNull => format!("null {}", self.any(i.ty)),
            Op::ConstantComposite => format!("{{{}}}", listed().join(", ")),
            Op::Constant => {
                self.constants.insert(i.result, i.word(0));
                scalar_text(*self.scalars.get(&i.ty)?, i.word(0))
            }
            _ => return None,
        })
    }

    fn stride(&self, array: u32) -> String {
        let mut decorations = self.decorations(array);
        let stride = decorations.find(|(d, _)| *d == Decoration::ArrayStride.number());
        stride.map_or_else(String::new, |(_, literals)| format!(", stride {}", literals[0]))
    }
}
