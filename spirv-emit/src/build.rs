//! Builds a [`Module`]: interns types and constants, keeps the stack of open regions, collects errors.
//!
//! The builder checks what depends on the moment of the call (scope, code after a terminator, break outside a loop);
//! everything that can be read off a finished module is the validator's.

use std::collections::BTreeMap;

use kiln_abi::{
    DType, Location, StageError, StageErrors,
    spirv::{BuiltIn, Effect, Op, OpResult, StorageClass},
};

use crate::{
    fold::{Folded, fold},
    ir::{
        Const, Function, Global, GlobalKind, Inst, LoopControl, Member, Module, Node, Operand, Region,
        RegionId, Type, TypeId, Value, ValueId, ValueKind,
    },
    layout::{self, LayoutError},
};

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
            types: Vec::new(),
            values: Vec::new(),
            globals: Vec::new(),
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
            errors: Vec::new(),
        };
        builder.open_region();
        builder
    }

    // ---- types -------------------------------------------------------------------------------------------------

    /// The id of a type.
    pub fn ty(&mut self, ty: Type) -> TypeId {
        if let Some(&id) = self.types.get(&ty) {
            return id;
        }
        let id = TypeId(index(self.module.types.len()));
        self.module.types.push(ty.clone());
        self.types.insert(ty, id);
        id
    }

    /// The id of a scalar type.
    pub fn scalar(&mut self, dtype: DType) -> TypeId {
        self.ty(Type::Scalar(dtype))
    }

    /// The type behind an id.
    pub fn type_of_id(&self, id: TypeId) -> &Type {
        self.module.ty(id)
    }

    /// A value's type.
    pub fn type_of(&self, value: ValueId) -> TypeId {
        self.module.value(value).ty
    }

    /// An array type for buffers, its stride set.
    pub fn buffer_array(&mut self, elem: TypeId, len: u32, at: Location) -> TypeId {
        let stride = layout::stride(&self.module.types, elem);
        let stride = self.or_no_layout(stride, at);
        self.ty(Type::Array { elem, len, stride })
    }

    /// A struct type for buffers' elements, its offsets set.
    pub fn buffer_struct(&mut self, name: &str, members: &[(&str, TypeId)], at: Location) -> TypeId {
        self.laid_out(name, members, false, at)
    }

    /// The push-constant block's struct type, its offsets set.
    pub fn push_struct(&mut self, name: &str, members: &[(&str, TypeId)], at: Location) -> TypeId {
        self.laid_out(name, members, true, at)
    }

    fn laid_out(&mut self, name: &str, members: &[(&str, TypeId)], block: bool, at: Location) -> TypeId {
        let parts: Vec<TypeId> = members.iter().map(|m| m.1).collect();
        let placed = layout::place(&self.module.types, &parts);
        let offsets = self.or_no_layout(placed, at).map(|placed| placed.offsets);
        let members = members.iter().enumerate().map(|(i, &(name, ty))| Member {
            name: name.to_owned(),
            ty,
            offset: offsets.as_ref().map(|offsets| offsets[i]),
        });
        let members = members.collect();
        self.ty(Type::Struct { name: name.to_owned(), members, block })
    }

    fn or_no_layout<T>(&mut self, layout: Result<T, LayoutError>, at: Location) -> Option<T> {
        layout.inspect_err(|e| self.error("E014", e.to_string(), at)).ok()
    }

    // ---- constants ---------------------------------------------------------------------------------------------

    /// The value of a constant, pooled.
    pub fn constant(&mut self, constant: Const) -> ValueId {
        if let Some(&id) = self.consts.get(&constant) {
            return id;
        }
        let ty = match &constant {
            Const::Bool(_) => self.scalar(DType::Bool),
            Const::Scalar { ty, .. } | Const::Composite { ty, .. } | Const::Null(ty) => *ty,
        };
        let kind = ValueKind::Const(constant.clone());
        let id = self.value(ty, kind, None, Location::caller());
        self.consts.insert(constant, id);
        id
    }

    /// A scalar constant from its bits.
    pub fn scalar_const(&mut self, dtype: DType, bits: u32) -> ValueId {
        let ty = self.scalar(dtype);
        self.constant(Const::Scalar { ty, bits })
    }

    /// The constant a value is, if it is one.
    pub fn as_const(&self, value: ValueId) -> Option<&Const> {
        match &self.module.value(value).kind {
            ValueKind::Const(c) => Some(c),
            ValueKind::Global(_) | ValueKind::Local(_) | ValueKind::Inst => None,
        }
    }

    // ---- variables ---------------------------------------------------------------------------------------------

    /// Declares a storage buffer of `elem`s; returns the pointer to its block, whose member 0 is the array.
    pub fn buffer(
        &mut self,
        name: &str,
        elem: TypeId,
        stride: u32,
        kind: GlobalKind,
        at: Location,
    ) -> ValueId {
        let array = self.ty(Type::RuntimeArray { elem, stride });
        let member = Member { name: "elems".to_owned(), ty: array, offset: Some(0) };
        let block = self.ty(Type::Struct { name: name.to_owned(), members: vec![member], block: true });
        self.global(name, StorageClass::StorageBuffer, block, kind, at)
    }

    /// Declares the push-constant block; returns the pointer to its struct.
    pub fn push_block(&mut self, name: &str, block: TypeId, at: Location) -> ValueId {
        self.global(name, StorageClass::PushConstant, block, GlobalKind::Push { block }, at)
    }

    /// Declares workgroup memory of type `ty`; returns its pointer.
    pub fn workgroup(&mut self, name: &str, ty: TypeId, at: Location) -> ValueId {
        self.global(name, StorageClass::Workgroup, ty, GlobalKind::Workgroup, at)
    }

    /// The value of a builtin, loaded once at the top of the kernel.
    pub fn builtin(&mut self, builtin: BuiltIn, at: Location) -> ValueId {
        if let Some(&value) = self.builtins.get(&builtin) {
            return value;
        }
        let ty = match builtin {
            BuiltIn::NumWorkgroups
            | BuiltIn::WorkgroupId
            | BuiltIn::LocalInvocationId
            | BuiltIn::GlobalInvocationId => Type::Vector { elem: DType::U32, n: 3 },
            BuiltIn::LocalInvocationIndex
            | BuiltIn::SubgroupSize
            | BuiltIn::NumSubgroups
            | BuiltIn::SubgroupId
            | BuiltIn::SubgroupLocalInvocationId => Type::Scalar(DType::U32),
        };
        let ty = self.ty(ty);
        let kind = GlobalKind::BuiltIn(builtin);
        let pointer = self.global(builtin.name(), StorageClass::Input, ty, kind, at);
        let value = self.value(ty, ValueKind::Inst, Some(RegionId(0)), at);
        let operands = vec![Operand::Value(pointer)];
        let load = Inst { op: Op::Load, result: Some(value), operands, no_contraction: false, at };
        self.module.entry.prologue.push(load);
        self.builtins.insert(builtin, value);
        value
    }

    /// Declares a local variable of type `ty`; returns its pointer.
    pub fn local(&mut self, ty: TypeId, at: Location) -> ValueId {
        let pointer = self.ty(Type::Pointer { class: StorageClass::Function, pointee: ty });
        let kind = ValueKind::Local(self.module.entry.locals.len());
        let value = self.value(pointer, kind, None, at);
        self.module.entry.locals.push(value);
        value
    }

    fn global(
        &mut self,
        name: &str,
        class: StorageClass,
        ty: TypeId,
        kind: GlobalKind,
        at: Location,
    ) -> ValueId {
        let pointer = self.ty(Type::Pointer { class, pointee: ty });
        let value = self.value(pointer, ValueKind::Global(self.module.globals.len()), None, at);
        self.module.globals.push(Global { name: name.to_owned(), kind, value, class, at });
        value
    }

    fn value(&mut self, ty: TypeId, kind: ValueKind, region: Option<RegionId>, at: Location) -> ValueId {
        let id = ValueId(index(self.module.values.len()));
        self.module.values.push(Value { ty, kind, region, at });
        id
    }

    // ---- instructions ------------------------------------------------------------------------------------------

    /// Appends an instruction that has a result of type `ty`, or gives the constant it folds to.
    pub fn inst(&mut self, op: Op, ty: TypeId, operands: Vec<Operand>, at: Location) -> ValueId {
        debug_assert_eq!(op.result(), OpResult::Typed);
        self.check_operands(&operands, at);
        match fold(&self.module, op, ty, &operands) {
            Folded::Const(constant) => return self.constant(constant),
            Folded::Value(value) => return value,
            Folded::Refused(code, message) => self.error(code, message, at),
            Folded::No => {}
        }
        let region = self.current();
        let result = self.value(ty, ValueKind::Inst, Some(region), at);
        let inst = Inst { op, result: Some(result), operands, no_contraction: is_float_arithmetic(op), at };
        self.node(Node::Inst(inst), at);
        result
    }

    /// Appends an instruction without a result.
    pub fn effect(&mut self, op: Op, operands: Vec<Operand>, at: Location) {
        debug_assert_eq!(op.result(), OpResult::None);
        self.check_operands(&operands, at);
        self.node(Node::Inst(Inst { op, result: None, operands, no_contraction: false, at }), at);
    }

    /// A pointer into `base` by `indices`: constants pick struct members, any integer picks an array element.
    ///
    /// The result's type follows from the base's; an index that does not fit the type is an error at `at`.
    pub fn access_chain(&mut self, base: ValueId, indices: &[ValueId], at: Location) -> ValueId {
        let Type::Pointer { class, pointee } = *self.module.ty(self.type_of(base)) else {
            self.error("E010", "an access chain starts at a pointer; found a value".to_owned(), at);
            return base;
        };
        let mut ty = pointee;
        for &i in indices {
            ty = match self.module.ty(ty).clone() {
                Type::Array { elem, .. } | Type::RuntimeArray { elem, .. } => elem,
                Type::Vector { elem, .. } => self.scalar(elem),
                Type::Struct { members, .. } => {
                    let member = match self.as_const(i) {
                        Some(Const::Scalar { bits, .. }) => members.get(*bits as usize),
                        _ => None,
                    };
                    let Some(member) = member else {
                        self.error("E011", "a struct member is picked by a constant in range".to_owned(), at);
                        return base;
                    };
                    member.ty
                }
                Type::Scalar(_) | Type::Pointer { .. } => {
                    self.error("E012", "only arrays, vectors and structs are indexed".to_owned(), at);
                    return base;
                }
            };
        }
        let pointer = self.ty(Type::Pointer { class, pointee: ty });
        let operands = std::iter::once(base).chain(indices.iter().copied()).map(Operand::Value).collect();
        self.inst(Op::AccessChain, pointer, operands, at)
    }

    /// Loads from a pointer.
    pub fn load(&mut self, pointer: ValueId, at: Location) -> ValueId {
        let ty = match self.module.ty(self.type_of(pointer)) {
            Type::Pointer { pointee, .. } => *pointee,
            _ => {
                self.error("E013", "a load needs a pointer".to_owned(), at);
                return pointer;
            }
        };
        self.inst(Op::Load, ty, vec![Operand::Value(pointer)], at)
    }

    /// Stores to a pointer.
    pub fn store(&mut self, pointer: ValueId, value: ValueId, at: Location) {
        self.effect(Op::Store, vec![Operand::Value(pointer), Operand::Value(value)], at);
    }

    // ---- control -----------------------------------------------------------------------------------------------

    /// Opens a child region: what follows goes into it.
    pub fn open_region(&mut self) -> RegionId {
        let id = RegionId(index(self.spliced.len()));
        self.spliced.push(None);
        self.open.push(OpenRegion { id, nodes: Vec::new(), terminated: false, unreachable_reported: false });
        id
    }

    /// Closes the innermost region and hands it out; pass it to [`Builder::branch`], [`Builder::repeat`] or
    /// [`Builder::splice`].
    pub fn close_region(&mut self) -> Region {
        match self.open.pop() {
            Some(open) => Region { id: open.id, nodes: open.nodes },
            None => Region { id: RegionId(0), nodes: Vec::new() },
        }
    }

    /// Appends a branch.
    pub fn branch(&mut self, cond: ValueId, then: Region, otherwise: Region, at: Location) {
        self.check_operands(&[Operand::Value(cond)], at);
        let terminated = then.terminated() && otherwise.terminated();
        self.node(Node::If { cond, then, otherwise, at }, at);
        self.set_terminated(terminated);
    }

    /// Enters a loop whose header is staged: its values are visible, and `break` and `continue` are legal, until
    /// [`Builder::leave_loop`]. Stage the body and the step in between.
    pub fn enter_loop(&mut self, header: &Region) {
        self.loop_headers.push(header.id);
    }

    /// The counterpart of [`Builder::enter_loop`].
    pub fn leave_loop(&mut self) {
        self.loop_headers.pop();
    }

    /// Appends a loop: see [`Node::Loop`].
    pub fn repeat(
        &mut self,
        header: Region,
        cond: Option<ValueId>,
        (body, step): (Region, Region),
        control: LoopControl,
        at: Location,
    ) {
        let node = Node::Loop { header, cond, body, step, control, at };
        let terminated = node.terminated();
        self.node(node, at);
        self.set_terminated(terminated);
    }

    /// Appends a `break`.
    pub fn brk(&mut self, at: Location) {
        self.leave(Node::Break(at), "break", at);
    }

    /// Appends a `continue`.
    pub fn cont(&mut self, at: Location) {
        self.leave(Node::Continue(at), "continue", at);
    }

    /// Appends a `return`.
    pub fn ret(&mut self, at: Location) {
        self.node(Node::Return(at), at);
        self.set_terminated(true);
    }

    /// Puts a closed region's nodes into the current one; its values become the current region's.
    pub fn splice(&mut self, region: Region) {
        let current = self.current();
        self.spliced[region.id.0 as usize] = Some(current);
        let terminated = region.terminated();
        if let Some(open) = self.open.last_mut() {
            open.nodes.extend(region.nodes);
            open.terminated |= terminated;
        }
    }

    /// Whether running the region's instructions is total and free of side effects, so that a select may replace the
    /// branch: pure ops, partial ops whose operand makes them total, and loads of local variables only.
    pub fn is_speculatable(&self, region: &Region) -> bool {
        region.nodes.iter().all(|node| match node {
            Node::Inst(inst) => match inst.op.effect() {
                Effect::Pure => true,
                Effect::Partial => self.partial_is_total(inst),
                Effect::Load => self.loads_local(inst),
                Effect::Declare
                | Effect::Store
                | Effect::Call
                | Effect::Barrier
                | Effect::Subgroup
                | Effect::Control => false,
            },
            Node::If { .. } | Node::Loop { .. } | Node::Break(_) | Node::Continue(_) | Node::Return(_) => {
                false
            }
        })
    }

    fn loads_local(&self, inst: &Inst) -> bool {
        let Some(Operand::Value(pointer)) = inst.operands.first() else { return false };
        matches!(self.module.value(*pointer).kind, ValueKind::Local(_))
    }

    fn partial_is_total(&self, inst: &Inst) -> bool {
        let Some(Operand::Value(second)) = inst.operands.get(1) else { return false };
        let (Some(Const::Scalar { bits, .. }), Some(Operand::Value(first))) =
            (self.as_const(*second), inst.operands.first())
        else {
            return false;
        };
        let width = match self.module.ty(self.type_of(*first)) {
            Type::Scalar(d) => d.bytes() * 8,
            Type::Vector { .. }
            | Type::Array { .. }
            | Type::RuntimeArray { .. }
            | Type::Struct { .. }
            | Type::Pointer { .. } => 0,
        };
        match inst.op {
            Op::ShiftLeftLogical | Op::ShiftRightLogical | Op::ShiftRightArithmetic => *bits < width,
            Op::UDiv | Op::UMod => *bits != 0,
            Op::SDiv | Op::SRem => *bits != 0 && *bits != u32::MAX,
            _ => false,
        }
    }

    fn leave(&mut self, node: Node, word: &str, at: Location) {
        if self.loop_headers.is_empty() {
            self.error("E020", format!("`{word}` outside a run-time loop"), at);
        }
        self.node(node, at);
        self.set_terminated(true);
    }

    fn set_terminated(&mut self, terminated: bool) {
        if let Some(open) = self.open.last_mut() {
            open.terminated |= terminated;
        }
    }

    fn node(&mut self, node: Node, at: Location) {
        let Some(open) = self.open.last_mut() else { return };
        if open.terminated {
            if !open.unreachable_reported {
                open.unreachable_reported = true;
                let message =
                    "this is never reached: the block has already left by return, break or continue";
                self.error("E021", message.to_owned(), at);
            }
            return;
        }
        open.nodes.push(node);
    }

    fn current(&self) -> RegionId {
        self.open.last().map_or(RegionId(0), |o| o.id)
    }

    fn visible(&self, mut region: RegionId) -> bool {
        while let Some(outer) = self.spliced[region.0 as usize] {
            region = outer;
        }
        self.open.iter().any(|o| o.id == region) || self.loop_headers.contains(&region)
    }

    fn check_operands(&mut self, operands: &[Operand], at: Location) {
        for operand in operands {
            let Operand::Value(value) = operand else { continue };
            let value = self.module.value(*value);
            if value.region.is_some_and(|r| !self.visible(r)) {
                let made = value.at;
                let message =
                    format!("the value made at {made} is used outside its block; keep it in a `let mut`");
                self.error("E022", message, at);
            }
        }
    }

    // ---- end ---------------------------------------------------------------------------------------------------

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

/// Float operations that a driver could fuse: kernels say `fma` where they mean it.
fn is_float_arithmetic(op: Op) -> bool {
    matches!(op, Op::FAdd | Op::FSub | Op::FMul | Op::VectorTimesScalar | Op::Dot)
}
