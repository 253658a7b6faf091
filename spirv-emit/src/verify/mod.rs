//! `Module → VerifiedModule`, or everything wrong with it.
//!
//! One rule is one function with one code. The rules of [`STRUCTURE`] come first: the others read a module whose ids,
//! operands and results are in order, so they run only when those hold. All broken rules of a group are reported.

mod arithmetic;
mod atomic;
mod composite;
mod control;
mod converge;
mod convert;
mod facts;
mod interface;
mod logic;
mod matrix;
mod memory;
mod stated;
mod structure;
mod subgroup;
mod tensor;
mod uniform;

use kiln_abi::{Location, StageError, StageErrors};

use self::facts::Facts;
use crate::ir::Module;

/// A module that keeps every rule; only such a module can be lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedModule(Module);

impl VerifiedModule {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.0
    }
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stable code.
    pub code: &'static str,
    /// What holds of a module that keeps it.
    pub title: &'static str,
    check: Check,
}

/// Where a rule's findings go.
struct Report<'e> {
    code: &'static str,
    errors: &'e mut Vec<StageError>,
}

impl Report<'_> {
    fn add(&mut self, at: Location, message: String) {
        self.errors.push(StageError { code: self.code, message, at });
    }
}

#[derive(Clone, Copy, Debug)]
enum Check {
    Structure(fn(&Module, &mut Report<'_>)),
    Meaning(fn(&Facts<'_>, &mut Report<'_>)),
}

macro_rules! rules {
    ($(#[$doc:meta])* $name:ident $kind:ident { $($code:ident $module:ident::$function:ident $title:literal)* }) => {
        $(#[$doc])*
        pub const $name: &[Rule] = &[
            $(Rule { code: stringify!($code), title: $title, check: Check::$kind($module::$function) },)*
        ];
    };
}

rules! {
    /// What every other rule takes for granted.
    STRUCTURE Structure {
        V001 structure::ids "every id exists, and types and constants are made of earlier ones"
        V002 structure::ops "an instruction computes, loads, stores or orders; calls and declarations are none"
        V003 structure::operands "operands are of the number and kind that the op table gives"
        V004 structure::results "an instruction has a result when its op does, and each value is made once"
        V005 structure::nesting "blocks are nested at most 128 deep"
    }
}

rules! {
    /// What an ordered module means.
    MEANING Meaning {
        V010 arithmetic::integer "integer arithmetic has operands and result of one integer type"
        V011 arithmetic::float "float arithmetic has operands and result of one float type"
        V012 arithmetic::wide_product "a wide product gives a pair of its operands' type"
        V013 arithmetic::zero_divisor "a constant divisor is not zero"
        V014 arithmetic::bitwise "bit operations have operands and result of one integer type"
        V015 arithmetic::shift "a shift keeps its operand's type and counts in integers"
        V016 arithmetic::shift_count "a constant shift is narrower than its operand"
        V017 arithmetic::contraction "only a float result can be marked against contraction"
        V018 arithmetic::extended "an extended instruction has the operands its set gives"
        V020 logic::logical "logic has bool operands and a bool result"
        V021 logic::comparison "a comparison has operands of one type and gives bool"
        V022 logic::select "a select has a bool condition and arms of its result's type"
        V023 convert::numeric "a conversion goes between the classes its op names"
        V024 convert::bitcast "a bitcast keeps the number of bits"
        V025 composite::construct "a composite is made of its type's parts"
        V026 composite::part "a part is picked by literals in range and has the type found there"
        V027 composite::shuffle "a shuffle picks components that its operands have"
        V028 composite::dynamic "a run-time component index is an integer"
        V029 composite::products "a vector product multiplies floats of one shape"
        V030 subgroup::packed_dot "a packed dot product takes 32-bit words and gives 32 bits"
        V031 subgroup::operation "a subgroup operation has the operand and result types of its op"
        V032 subgroup::scope "a subgroup operation has subgroup scope"
        V033 subgroup::barrier_scope "a barrier holds a workgroup or subgroup, and orders at least that"
        V034 subgroup::semantics "a barrier acquires and releases, and makes memory available and visible"
        V040 memory::types "a load gives and a store takes what the pointer points to"
        V041 memory::chain "an access chain's type is what its indices lead to"
        V042 memory::constant_index "a constant index is inside its array or vector"
        V043 memory::writable "a store reaches a buffer declared writable, workgroup memory or a local"
        V044 memory::pointers "a pointer is only loaded, stored to, indexed or asked for its length"
        V045 memory::laid_out "buffers and push constants have the layout function's offsets and strides"
        V046 memory::plain "workgroup memory and locals have no offsets and strides"
        V047 memory::push_block "push constants are 32-bit numbers"
        V048 memory::array_length "a length is asked of a buffer's run-time array"
        V049 atomic::forms "an atomic reaches a 32-bit integer in a buffer or workgroup memory, at that memory's scope, in an order it can have"
        V050 control::scope "a value is used after it is made, in its block or a block inside"
        V051 control::condition "a condition is one bool"
        V052 control::leaves "break and continue stand in a loop's body; a loop's test and step do not leave"
        V053 control::reachable "nothing follows a return, break, continue or endless loop in its block"
        V054 converge::barriers "a barrier stands where every invocation it waits for arrives"
        V055 converge::subgroup_operations "a subgroup operation stands where every lane arrives"
        V060 interface::local_size "a workgroup has at least one and at most 2^32 - 1 invocations"
        V061 interface::subgroup_size "a required subgroup size is a power of two from 1 to 128"
        V062 interface::bindings "binding numbers are 0, 1, 2 and so on"
        V063 interface::touched "every buffer is loaded from or stored to"
        V064 interface::workgroup_memory "workgroup memory has a size, under 4 GiB in all"
        V067 stated::workgroup_memory "workgroup memory stays under the kernel's floor"
        V068 stated::capabilities "a kernel that states its capabilities needs no other"
        V065 interface::constants "a constant has its type's form"
        V066 interface::globals "a variable has the storage class and type that its purpose gives"
        V070 matrix::product "a multiply-add has factors and addend that agree in scope, shape and element"
        V071 matrix::scale "a matrix is scaled by a number of its element's type"
        V072 matrix::access "a matrix is loaded and stored at an element, with a stride and a layout"
        V073 matrix::length "a matrix's length is a u32"
        V074 tensor::layouts "a tensor layout or view is changed by a u32 for each dimension"
        V075 tensor::access "a matrix is loaded and stored through a layout of a buffer's array"
        V076 tensor::whole "a matrix is converted, transposed, reduced or changed to a matrix that follows from it"
        V077 tensor::alone "a function that is called for an element does nothing together with others"
    }
}

/// Checks a module against every rule.
///
/// # Errors
/// Every broken rule, each at the user's token.
pub fn verify(module: Module) -> Result<VerifiedModule, StageErrors> {
    let mut errors = Vec::new();
    for rule in STRUCTURE {
        if let Check::Structure(check) = rule.check {
            check(&module, &mut Report { code: rule.code, errors: &mut errors });
        }
    }
    if errors.is_empty() {
        let facts = Facts::new(&module);
        for rule in MEANING {
            if let Check::Meaning(check) = rule.check {
                check(&facts, &mut Report { code: rule.code, errors: &mut errors });
            }
        }
    }
    if errors.is_empty() {
        return Ok(VerifiedModule(module));
    }
    errors.sort_by_key(|e| (e.at, e.code));
    errors.dedup();
    Err(StageErrors { kernel: module.name, errors })
}
