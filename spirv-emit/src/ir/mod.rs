//! The IR: typed values in structured regions.
//!
//! A kernel is one [`Function`]: local variables, then a [`Region`]. A region is a list of [`Node`]s that run in
//! order; `If` and `Loop` hold child regions, so control flow is structured by construction and there are no phis:
//! what crosses a merge goes through a local variable.
//!
//! *Scope.* A value may be used after its definition in its own region and in every region nested in it, nowhere
//! else. *Evaluation.* Operands are evaluated where they are listed; nothing moves. *Memory.* Loads and stores name
//! a pointer value; which of them need memory-model operands is derived when the module is lowered, because it
//! depends on who else touches the buffer.

mod types;
mod walk;

use std::collections::BTreeSet;

use kiln_abi::{
    Floor, Location,
    spirv::{Capability, GlslOp, GroupOperation, MemorySemantics, Op, Scope, StorageClass},
};
pub use types::{MatrixType, Member, Type, TypeId};
pub use walk::for_each_node;

/// An SSA value, a constant, a variable's pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A region; child regions have ids of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A constant.
    Const(Const),
    /// A module-scope variable: index into [`Module::globals`].
    Global(usize),
    /// A local variable: index into [`Function::locals`].
    Local(usize),
    /// A parameter of a callee.
    Param,
    /// An instruction's result.
    Inst,
}

/// One value: its type, what it is, where it is visible, where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Type.
    pub ty: TypeId,
    /// What it is.
    pub kind: ValueKind,
    /// The region that defines it; `None` for constants and variables, which are visible everywhere.
    pub region: Option<RegionId>,
    /// The user's token.
    pub at: Location,
}

/// A constant; pooled, so equal constants have one [`ValueId`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Const {
    /// A truth value.
    Bool(bool),
    /// An integer or float of `ty`, as the low bits of a word (sign-extended for signed 8- and 16-bit integers).
    Scalar {
        /// Scalar type.
        ty: TypeId,
        /// Bits.
        bits: u32,
    },
    /// A vector or array of constants.
    Composite {
        /// Composite type.
        ty: TypeId,
        /// One constant per part.
        parts: Vec<ValueId>,
    },
    /// All zero.
    Null(TypeId),
}

/// What a module-scope variable is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalKind {
    /// A storage buffer in set 0: `Block { elem[] }`.
    Buffer {
        /// Binding number.
        binding: u32,
        /// Element type (laid out).
        elem: TypeId,
        /// The element type's name for the layout record.
        elem_name: String,
        /// Declared `BufMut`: the kernel may store to it.
        writable: bool,
        /// Another element type over a binding that is declared already.
        view: bool,
    },
    /// The push-constant block.
    Push {
        /// Its struct type, offsets set.
        block: TypeId,
    },
    /// Workgroup memory.
    Workgroup,
    /// A compute builtin.
    BuiltIn(kiln_abi::spirv::BuiltIn),
}

/// A module-scope variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The parameter's or variable's name.
    pub name: String,
    /// What it is for.
    pub kind: GlobalKind,
    /// The pointer value.
    pub value: ValueId,
    /// Storage class.
    pub class: StorageClass,
    /// The user's token.
    pub at: Location,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A value.
    Value(ValueId),
    /// A literal word (component index, member index).
    Lit(u32),
    /// A scope; becomes a constant id.
    Scope(Scope),
    /// Memory semantics; becomes a constant id.
    Semantics(MemorySemantics),
    /// A group operation.
    Group(GroupOperation),
    /// An extended instruction.
    Glsl(GlslOp),
    /// A type.
    Type(TypeId),
    /// A function that the instruction calls: index into [`Module::callees`].
    Callee(usize),
}

/// One instruction. Its op is never a declaration or control op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// Operation.
    pub op: Op,
    /// Result, when the op has one.
    pub result: Option<ValueId>,
    /// Operands, in SPIR-V's order, without result type and result.
    pub operands: Vec<Operand>,
    /// The float result must not be contracted.
    pub no_contraction: bool,
    /// The user's token.
    pub at: Location,
}

/// Hint of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopControl {
    /// None.
    #[default]
    None,
    /// Unroll.
    Unroll,
    /// Do not unroll.
    DontUnroll,
}

