//! Builds a [`Module`]: interns types and constants, keeps the stack of open regions, collects errors.
//!
//! The builder checks what depends on the moment of the call (scope, code after a terminator, break outside a loop);
//! everything that can be read off a finished module is the validator's.

mod callee;
mod control;
mod instructions;
mod types;
mod variables;

use std::collections::BTreeMap;

use kiln_abi::{Location, StageError, StageErrors, spirv::BuiltIn};

use self::callee::OpenCallee;
use crate::ir::{Const, Function, Module, Node, Region, RegionId, Stated, Type, TypeId, ValueId};

struct OpenRegion {
    id: RegionId,
    nodes: Vec<Node>,
    terminated: bool,
    unreachable_reported: bool,
}

/// Builds one kernel variant.
pub struct Builder {
    module: Module,
    types: BTreeMap<Type, TypeId>,
    consts: BTreeMap<Const, ValueId>,
    builtins: BTreeMap<BuiltIn, ValueId>,
    open: Vec<OpenRegion>,
    /// For each region, the region it was spliced into.
    spliced: Vec<Option<RegionId>>,
    /// Headers of the loops being staged.
    loop_headers: Vec<RegionId>,
    /// The callee being built, if one is.
    callee: Option<OpenCallee>,
    errors: Vec<StageError>,
}

impl Builder {
    /// An empty kernel with its outermost region open.
    pub fn new(name: &str, local_size: [u32; 3], subgroup_size: Option<u32>) -> Self {
        let body = Region { id: RegionId(0), nodes: Vec::new() };
        let module = Module {
            name: name.to_owned(),
            local_size,
            subgroup_size,
            stated: Stated::default(),
            types: Vec::new(),
            values: Vec::new(),
            globals: Vec::new(),
            lines: false,
            callees: Vec::new(),
            entry: Function { locals: Vec::new(), prologue: Vec::new(), body },
        };
        let mut builder = Builder {
            module,
            types: BTreeMap::new(),
            consts: BTreeMap::new(),
            builtins: BTreeMap::new(),
            open: Vec::new(),
            spliced: Vec::new(),
            loop_headers: Vec::new(),
            callee: None,
            errors: Vec::new(),
        };
        builder.open_region();
        builder
    }

    /// Invocations of a workgroup along x, y, z.
    pub fn local_size(&self) -> [u32; 3] {
        self.module.local_size
    }

    /// What the kernel says of its devices, to be changed.
    pub fn stated(&mut self) -> &mut Stated {
        &mut self.module.stated
    }

    /// The subgroup size that the kernel asks for.
    pub fn subgroup_size(&self) -> Option<u32> {
        self.module.subgroup_size
    }

    /// Lets the words name the source line of each instruction.
    pub fn name_lines(&mut self, lines: bool) {
        self.module.lines = lines;
    }

    /// Notes an error; the kernel will have no words.
    pub fn error(&mut self, code: &'static str, message: String, at: Location) {
        self.errors.push(StageError { code, message, at });
    }

    /// The finished module.
    ///
    /// # Errors
    /// Everything noted while building, in source order.
    pub fn finish(mut self) -> Result<Module, StageErrors> {
        self.module.entry.body = self.close_region();
        if self.errors.is_empty() {
            return Ok(self.module);
        }
        self.errors.sort_by_key(|e| (e.at, e.code));
        self.errors.dedup();
        Err(StageErrors { kernel: self.module.name, errors: self.errors })
    }
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
