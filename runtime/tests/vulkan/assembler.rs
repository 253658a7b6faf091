//! A small SPIR-V assembler: kernels of u32 buffers, written word by word so that no compiler is under test here.

use kiln_abi::{
    Access, BindingLayout, DType, KernelLayout, PushField, StagedKernel,
    spirv::{Capability, MAGIC, VERSION_1_6},
};

/// An id of the module.
pub type Id = u32;

const VOID: Id = 1;
const U32: Id = 2;
const BOOL: Id = 3;
const FIRST_FREE: Id = 4;

/// A kernel that is being assembled. Ids are handed out in order; sections are joined at the end.
pub struct Assembler {
    next: Id,
    annotations: Vec<u32>,
    types: Vec<u32>,
    code: Vec<u32>,
    interface: Vec<Id>,
    layout: KernelLayout,
    buffers: Vec<Id>,
    push: Option<Id>,
    pointer_storage: Id,
    pointer_push: Id,
    last_label: Id,
}

fn op(words: &mut Vec<u32>, opcode: u32, operands: &[u32]) {
    words.push((operands.len() as u32 + 1) << 16 | opcode);
    words.extend_from_slice(operands);
}

fn string(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((bytes.len() / 4 + 1) * 4, 0);
    bytes.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

impl Assembler {
    /// A kernel with u32 buffers, `push` u32 push constants and `local` invocations along x.
    pub fn new(local: u32, bindings: &[(&str, Access)], push: u32) -> Self {
        let binding = |(index, &(name, access)): (usize, &(&str, Access))| BindingLayout {
            name: name.into(),
            index: index as u32,
            elem: "u32".into(),
            elem_bytes: 4,
            access,
        };
        let field = |at: u32| PushField { name: format!("p{at}"), dtype: DType::U32, offset_bytes: at * 4 };
        let layout = KernelLayout {
            entry: "main".into(),
            bindings: bindings.iter().enumerate().map(binding).collect(),
            push: (0..push).map(field).collect(),
            local_size: [local, 1, 1],
            subgroup_size: None,
            workgroup_bytes: 0,
            capabilities: vec![Capability::Shader, Capability::VulkanMemoryModel],
            products: Vec::new(),
            checked: true,
            fragments: false,
        };
        let mut it = Self {
            next: FIRST_FREE,
            annotations: Vec::new(),
            types: Vec::new(),
            code: Vec::new(),
            interface: Vec::new(),
            layout,
            buffers: Vec::new(),
            push: None,
            pointer_storage: 0,
            pointer_push: 0,
            last_label: 0,
        };
        op(&mut it.types, 19, &[VOID]);
        op(&mut it.types, 21, &[U32, 32, 0]);
        op(&mut it.types, 20, &[BOOL]);
        it.declare_buffers(bindings);
        if push > 0 {
            it.declare_push(push);
        }
        it
    }

    pub fn id(&mut self) -> Id {
        self.next += 1;
        self.next - 1
    }

    fn declare_buffers(&mut self, bindings: &[(&str, Access)]) {
        let (array, block, pointer) = (self.id(), self.id(), self.id());
        self.pointer_storage = self.id();
        op(&mut self.types, 29, &[array, U32]);
        op(&mut self.types, 30, &[block, array]);
        op(&mut self.types, 32, &[pointer, 12, block]);
        op(&mut self.types, 32, &[self.pointer_storage, 12, U32]);
        op(&mut self.annotations, 71, &[array, 6, 4]);
        op(&mut self.annotations, 71, &[block, 2]);
        op(&mut self.annotations, 72, &[block, 0, 35, 0]);
        for index in 0..bindings.len() as u32 {
            let variable = self.id();
            op(&mut self.types, 59, &[pointer, variable, 12]);
            op(&mut self.annotations, 71, &[variable, 34, 0]);
            op(&mut self.annotations, 71, &[variable, 33, index]);
            self.buffers.push(variable);
            self.interface.push(variable);
        }
    }

    fn declare_push(&mut self, fields: u32) {
        let (block, pointer, variable) = (self.id(), self.id(), self.id());
        self.pointer_push = self.id();
        let members = vec![U32; fields as usize];
        op(&mut self.types, 30, &[&[block], members.as_slice()].concat());
        op(&mut self.types, 32, &[pointer, 9, block]);
        op(&mut self.types, 32, &[self.pointer_push, 9, U32]);
        op(&mut self.types, 59, &[pointer, variable, 9]);
        op(&mut self.annotations, 71, &[block, 2]);
        for field in 0..fields {
            op(&mut self.annotations, 72, &[block, field, 35, field * 4]);
        }
        self.push = Some(variable);
        self.interface.push(variable);
    }

    /// Declares a capability, in the words and in the layout.
    pub fn capability(&mut self, capability: Capability) {
        self.layout.capabilities.push(capability);
        self.layout.capabilities.sort();
    }

    pub fn require_subgroup_size(&mut self, size: u32) {
        self.layout.subgroup_size = Some(size);
    }

    pub fn constant(&mut self, value: u32) -> Id {
        let id = self.id();
        op(&mut self.types, 43, &[U32, id, value]);
        id
    }

    /// An input variable of type `kind`, to be loaded.
    fn builtin(&mut self, kind: Id, builtin: u32) -> Id {
        let (pointer, variable) = (self.id(), self.id());
        op(&mut self.types, 32, &[pointer, 1, kind]);
        op(&mut self.types, 59, &[pointer, variable, 1]);
        op(&mut self.annotations, 71, &[variable, 11, builtin]);
        self.interface.push(variable);
        self.result(61, kind, &[variable])
    }

    /// The invocation's index along x.
    pub fn global_index(&mut self) -> Id {
        let vector = self.id();
        op(&mut self.types, 23, &[vector, U32, 3]);
        let whole = self.builtin(vector, 28);
        self.result(81, U32, &[whole, 0])
    }

    pub fn subgroup_size(&mut self) -> Id {
        self.capability(Capability::GroupNonUniform);
        self.builtin(U32, 36)
    }

    fn result(&mut self, opcode: u32, kind: Id, operands: &[u32]) -> Id {
        let id = self.id();
        op(&mut self.code, opcode, &[&[kind, id], operands].concat());
        id
    }

    pub fn add(&mut self, a: Id, b: Id) -> Id {
        self.result(128, U32, &[a, b])
    }

    pub fn multiply(&mut self, a: Id, b: Id) -> Id {
        self.result(132, U32, &[a, b])
    }

    pub fn load(&mut self, buffer: usize, index: Id) -> Id {
        let zero = self.constant(0);
        let at = self.result(65, self.pointer_storage, &[self.buffers[buffer], zero, index]);
        self.result(61, U32, &[at])
    }

    pub fn store(&mut self, buffer: usize, index: Id, value: Id) {
        let zero = self.constant(0);
        let at = self.result(65, self.pointer_storage, &[self.buffers[buffer], zero, index]);
        op(&mut self.code, 62, &[at, value]);
    }

    pub fn push(&mut self, field: u32) -> Id {
        let index = self.constant(field);
        let variable = self.push.expect("the kernel has push constants");
        let at = self.result(65, self.pointer_push, &[variable, index]);
        self.result(61, U32, &[at])
    }

    fn label(&mut self, id: Id) {
        op(&mut self.code, 248, &[id]);
        self.last_label = id;
    }

    /// `if a < b { body }`
    pub fn if_less(&mut self, a: Id, b: Id, body: impl FnOnce(&mut Self)) {
        let test = self.result(176, BOOL, &[a, b]);
        let (inside, after) = (self.id(), self.id());
        op(&mut self.code, 247, &[after, 0]);
        op(&mut self.code, 250, &[test, inside, after]);
        self.label(inside);
        body(self);
        op(&mut self.code, 249, &[after]);
        self.label(after);
    }

    /// `let mut x = start; for _ in 0..count { x = body(x) }; x`
    pub fn repeat(&mut self, start: Id, count: Id, body: impl FnOnce(&mut Self, Id) -> Id) -> Id {
        let (zero, one) = (self.constant(0), self.constant(1));
        let [head, inside, next, after] = [(); 4].map(|()| self.id());
        let [index, value, new_index] = [(); 3].map(|()| self.id());
        let before = self.last_label;
        op(&mut self.code, 249, &[head]);
        self.label(head);
        op(&mut self.code, 245, &[U32, index, zero, before, new_index, next]);
        let value_phi_at = self.code.len();
        op(&mut self.code, 245, &[U32, value, start, before, 0, next]);
        let test = self.result(176, BOOL, &[index, count]);
        op(&mut self.code, 246, &[after, next, 0]);
        op(&mut self.code, 250, &[test, inside, after]);
        self.label(inside);
        let new_value = body(self, value);
        self.code[value_phi_at + 5] = new_value;
        op(&mut self.code, 249, &[next]);
        self.label(next);
        op(&mut self.code, 128, &[U32, new_index, index, one]);
        op(&mut self.code, 249, &[head]);
        self.label(after);
        value
    }

    /// The kernel, under a name.
    pub fn finish(mut self, name: &str) -> StagedKernel {
        let [signature, function, entry] = [(); 3].map(|()| self.id());
        let mut words = vec![MAGIC, VERSION_1_6, 0, self.next, 0];
        for capability in &self.layout.capabilities {
            op(&mut words, 17, &[capability.number()]);
        }
        for extension in self.layout.capabilities.iter().filter_map(|c| c.extension()) {
            op(&mut words, 10, &string(extension));
        }
        op(&mut words, 14, &[0, 3]);
        op(&mut words, 15, &[&[5, function], string("main").as_slice(), &self.interface].concat());
        let [x, y, z] = self.layout.local_size;
        op(&mut words, 16, &[function, 17, x, y, z]);
        words.extend(self.annotations);
        words.extend(self.types);
        op(&mut words, 33, &[signature, VOID]);
        op(&mut words, 54, &[VOID, function, 0, signature]);
        op(&mut words, 248, &[entry]);
        words.extend(self.code);
        op(&mut words, 253, &[]);
        op(&mut words, 56, &[]);
        StagedKernel { name: name.into(), words, source: Default::default(), layout: self.layout }
    }
}
