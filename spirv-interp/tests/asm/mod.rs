//! A small SPIR-V assembler over the op table, and fixtures that run its output: the tests need no outside tool.
//!
//! A fixture's text is the body of `main`. Types, builtins and pointer types are declared for it, and constants such
//! as `%u_5`, `%i_-1`, `%f_0.5` and `%h_2` (f16) where they are named. The source map gives each line of the body its
//! number, from 1.
// Each test binary uses a part of it, and a fixture with a mistake should stop its test.
#![allow(dead_code, clippy::panic, clippy::unwrap_used)]

use std::collections::HashMap;

use kiln_abi::{
    Access, BindingLayout, BufferRange, Device, Dispatch, Grid, KernelLayout, Location, SourceMap,
    StagedKernel,
    spirv::{
        BuiltIn, Capability, Decoration, ExecutionMode, GlslOp, GroupOperation, MAGIC, Op, OpResult,
        OperandKind, StorageClass, VERSION_1_6,
    },
};
use kiln_spirv_interp::{Counters, InterpOptions, Interpreter, ReduceOrder, SUBGROUP_SIZES, Trap};

pub const FILE: &str = "fixture.spvasm";

/// Scalar types every fixture can name, with their size in memory.
const SCALARS: [(&str, &str, u32); 8] = [
    ("u32", "OpTypeInt 32 0", 4),
    ("i32", "OpTypeInt 32 1", 4),
    ("f32", "OpTypeFloat 32", 4),
    ("f16", "OpTypeFloat 16", 2),
    ("u16", "OpTypeInt 16 0", 2),
    ("i16", "OpTypeInt 16 1", 2),
    ("u8", "OpTypeInt 8 0", 1),
    ("i8", "OpTypeInt 8 1", 1),
];

const BUILTINS: [(&str, &str, &str); 9] = [
    ("gid", "GlobalInvocationId", "v3u32"),
    ("wid", "WorkgroupId", "v3u32"),
    ("lid", "LocalInvocationId", "v3u32"),
    ("nwg", "NumWorkgroups", "v3u32"),
    ("li_var", "LocalInvocationIndex", "u32"),
    ("lane_var", "SubgroupLocalInvocationId", "u32"),
    ("sg_var", "SubgroupId", "u32"),
    ("nsg_var", "NumSubgroups", "u32"),
    ("width_var", "SubgroupSize", "u32"),
];

/// Values that the body of `main` finds defined.
const PROLOGUE: &str = "
%gid_all = OpLoad %v3u32 %gid
%gx = OpCompositeExtract %u32 %gid_all 0
%wid_all = OpLoad %v3u32 %wid
%wx = OpCompositeExtract %u32 %wid_all 0
%li = OpLoad %u32 %li_var
%lane = OpLoad %u32 %lane_var
%sg = OpLoad %u32 %sg_var
%nsg = OpLoad %u32 %nsg_var
%width = OpLoad %u32 %width_var
";

/// A kernel to assemble.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub local: [u32; 3],
    /// Name and scalar type of each storage buffer; its binding is its position.
    pub buffers: Vec<(&'static str, &'static str)>,
    /// Name, scalar type and length of each workgroup array.
    pub shared: Vec<(&'static str, &'static str, u32)>,
    /// u32 fields of the push-constant block `%push`.
    pub push: u32,
    /// Further declarations.
    pub declare: String,
    /// Further functions.
    pub functions: String,
    pub body: String,
    pub glsl_memory_model: bool,
}

impl Fixture {
    pub fn new(local: u32, body: &str) -> Self {
        Fixture {
            local: [local, 1, 1],
            buffers: Vec::new(),
            shared: Vec::new(),
            push: 0,
            declare: String::new(),
            functions: String::new(),
            body: body.to_owned(),
            glsl_memory_model: false,
        }
    }

    pub fn buffer(mut self, name: &'static str, scalar: &'static str) -> Self {
        self.buffers.push((name, scalar));
        self
    }

    pub fn shared(mut self, name: &'static str, scalar: &'static str, len: u32) -> Self {
        self.shared.push((name, scalar, len));
        self
    }

    /// The body with one text replaced, which has to be there.
    pub fn replaced(&self, from: &str, to: &str) -> Self {
        assert!(self.body.contains(from), "{from:?} is not in the body");
        Fixture { body: self.body.replacen(from, to, 1), ..self.clone() }
    }

    /// The number of the first body line with `text`, from 1.
    pub fn line(&self, text: &str) -> u32 {
        let found = self.body.lines().position(|l| l.contains(text));
        found.unwrap_or_else(|| panic!("{text:?} is not in the body")) as u32 + 1
    }

