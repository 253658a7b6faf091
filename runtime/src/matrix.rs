//! Cooperative matrices of a device: the extensions' features, and the products they multiply.
//!
//! The structures of `VK_NV_cooperative_matrix2` and `VK_KHR_shader_bfloat16` are newer than the bindings, so they
//! stand here as the Vulkan headers have them.

use std::{
    ffi::{CStr, c_void},
    ops::RangeInclusive,
};

use ash::vk;
use kiln_abi::{
    FlexibleProduct, MatrixCaps, MatrixElem, MatrixProduct,
    spirv::{Capability, Scope},
};

use crate::instance::Instance;

const NV2: &CStr = c"VK_NV_cooperative_matrix2";
pub(crate) const BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";

/// The features of cooperative matrices, as a device reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatrixFeatures {
    khr: bool,
    /// Type, dot product, cooperative matrix; `None` without the extension.
    bfloat16: Option<[bool; 3]>,
    /// In the order of the structure; `None` without the extension.
    nv2: Option<[bool; 7]>,
}

/// Positions in [`MatrixFeatures::nv2`].
const WORKGROUP_SCOPE: usize = 0;
const FLEXIBLE: usize = 1;
const REDUCTIONS: usize = 2;
const CONVERSIONS: usize = 3;
const PER_ELEMENT: usize = 4;
const TENSOR_ADDRESSING: usize = 5;
const BLOCK_LOADS: usize = 6;

/// A structure of feature flags behind the two words that every structure starts with.
#[repr(C)]
struct Flags<const N: usize> {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    flags: [vk::Bool32; N],
}

// SAFETY: both extensions list their structure (see the constructors) as one that extends these features.
unsafe impl<const N: usize> vk::ExtendsPhysicalDeviceFeatures2 for Flags<N> {}

impl<const N: usize> Flags<N> {
    fn new(s_type: i32, on: Option<[bool; N]>) -> Self {
        let flags = on.unwrap_or([false; N]).map(vk::Bool32::from);
        Flags { s_type: vk::StructureType::from_raw(s_type), p_next: std::ptr::null_mut(), flags }
    }

    fn read(&self) -> [bool; N] {
        self.flags.map(|flag| flag != vk::FALSE)
    }
}

fn bfloat16(on: Option<[bool; 3]>) -> Flags<3> {
    Flags::new(1_000_141_000, on)
}

fn nv2(on: Option<[bool; 7]>) -> Flags<7> {
    Flags::new(1_000_593_000, on)
}

impl MatrixFeatures {
    /// A device without any.
    #[cfg(test)]
    pub(crate) const NONE: MatrixFeatures = MatrixFeatures { khr: false, bfloat16: None, nv2: None };

    /// Asks a device for the extensions that `has` says it has.
    pub(crate) fn query(
        instance: &Instance,
        device: vk::PhysicalDevice,
        has: &dyn Fn(&CStr) -> bool,
    ) -> Self {
        let mut khr = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let (mut bf, mut nv) = (bfloat16(None), nv2(None));
        let (has_khr, has_bf, has_nv) = (has(ash::khr::cooperative_matrix::NAME), has(BFLOAT16), has(NV2));
        let mut all = vk::PhysicalDeviceFeatures2::default();
        if has_khr {
            all = all.push_next(&mut khr);
        }
        if has_bf {
            all = all.push_next(&mut bf);
        }
        if has_nv {
            all = all.push_next(&mut nv);
        }
        // SAFETY: the device is this instance's, and the chain, linked only where its extensions are there, lives
        // during the call.
        unsafe { instance.raw.get_physical_device_features2(device, &mut all) };
        let khr = has_khr && khr.cooperative_matrix != vk::FALSE;
        MatrixFeatures {
            khr,
            bfloat16: (has_bf && bf.read()[0]).then(|| bf.read()),
            nv2: (khr && has_nv).then(|| nv.read()),
        }
    }