/// A step of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// One instruction.
    Inst(Inst),
    /// A branch.
    If {
        /// A bool.
        cond: ValueId,
        /// Runs when it is true.
        then: Region,
        /// Runs when it is false.
        otherwise: Region,
        /// The user's token.
        at: Location,
    },
    /// `loop { header; if !cond { break }; body; step }`; `continue` goes to `step`.
    Loop {
        /// Runs before each test; its values are visible in `body` and `step`.
        header: Region,
        /// The test, defined in `header` or outside; `None` loops until `break`.
        cond: Option<ValueId>,
        /// The body.
        body: Region,
        /// Runs after the body and after `continue`.
        step: Region,
        /// Hint.
        control: LoopControl,
        /// The user's token.
        at: Location,
    },
    /// A line for whoever debugs the kernel; nothing depends on it.
    Print {
        /// What is printed, with `%u`, `%d` and `%f` for the values.
        text: String,
        /// 32-bit scalars.
        values: Vec<ValueId>,
        /// The user's token.
        at: Location,
    },
    /// Leaves the innermost loop.
    Break(Location),
    /// Goes to the innermost loop's step.
    Continue(Location),
    /// Leaves the kernel.
    Return(Location),
}

/// A list of nodes with an id of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Id, for scope checks.
    pub id: RegionId,
    /// Nodes in order.
    pub nodes: Vec<Node>,
}

impl Node {
    /// Whether control cannot go on after the node: it leaves, both its arms leave, or it loops without a way out.
    pub fn terminated(&self) -> bool {
        match self {
            Node::Break(_) | Node::Continue(_) | Node::Return(_) => true,
            Node::If { then, otherwise, .. } => then.terminated() && otherwise.terminated(),
            Node::Loop { cond: None, body, .. } => !body.breaks(),
            Node::Inst(_) | Node::Print { .. } | Node::Loop { .. } => false,
        }
    }
}

impl Region {
    /// Whether control cannot leave the region at its end.
    pub fn terminated(&self) -> bool {
        self.nodes.last().is_some_and(Node::terminated)
    }

    /// Whether the region leaves the loop around it.
    fn breaks(&self) -> bool {
        self.nodes.iter().any(|node| match node {
            Node::Break(_) => true,
            Node::If { then, otherwise, .. } => then.breaks() || otherwise.breaks(),
            Node::Inst(_) | Node::Print { .. } | Node::Loop { .. } | Node::Continue(_) | Node::Return(_) => {
                false
            }
        })
    }
}

/// A function: its variables and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Pointer values of the local variables, in order of declaration.
    pub locals: Vec<ValueId>,
    /// Runs first: loads of builtins.
    pub prologue: Vec<Inst>,
    /// The body.
    pub body: Region,
}

/// A function that an instruction calls by itself: it decodes, combines or changes elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// Parameters.
    pub params: Vec<ValueId>,
    /// Its variables and its body, which ends where it ends.
    pub function: Function,
    /// The value it gives.
    pub returns: ValueId,
    /// The user's token.
    pub at: Location,
}

/// What the kernel says of the devices it is for; what it uses beyond is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The capabilities it may need beside those of every module; `None` leaves them to the instructions.
    pub requires: Option<BTreeSet<Capability>>,
    /// Its device's limits are at least these.
    pub floor: Floor,
    /// Drivers are to check its loads and stores.
    pub checked: bool,
    /// It counts on the order of a fragment's elements: `KernelLayout::fragments`.
    pub fragments: bool,
}

/// One kernel variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The variant's name.
    pub name: String,
    /// Invocations per workgroup along x, y, z.
    pub local_size: [u32; 3],
    /// Required subgroup size, if the kernel depends on one.
    pub subgroup_size: Option<u32>,
    /// What it says of its devices.
    pub stated: Stated,
    /// Types, in order of first use.
    pub types: Vec<Type>,
    /// Values.
    pub values: Vec<Value>,
    /// Module-scope variables, in order of declaration.
    pub globals: Vec<Global>,
    /// Each instruction names its source line in the words, for debuggers that read them.
    pub lines: bool,
    /// Functions that instructions call, in order.
    pub callees: Vec<Callee>,
    /// The kernel.
    pub entry: Function,
}

impl Module {
    /// The type behind an id.
    pub fn ty(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The kernel and every callee.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        std::iter::once(&self.entry).chain(self.callees.iter().map(|c| &c.function))
    }

    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }
}