    pub fn kernel(&self) -> StagedKernel {
        let (words, source) = self.assemble();
        let bindings = self.buffers.iter().zip(0..).map(|(&(name, scalar), index)| BindingLayout {
            name: name.to_owned(),
            index,
            elem: scalar.to_owned(),
            elem_bytes: bytes(scalar),
            access: Access::ReadWrite,
        });
        let layout = KernelLayout {
            entry: "main".to_owned(),
            bindings: bindings.collect(),
            push: Vec::new(),
            local_size: self.local,
            subgroup_size: None,
            workgroup_bytes: self.shared.iter().map(|s| bytes(s.1) * s.2).sum(),
            capabilities: vec![Capability::Shader],
            products: Vec::new(),
            checked: true,
            fragments: false,
        };
        StagedKernel { name: "fixture".to_owned(), words, source, layout }
    }

    fn assemble(&self) -> (Vec<u32>, SourceMap) {
        let mut a = Assembler::default();
        let [x, y, z] = self.local;
        let model = if self.glsl_memory_model { 1 } else { 3 };
        a.lines("OpCapability Shader\n%glsl = OpExtInstImport \"GLSL.std.450\"");
        a.line(&format!("OpMemoryModel 0 {model}"));
        a.line("OpEntryPoint 5 %main \"main\"");
        a.line(&format!("OpExecutionMode %main LocalSize {x} {y} {z}"));
        a.lines("%void = OpTypeVoid\n%bool = OpTypeBool\n%main_type = OpTypeFunction %void");
        for (name, ty, size) in SCALARS {
            a.line(&format!("%{name} = {ty}"));
            a.line(&format!("OpDecorate %array_{name} ArrayStride {size}"));
            a.line(&format!("%array_{name} = OpTypeRuntimeArray %{name}"));
            a.line(&format!("OpDecorate %block_{name} Block"));
            a.line(&format!("OpMemberDecorate %block_{name} 0 Offset 0"));
            a.line(&format!("%block_{name} = OpTypeStruct %array_{name}"));
            a.line(&format!("%buffer_{name} = OpTypePointer StorageBuffer %block_{name}"));
            for n in 2..=4 {
                a.line(&format!("%v{n}{name} = OpTypeVector %{name} {n}"));
            }
        }
        for n in 2..=4 {
            a.line(&format!("%v{n}bool = OpTypeVector %bool {n}"));
        }
        for ty in SCALARS.map(|s| s.0).into_iter().chain(["v2f32", "v4f32", "v4u32", "bool"]) {
            for class in ["StorageBuffer", "Workgroup", "Function", "Private"] {
                a.line(&format!("%{class}_{ty} = OpTypePointer {class} %{ty}"));
            }
        }
        for ty in ["u32", "v3u32"] {
            a.line(&format!("%Input_{ty} = OpTypePointer Input %{ty}"));
        }
        for (name, builtin, ty) in BUILTINS {
            a.line(&format!("OpDecorate %{name} BuiltIn {}", builtin_number(builtin)));
            a.line(&format!("%{name} = OpVariable %Input_{ty} Input"));
        }
        a.lines("%true = OpConstantTrue %bool\n%false = OpConstantFalse %bool");
        for n in 0..9 {
            a.constant(&format!("%u_{n}"));
        }
        for text in [&self.declare, &self.functions, &self.body] {
            for token in text.split_whitespace().filter(|t| t.starts_with('%')) {
                a.constant(token);
            }
        }
        for (&(name, scalar), n) in self.buffers.iter().zip(0..) {
            a.line(&format!("OpDecorate %{name} DescriptorSet 0"));
            a.line(&format!("OpDecorate %{name} Binding {n}"));
            a.line(&format!("%{name} = OpVariable %buffer_{scalar} StorageBuffer"));
        }
        for (name, scalar, len) in &self.shared {
            a.constant(&format!("%u_{len}"));
            a.line(&format!("%{name}_array = OpTypeArray %{scalar} %u_{len}"));
            a.line(&format!("%{name}_pointer = OpTypePointer Workgroup %{name}_array"));
            a.line(&format!("%{name} = OpVariable %{name}_pointer Workgroup"));
        }
        if self.push > 0 {
            for i in 0..self.push {
                a.line(&format!("OpMemberDecorate %push_block {i} Offset {}", 4 * i));
            }
            a.line(&format!("%push_block = OpTypeStruct{}", " %u32".repeat(self.push as usize)));
            a.lines("%push_pointer = OpTypePointer PushConstant %push_block");
            a.lines("%PushConstant_u32 = OpTypePointer PushConstant %u32");
            a.line("%push = OpVariable %push_pointer PushConstant");
        }
        a.lines(&self.declare);
        a.lines(&self.functions);
        a.lines("%main = OpFunction %void 0 %main_type\n%main_label = OpLabel");
        a.lines(PROLOGUE);
        for (text, line) in self.body.lines().zip(1..) {
            let column = (text.len() - text.trim_start().len()) as u32 + 1;
            a.at = Some(Location { file: FILE, line, column });
            a.line(text);
        }
        a.at = None;
        a.lines("OpReturn\nOpFunctionEnd");
        a.finish()
    }
}

