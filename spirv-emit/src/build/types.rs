//! Types and constants, interned.

use kiln_abi::{DType, Location};

use super::{Builder, index};
use crate::{
    ir::{Const, Member, Type, TypeId, ValueId, ValueKind},
    layout::{self, LayoutError},
};

impl Builder {
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
            ValueKind::Global(_) | ValueKind::Local(_) | ValueKind::Param | ValueKind::Inst => None,
        }
    }
}
