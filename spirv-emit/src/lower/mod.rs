//! `VerifiedModule → StagedKernel`: words, source map and interface.
//!
//! The words are SPIR-V 1.6 under the Vulkan memory model, sections in the order the specification gives. Ids are
//! handed out as things are first needed, walking the module front to back, so the same IR gives the same words.
//! Names are written for the entry point and for buffers, push constants and workgroup memory only.

mod body;
pub(crate) mod capabilities;
mod debug;
mod declare;
mod interface;
mod section;

use std::collections::BTreeMap;

use kiln_abi::{
    SourceMap, StagedKernel,
    spirv::{Capability, ExecutionMode, MAGIC, Op, VERSION_1_6},
};

use self::{
    body::OpenLoop,
    debug::Debug,
    declare::PoolKey,
    section::{Section, id, string, word},
};
use crate::{
    access::{Touched, touched},
    ir::{Module, ValueId},
    verify::VerifiedModule,
};

/// The entry point's name.
const ENTRY: &str = "main";
/// Execution model of a compute kernel.
const GL_COMPUTE: u32 = 5;
/// Addressing model without raw pointers.
const LOGICAL: u32 = 0;
/// Addressing model with 64-bit addresses of storage buffers.
const PHYSICAL_STORAGE_BUFFER_64: u32 = 5348;
/// The Vulkan memory model.
const VULKAN: u32 = 3;

struct Writer<'m> {
    module: &'m Module,
    next_id: u32,
    /// Ids of the module's types, 0 until one is declared.
    types: Vec<u32>,
    /// Ids of the module's values, 0 until one is needed.
    values: Vec<u32>,
    pool: BTreeMap<PoolKey, u32>,
    /// Id of the extended instruction set, 0 until one of its instructions is written.
    glsl: u32,
    roots: Vec<Option<ValueId>>,
    touched: Vec<Touched>,
    loops: Vec<OpenLoop>,
    /// Ids of the functions that instructions call.
    callees: Vec<u32>,
    debug: Debug,
    names: Section,
    annotations: Section,
    declarations: Section,
    code: Section,
}

impl Writer<'_> {
    fn fresh(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn glsl_set(&mut self) -> u32 {
        if self.glsl == 0 {
            self.glsl = self.fresh();
        }
        self.glsl
    }
}

/// Writes a verified module's words.
pub fn lower(verified: &VerifiedModule) -> StagedKernel {
    let module = verified.module();
    let mut writer = Writer {
        module,
        next_id: 0,
        types: vec![0; module.types.len()],
        values: vec![0; module.values.len()],
        pool: BTreeMap::new(),
        glsl: 0,
        roots: module.pointer_roots(),
        touched: touched(module),
        loops: Vec::new(),
        callees: Vec::new(),
        debug: Debug::default(),
        names: Section::default(),
        annotations: Section::default(),
        declarations: Section::default(),
        code: Section::default(),
    };
    let entry = writer.fresh();
    writer.names.push(Op::Name, 0, 0, vec![id(entry), string(ENTRY)], None);
    for (index, global) in module.globals.iter().enumerate() {
        writer.global(index, global);
    }
    writer.callees = module.callees.iter().map(|_| writer.fresh()).collect();
    writer.entry(&module.entry, entry);
    for (index, callee) in module.callees.iter().enumerate() {
        writer.callee(index, callee);
    }

    let layout =
        interface::layout(module, &writer.touched, capabilities::needed(module).into_keys().collect());
    let mut head = Section::default();
    for capability in &layout.capabilities {
        head.push(Op::Capability, 0, 0, vec![word(capability.number())], None);
    }
    // 1.6 has all of them built in today; a capability that has not names its extension in the table.
    let mut extensions: Vec<&str> = layout.capabilities.iter().filter_map(|c| c.extension()).collect();
    extensions.sort_unstable();
    extensions.dedup();
    for extension in extensions {
        head.push(Op::Extension, 0, 0, vec![string(extension)], None);
    }
    if writer.glsl != 0 {
        head.push(Op::ExtInstImport, 0, writer.glsl, vec![string("GLSL.std.450")], None);
    }
    if writer.debug.printf != 0 {
        head.push(Op::ExtInstImport, 0, writer.debug.printf, vec![string(debug::PRINTF)], None);
    }
    let by_address = layout.capabilities.contains(&Capability::PhysicalStorageBufferAddresses);
    let addressing = if by_address { PHYSICAL_STORAGE_BUFFER_64 } else { LOGICAL };
    head.push(Op::MemoryModel, 0, 0, vec![word(addressing), word(VULKAN)], None);
    let mut operands = vec![word(GL_COMPUTE), id(entry), string(ENTRY)];
    operands.extend(module.globals.iter().map(|g| id(writer.values[g.value.0 as usize])));
    head.push(Op::EntryPoint, 0, 0, operands, None);
    let mut operands = vec![id(entry), word(ExecutionMode::LocalSize.number())];
    operands.extend(module.local_size.map(word));
    head.push(Op::ExecutionMode, 0, 0, operands, None);

    let mut words = vec![MAGIC, VERSION_1_6, 0, writer.next_id + 1, 0];
    let mut source = SourceMap::default();
    for section in
        [head, writer.debug.strings, writer.names, writer.annotations, writer.declarations, writer.code]
    {
        section.append_to(&mut words, &mut source);
    }
    StagedKernel { name: module.name.clone(), words, source, layout }
}