fn bytes(scalar: &str) -> u32 {
    SCALARS.iter().find(|s| s.0 == scalar).map_or(4, |s| s.2)
}

fn builtin_number(name: &str) -> u32 {
    number(name, |n| BuiltIn::from_number(n).map(BuiltIn::name))
        .unwrap_or_else(|| panic!("no builtin {name}"))
}

fn number(name: &str, find: impl Fn(u32) -> Option<&'static str>) -> Option<u32> {
    (0..8192).find(|&n| find(n) == Some(name))
}

#[derive(Default)]
struct Assembler {
    words: Vec<u32>,
    ids: HashMap<String, u32>,
    constants: HashMap<String, u32>,
    f16: Vec<u32>,
    at: Option<Location>,
    source: SourceMap,
}

impl Assembler {
    fn id(&mut self, name: &str) -> u32 {
        assert!(name.starts_with('%'), "{name:?} is no id");
        let next = self.ids.len() as u32 + 1;
        *self.ids.entry(name.to_owned()).or_insert(next)
    }

    /// Declares `token` if it names a constant that is not there yet.
    fn constant(&mut self, token: &str) {
        let types = [("%u_", "u32"), ("%i_", "i32"), ("%f_", "f32"), ("%h_", "f16")];
        let found = types.iter().find_map(|(p, ty)| Some((token.strip_prefix(p)?, ty)));
        let Some((value, ty)) = found else { return };
        if value.parse::<f64>().is_ok() && !self.constants.contains_key(token) {
            self.constants.insert(token.to_owned(), 0);
            self.line(&format!("{token} = OpConstant %{ty} {value}"));
        }
    }

    fn lines(&mut self, text: &str) {
        text.lines().for_each(|l| self.line(l));
    }

    fn line(&mut self, text: &str) {
        let text = text.split(';').next().unwrap_or_default().trim();
        if text.is_empty() {
            return;
        }
        let mut tokens: Vec<&str> = text.split_whitespace().collect();
        let result = (tokens.get(1) == Some(&"=")).then(|| {
            let name = tokens.remove(0);
            tokens.remove(0);
            name
        });
        let name = tokens.remove(0);
        let op = name.strip_prefix("Op").and_then(|n| Op::ALL.iter().find(|o| o.name() == n));
        let op = *op.unwrap_or_else(|| panic!("no instruction {name} in {text:?}"));
        let mut tokens = tokens.into_iter();
        let mut next = || tokens.next().unwrap_or_else(|| panic!("too few operands: {text:?}"));
        let mut out = Vec::new();
        let mut ty = 0;
        if op.result() == OpResult::Typed {
            ty = self.id(next());
            out.push(ty);
        }
        assert_eq!(op.result() != OpResult::None, result.is_some(), "{text:?}");
        if let Some(result) = result {
            let id = self.id(result);
            out.push(id);
            if op == Op::TypeFloat && text.ends_with("16") {
                self.f16.push(id);
            }
        }
        for kind in op.operands() {
            match kind {
                OperandKind::Ids
                | OperandKind::Literals
                | OperandKind::OptMemory
                | OperandKind::OptFloatEncoding
                | OperandKind::OptMatrixOperands => break,
                OperandKind::String => string(next(), &mut out),
                _ => {
                    let token = next();
                    out.push(self.operand(op, *kind, ty, token));
                }
            }
        }
        for token in tokens {
            out.push(self.operand(op, OperandKind::Literal, ty, token));
        }
        if let Some(at) = self.at {
            self.source.entries.push((5 + self.words.len() as u32, at));
        }
        self.words.push((out.len() as u32 + 1) << 16 | u32::from(op.number()));
        self.words.extend(out);
    }