    /// The device extensions that hold what was reported.
    pub(crate) fn extensions(&self) -> Vec<&'static CStr> {
        let names = [
            (self.khr, ash::khr::cooperative_matrix::NAME),
            (self.bfloat16.is_some(), BFLOAT16),
            (self.nv2.is_some(), NV2),
        ];
        names.into_iter().filter(|(there, _)| *there).map(|(_, name)| name).collect()
    }

    /// Runs `create` with the structures that enable exactly what was reported linked into `all`.
    pub(crate) fn enable<R>(
        &self,
        all: vk::PhysicalDeviceFeatures2<'_>,
        create: impl FnOnce(&mut vk::PhysicalDeviceFeatures2<'_>) -> R,
    ) -> R {
        let mut khr = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(self.khr);
        let (mut bf, mut nv) = (bfloat16(self.bfloat16), nv2(self.nv2));
        let mut all = all;
        if self.khr {
            all = all.push_next(&mut khr);
        }
        if self.bfloat16.is_some() {
            all = all.push_next(&mut bf);
        }
        if self.nv2.is_some() {
            all = all.push_next(&mut nv);
        }
        create(&mut all)
    }

    /// Whether the features give the capability; `None` for one that has nothing to do with matrices.
    pub(crate) fn gives(&self, capability: Capability) -> Option<bool> {
        let nv2 = |at: usize| self.nv2.is_some_and(|flags| flags[at]);
        let bf = |at: usize| self.bfloat16.is_some_and(|flags| flags[at]);
        Some(match capability {
            Capability::CooperativeMatrixKHR => self.khr,
            Capability::BFloat16TypeKHR => bf(0),
            Capability::BFloat16CooperativeMatrixKHR => bf(2),
            Capability::CooperativeMatrixReductionsNV => nv2(REDUCTIONS),
            Capability::CooperativeMatrixConversionsNV => nv2(CONVERSIONS),
            Capability::CooperativeMatrixPerElementOperationsNV => nv2(PER_ELEMENT),
            Capability::CooperativeMatrixTensorAddressingNV | Capability::TensorAddressingNV => {
                nv2(TENSOR_ADDRESSING)
            }
            Capability::CooperativeMatrixBlockLoadsNV => nv2(BLOCK_LOADS),
            Capability::CooperativeMatrixDecodeVectorNV => false,
            _ => return None,
        })
    }

    /// What the device multiplies and what is known of its matrices. `driver`: whose it is, and the subgroup sizes that a
    /// kernel can require of it.
    pub(crate) fn caps(
        &self,
        instance: &Instance,
        device: vk::PhysicalDevice,
        driver: (vk::DriverId, RangeInclusive<u32>),
    ) -> MatrixCaps {
        let mut caps = MatrixCaps::default();
        if self.khr {
            caps.fixed = fixed(instance, device);
            caps.fragments = fragments(&caps.fixed, driver);
        }
        if let Some(flags) = self.nv2
            && (flags[FLEXIBLE] || flags[WORKGROUP_SCOPE])
        {
            let limits = limits(instance, device);
            caps.max_dimension = limits.max_dimension;
            caps.reserved_workgroup_bytes = limits.reserved_workgroup_bytes;
            caps.flexible = flexible(instance, device);
            caps.flexible.retain(|f| match f.granularity.scope {
                Scope::Workgroup => flags[WORKGROUP_SCOPE] && f.invocations <= limits.max_workgroup,
                _ => flags[FLEXIBLE],
            });
        }
        caps
    }
}

/// Vulkan keeps from us which elements an invocation holds. This driver hands matrices of this shape as they are to the
/// instruction that PTX calls `mma.m16n8k16`, whose operands NVIDIA documents (the left one's are here in the order of
/// rows); the kernel `fragment_order` finds out where a driver differs.
fn fragments(fixed: &[MatrixProduct], (driver, sizes): (vk::DriverId, RangeInclusive<u32>)) -> bool {
    let elems = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];
    let product = MatrixProduct { scope: Scope::Subgroup, mnk: [16, 8, 16], elems };
    driver == vk::DriverId::NVIDIA_PROPRIETARY && sizes.contains(&32) && fixed.contains(&product)
}

fn fixed(instance: &Instance, device: vk::PhysicalDevice) -> Vec<MatrixProduct> {
    let api = ash::khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device is this instance's and has the extension.
    let shapes = unsafe { api.get_physical_device_cooperative_matrix_properties(device) }.unwrap_or_default();
    let product = |s: &vk::CooperativeMatrixPropertiesKHR<'_>| {
        let types = [s.a_type, s.b_type, s.c_type, s.result_type];
        product(s.scope, [s.m_size, s.n_size, s.k_size], types)
    };
    shapes.iter().filter_map(product).collect()
}

/// `None` for a scope or an element that the language has no name for.
fn product(scope: vk::ScopeKHR, mnk: [u32; 3], types: [vk::ComponentTypeKHR; 4]) -> Option<MatrixProduct> {
    let scope = Scope::from_number(scope.as_raw().cast_unsigned())?;
    let mut elems = [MatrixElem::F32; 4];
    for (elem, ty) in elems.iter_mut().zip(types) {
        *elem = match ty {
            vk::ComponentTypeKHR::FLOAT16 => MatrixElem::F16,
            vk::ComponentTypeKHR::FLOAT32 => MatrixElem::F32,
            vk::ComponentTypeKHR::SINT8 => MatrixElem::I8,
            vk::ComponentTypeKHR::UINT8 => MatrixElem::U8,
            vk::ComponentTypeKHR::SINT32 => MatrixElem::I32,
            vk::ComponentTypeKHR::UINT32 => MatrixElem::U32,
            other if other.as_raw() == 1_000_141_000 => MatrixElem::BF16,
            _ => return None,
        };
    }
    Some(MatrixProduct { scope, mnk, elems })
}

struct Nv2Limits {
    max_workgroup: u32,
    max_dimension: u32,
    reserved_workgroup_bytes: u32,
}

/// `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`.
#[repr(C)]
struct Nv2Properties {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    workgroup_scope_max_workgroup_size: u32,
    flexible_dimensions_max_dimension: u32,
    workgroup_scope_reserved_shared_memory: u32,
}

