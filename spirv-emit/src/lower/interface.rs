//! The kernel's interface as its launcher needs it, computed from the module.

use std::collections::BTreeSet;

use kiln_abi::{Access, BindingLayout, KernelLayout, PushField, spirv::Capability};

use super::ENTRY;
use crate::{
    access::Touched,
    ir::{GlobalKind, Module, Type, TypeId},
    layout,
    matrix::products,
};

/// The layout record of a verified module.
pub(super) fn layout(
    module: &Module,
    touched: &[Touched],
    capabilities: BTreeSet<Capability>,
) -> KernelLayout {
    let mut bindings: Vec<BindingLayout> = Vec::new();
    let mut push: Vec<PushField> = Vec::new();
    for (global, touched) in module.globals.iter().zip(touched) {
        match &global.kind {
            // Views are only read, as is what they are views of.
            GlobalKind::Buffer { view: true, .. } => {}
            GlobalKind::Buffer { binding, elem, elem_name, writable, .. } => bindings.push(BindingLayout {
                name: global.name.clone(),
                index: *binding,
                elem: elem_name.clone(),
                elem_bytes: layout::stride(&module.types, *elem).unwrap_or(0),
                access: match writable {
                    true => touched.access().unwrap_or(Access::ReadWrite),
                    false => Access::Read,
                },
            }),
            GlobalKind::Push { block } => push.extend(push_fields(module, *block)),
            GlobalKind::Workgroup | GlobalKind::BuiltIn(_) => {}
        }
    }
    bindings.sort_by_key(|b| b.index);
    KernelLayout {
        entry: ENTRY.to_owned(),
        bindings,
        push,
        local_size: module.local_size,
        subgroup_size: module.subgroup_size,
        workgroup_bytes: layout::workgroup_bytes(module).unwrap_or(0),
        capabilities: capabilities.into_iter().collect(),
        products: products(module),
        checked: module.stated.checked,
        fragments: module.stated.fragments,
    }
}

fn push_fields(module: &Module, block: TypeId) -> Vec<PushField> {
    let Type::Struct { members, .. } = module.ty(block) else { return Vec::new() };
    members
        .iter()
        .filter_map(|m| match module.ty(m.ty) {
            Type::Scalar(dtype) => {
                Some(PushField { name: m.name.clone(), dtype: *dtype, offset_bytes: m.offset? })
            }
            _ => None,
        })
        .collect()
}