    fn operand(&mut self, op: Op, kind: OperandKind, ty: u32, token: &str) -> u32 {
        if token.starts_with('%') {
            return self.id(token);
        }
        if token.contains('|') || memory_flag(token).is_some() {
            return token.split('|').map(|t| memory_flag(t).unwrap_or_else(|| panic!("no flag {t}"))).sum();
        }
        let named = match kind {
            OperandKind::StorageClass => {
                number(token, |n| StorageClass::from_number(n).map(StorageClass::name))
            }
            OperandKind::Decoration => number(token, |n| Decoration::from_number(n).map(Decoration::name)),
            OperandKind::Capability => number(token, |n| Capability::from_number(n).map(Capability::name)),
            OperandKind::ExecutionMode => {
                number(token, |n| ExecutionMode::from_number(n).map(ExecutionMode::name))
            }
            OperandKind::GroupOperation => {
                number(token, |n| GroupOperation::from_number(n).map(GroupOperation::name))
            }
            OperandKind::GlslOp => number(token, |n| GlslOp::from_number(n).map(GlslOp::name)),
            _ => None,
        };
        let parsed = named.or_else(|| match token {
            _ if op == Op::Constant && self.f16.contains(&ty) => {
                token.parse().ok().map(|v| half::f16::from_f64(v).to_bits().into())
            }
            _ if op == Op::Constant && self.ids.get("%f32") == Some(&ty) => {
                token.parse().ok().map(f32::to_bits)
            }
            _ => token.parse::<i64>().ok().map(|v| v as u32),
        });
        parsed.unwrap_or_else(|| panic!("no operand {token:?} of {op:?}"))
    }

    fn finish(self) -> (Vec<u32>, SourceMap) {
        let mut words = vec![MAGIC, VERSION_1_6, 0, self.ids.len() as u32 + 1, 0];
        words.extend(self.words);
        (words, self.source)
    }
}

fn memory_flag(token: &str) -> Option<u32> {
    Some(match token {
        "Aligned" => 0x2,
        "MakePointerAvailable" => 0x8,
        "MakePointerVisible" => 0x10,
        "NonPrivatePointer" => 0x20,
        _ => return None,
    })
}

fn string(token: &str, out: &mut Vec<u32>) {
    let mut bytes = token.trim_matches('"').as_bytes().to_vec();
    bytes.resize((bytes.len() / 4 + 1) * 4, 0);
    out.extend(bytes.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])));
}

/// What a buffer holds before the run.
#[derive(Clone, Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    /// This many bytes that nothing has written.
    Fresh(usize),
}

pub fn words(values: impl IntoIterator<Item = u32>) -> Content {
    Content::Bytes(values.into_iter().flat_map(u32::to_le_bytes).collect())
}

pub fn floats(values: impl IntoIterator<Item = f32>) -> Content {
    words(values.into_iter().map(f32::to_bits))
}

/// A run's buffers and counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub buffers: Vec<Vec<u8>>,
    pub counters: Counters,
}

impl Outcome {
    pub fn words(&self, buffer: usize) -> Vec<u32> {
        self.buffers[buffer].chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }

    pub fn floats(&self, buffer: usize) -> Vec<f32> {
        self.words(buffer).into_iter().map(f32::from_bits).collect()
    }
}

pub fn run_with(
    options: InterpOptions,
    kernel: &StagedKernel,
    grid: [u32; 3],
    push: &[u8],
    contents: &[Content],
) -> Result<Outcome, Trap> {
    let interp = Interpreter::new(options);
    let mut ranges = Vec::new();
    for content in contents {
        let n = match content {
            Content::Bytes(b) => b.len(),
            Content::Fresh(n) => *n,
        };
        let buffer = interp.allocate(n as u64, "fixture").unwrap();
        if let Content::Bytes(b) = content {
            interp.write(buffer, 0, b).unwrap();
        }
        ranges.push(BufferRange { buffer, offset_bytes: 0, bytes: n as u64 });
    }
    let dispatch = Dispatch { kernel, bindings: &ranges, needed_bytes: &[], push, grid: Grid(grid) };
    let counters = interp.run(&dispatch)?;
    let buffers = ranges.iter().map(|r| {
        let mut out = vec![0; r.bytes as usize];
        interp.read(r.buffer, 0, &mut out).unwrap();
        out
    });
    Ok(Outcome { buffers: buffers.collect(), counters })
}

/// Runs one workgroup at the subgroup size given.
pub fn run(f: &Fixture, width: u32, contents: &[Content]) -> Result<Outcome, Trap> {
    let options = InterpOptions { subgroup_size: width, ..InterpOptions::default() };
    run_with(options, &f.kernel(), [1, 1, 1], &[], contents)
}

/// Runs one workgroup at every subgroup size, each time with other seeds and orders of sums.
pub fn each_width(f: &Fixture, contents: &[Content], check: impl Fn(&Outcome)) {
    let kernel = f.kernel();
    for subgroup_size in SUBGROUP_SIZES {
        for (seed, reduce_order) in
            [(0, ReduceOrder::Forward), (1, ReduceOrder::Reverse), (2, ReduceOrder::Tree)]
        {
            let options = InterpOptions { subgroup_size, seed, reduce_order, ..InterpOptions::default() };
            let run = run_with(options, &kernel, [1, 1, 1], &[], contents);
            check(&run.unwrap_or_else(|t| panic!("width {subgroup_size}: {t}")));
        }
    }
}