// SAFETY: the extension lists the structure as one that extends these properties.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for Nv2Properties {}

fn limits(instance: &Instance, device: vk::PhysicalDevice) -> Nv2Limits {
    let mut nv2 = Nv2Properties {
        s_type: vk::StructureType::from_raw(1_000_593_002),
        p_next: std::ptr::null_mut(),
        workgroup_scope_max_workgroup_size: 0,
        flexible_dimensions_max_dimension: 0,
        workgroup_scope_reserved_shared_memory: 0,
    };
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut nv2);
    // SAFETY: the device is this instance's and has the extension; the chain lives during the call.
    unsafe { instance.raw.get_physical_device_properties2(device, &mut all) };
    Nv2Limits {
        max_workgroup: nv2.workgroup_scope_max_workgroup_size,
        max_dimension: nv2.flexible_dimensions_max_dimension,
        reserved_workgroup_bytes: nv2.workgroup_scope_reserved_shared_memory,
    }
}

/// `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FlexibleProperties {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    mnk: [u32; 3],
    types: [vk::ComponentTypeKHR; 4],
    saturating: vk::Bool32,
    scope: vk::ScopeKHR,
    workgroup_invocations: u32,
}

type GetFlexible =
    unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut FlexibleProperties) -> vk::Result;

fn flexible(instance: &Instance, device: vk::PhysicalDevice) -> Vec<FlexibleProduct> {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: the instance lives, and the name is terminated.
    let found = unsafe { instance.entry.get_instance_proc_addr(instance.raw.handle(), name.as_ptr()) };
    let Some(found) = found else { return Vec::new() };
    // SAFETY: the function of this name has this signature.
    let get: GetFlexible = unsafe { std::mem::transmute(found) };
    let empty = FlexibleProperties {
        s_type: vk::StructureType::from_raw(1_000_593_001),
        p_next: std::ptr::null_mut(),
        mnk: [0; 3],
        types: [vk::ComponentTypeKHR::FLOAT32; 4],
        saturating: vk::FALSE,
        scope: vk::ScopeKHR::SUBGROUP,
        workgroup_invocations: 0,
    };
    let mut count = 0;
    // SAFETY: the device is this instance's and has the extension; without an array the count is written alone.
    let counted = unsafe { get(device, &raw mut count, std::ptr::null_mut()) };
    let mut listed = vec![empty; count as usize];
    if counted != vk::Result::SUCCESS {
        return Vec::new();
    }
    // SAFETY: as before, with room for the counted structures, each with its type set.
    if unsafe { get(device, &raw mut count, listed.as_mut_ptr()) } != vk::Result::SUCCESS {
        return Vec::new();
    }
    listed.truncate(count as usize);
    let flexible = |f: &FlexibleProperties| {
        let granularity = product(f.scope, f.mnk, f.types)?;
        Some(FlexibleProduct { granularity, invocations: f.workgroup_invocations })
    };
    // A saturating product is another one, which the language does not write.
    listed.iter().filter(|f| f.saturating == vk::FALSE).filter_map(flexible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_headers() {
        assert_eq!(size_of::<Flags<7>>(), 16 + 7 * 4 + 4);
        assert_eq!(std::mem::offset_of!(Flags<3>, flags), 16);
        assert_eq!(std::mem::offset_of!(Nv2Properties, workgroup_scope_reserved_shared_memory), 24);
        assert_eq!(std::mem::offset_of!(FlexibleProperties, workgroup_invocations), 16 + 9 * 4);
        assert_eq!(size_of::<FlexibleProperties>(), 56);
    }

    #[test]
    fn fragments_are_one_driver_s_with_its_product_and_subgroup() {
        let elems = [MatrixElem::F16, MatrixElem::F16, MatrixElem::F32, MatrixElem::F32];
        let has = [MatrixProduct { scope: Scope::Subgroup, mnk: [16, 8, 16], elems }];
        let nvidia = vk::DriverId::NVIDIA_PROPRIETARY;
        assert!(fragments(&has, (nvidia, 32..=32)));
        assert!(!fragments(&has, (vk::DriverId::MESA_NVK, 32..=32)));
        assert!(!fragments(&has, (nvidia, 8..=16)));
        let larger = [MatrixProduct { mnk: [16, 16, 16], ..has[0] }];
        assert!(!fragments(&larger, (nvidia, 32..=32)));
    }

    #[test]
    fn a_device_without_extensions_gives_nothing() {
        let none = MatrixFeatures::default();
        assert!(none.extensions().is_empty());
        assert_eq!(none.gives(Capability::CooperativeMatrixKHR), Some(false));
        assert_eq!(none.gives(Capability::Float16), None);
        let one =
            MatrixFeatures { khr: true, nv2: Some([true, true, false, true, true, true, true]), ..none };
        assert_eq!(one.extensions(), [ash::khr::cooperative_matrix::NAME, NV2]);
        assert_eq!(one.gives(Capability::CooperativeMatrixReductionsNV), Some(false));
        assert_eq!(one.gives(Capability::CooperativeMatrixConversionsNV), Some(true));
    }
}
