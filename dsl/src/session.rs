//! The kernel being staged on this thread.
//!
//! Every language function reaches the builder through `with`. Outside staging there is a throw-away kernel, so a
//! stray call builds nothing and cannot panic.

use std::{
    any::TypeId as RustType,
    cell::{Cell, RefCell},
};

use kiln_abi::{
    DType, Location, StageErrors, StagedKernel,
    spirv::{Capability, Op},
};
use kiln_spirv_emit::{
    Builder,
    ir::{Operand, Region, TypeId, ValueId},
};

/// Calls of `#[device]` functions that may be open at once; deeper is recursion.
const MAX_DEPTH: u32 = 64;

pub(crate) struct Stage {
    pub(crate) b: Builder,
    /// Regions that are open beside the outermost.
    open: u32,
    depth: u32,
    recursed: bool,
    dims: Vec<(RustType, u32)>,
    /// Decoding functions by what they decode.
    decoders: Vec<(Decoder, usize)>,
}

/// Format and element, lanes, and the tensor: what its planes and rows are made of.
pub(crate) type Decoder = (RustType, u8, Vec<ValueId>);

/// What staging adds for whoever debugs a kernel; by default nothing, so that the words are the same with and without
/// a kernel's `kprintln!`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debug {
    /// Each instruction names its source line in the words.
    pub lines: bool,
    /// `kprintln!` is staged: the interpreter prints, a Vulkan driver passes over it.
    pub prints: bool,
}

/// Runs `f`, staging this thread's kernels with `debug`.
pub fn debugging<R>(debug: Debug, f: impl FnOnce() -> R) -> R {
    struct Restore(Debug);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEBUG.set(self.0);
        }
    }
    let _outer = Restore(DEBUG.replace(debug));
    f()
}

/// Whether `kprintln!` is staged.
pub fn prints() -> bool {
    DEBUG.get().prints
}

thread_local! {
    static DEBUG: Cell<Debug> = const { Cell::new(Debug { lines: false, prints: false }) };
    static STAGE: RefCell<Stage> = RefCell::new(Stage::new(Builder::new("(no kernel)", [1, 1, 1], None)));
}

impl Stage {
    fn new(b: Builder) -> Self {
        Stage { b, open: 0, depth: 0, recursed: false, dims: Vec::new(), decoders: Vec::new() }
    }

    pub(crate) fn open(&mut self) {
        self.open += 1;
        self.b.open_region();
    }

    pub(crate) fn close(&mut self) -> Region {
        self.open = self.open.saturating_sub(1);
        self.b.close_region()
    }

    /// An instruction whose operands are all values.
    pub(crate) fn op(&mut self, op: Op, ty: TypeId, operands: &[ValueId], at: Location) -> ValueId {
        let operands = operands.iter().copied().map(Operand::Value).collect();
        self.b.inst(op, ty, operands, at)
    }

    pub(crate) fn u32_const(&mut self, n: u32) -> ValueId {
        self.b.scalar_const(DType::U32, n)
    }

    pub(crate) fn set_dim(&mut self, name: RustType, number: u32) -> Option<u32> {
        match self.dims.iter().find(|d| d.0 == name) {
            Some(&(_, old)) => Some(old),
            None => {
                self.dims.push((name, number));
                None
            }
        }
    }

    pub(crate) fn decoder(&self, key: &Decoder) -> Option<usize> {
        self.decoders.iter().find(|d| d.0 == *key).map(|d| d.1)
    }

    pub(crate) fn keep_decoder(&mut self, key: Decoder, callee: usize) {
        self.decoders.push((key, callee));
    }

    pub(crate) fn dim(&self, name: RustType) -> Option<u32> {
        self.dims.iter().find(|d| d.0 == name).map(|d| d.1)
    }
}

pub(crate) fn with<R>(f: impl FnOnce(&mut Stage) -> R) -> R {
    STAGE.with(|s| f(&mut s.borrow_mut()))
}

/// One kernel's staging; the thread's earlier kernel comes back when it ends, also by unwinding.
pub struct Session {
    outer: Option<Stage>,
    at: Location,
}

impl Session {
    /// Starts staging a kernel on this thread.
    #[track_caller]
    pub fn begin(name: &str, local_size: [u32; 3], subgroup: Option<u32>) -> Self {
        let mut inner = Stage::new(Builder::new(name, local_size, subgroup));
        inner.b.name_lines(DEBUG.get().lines);
        Session { outer: Some(with(|s| std::mem::replace(s, inner))), at: Location::caller() }
    }

    /// Ends it: words, layout and source map, or every error.
    ///
    /// # Errors
    /// What the language, the validator and the writer found.
    pub fn finish(mut self) -> Result<StagedKernel, StageErrors> {
        let Some(outer) = self.outer.take() else { return Err(no_errors()) };
        let mut stage = with(|s| std::mem::replace(s, outer));
        while stage.open > 0 {
            let region = stage.close();
            stage.b.splice(region);
            let message =
                "host control flow left a block while it was staged; a `comptime!` may not leave it";
            stage.b.error("E110", message.to_owned(), self.at);
        }
        kiln_spirv_emit::compile(stage.b.finish()?)
    }
}

/// The kernel needs no other capabilities than these and those of every module.
pub fn requires(capabilities: impl IntoIterator<Item = Capability>) {
    with(|s| s.b.stated().requires = Some(capabilities.into_iter().collect()));
}

/// The kernel is for devices with at least so much workgroup memory.
pub fn workgroup_bytes(bytes: u32) {
    with(|s| s.b.stated().floor.workgroup_bytes = bytes);
}

/// The kernel is for devices with at least so many invocations per workgroup.
pub fn invocations(n: u32) {
    with(|s| s.b.stated().floor.invocations = n);
}

/// Drivers are to check the kernel's loads and stores.
pub fn checked(checked: bool) {
    with(|s| s.b.stated().checked = checked);
}

/// Compares the workgroup's size with the floor.
#[track_caller]
pub fn size_fits(size: [u32; 3]) {
    let at = Location::caller();
    with(|s| {
        let floor = s.b.stated().floor.invocations;
        // A size that is no number of invocations is the validator's.
        let n = size.iter().try_fold(1u32, |n, &axis| n.checked_mul(axis)).unwrap_or(0);
        if n > floor {
            let [x, y, z] = size;
            let message = format!(
                "expected at most {floor} invocations per workgroup; found {x} × {y} × {z} = {n}; shrink it, or state \
                 `invocations = {n}`"
            );
            s.b.error("E112", message, at);
        }
    });
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            with(|s| *s = outer);
        }
    }
}

fn no_errors() -> StageErrors {
    StageErrors { kernel: "(finished)".to_owned(), errors: Vec::new() }
}

/// Marks the body of a `#[device]` function; dropped at its end.
pub struct Call {
    entered: bool,
}

/// Enters a `#[device]` function; without [`Call::ok`] its body must not be staged.
#[track_caller]
pub fn enter(function: &str) -> Call {
    let at = Location::caller();
    let entered = with(|s| {
        if s.recursed {
            return false;
        }
        if s.depth == MAX_DEPTH {
            s.recursed = true;
            let message =
                format!("`{function}` calls itself (more than {MAX_DEPTH} calls are open); use a loop");
            s.b.error("E111", message, at);
            return false;
        }
        s.depth += 1;
        true
    });
    Call { entered }
}

impl Call {
    /// Whether the body may be staged.
    pub fn ok(&self) -> bool {
        self.entered
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.entered {
            with(|s| s.depth -= 1);
        }
    }
}
