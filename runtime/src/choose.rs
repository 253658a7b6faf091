//! Which device to open: the best one, or the one that a selector names.

use crate::{RuntimeError, info::DeviceInfo};

/// The position in `devices` of the device to open.
///
/// Without a selector it is the first usable device of the best kind. A selector is an index, or a part of a name
/// in any case; a name given in full wins over names that contain it.
pub(crate) fn choose(devices: &[DeviceInfo], selector: Option<&str>) -> Result<usize, RuntimeError> {
    let Some(selector) = selector else {
        let usable = devices.iter().enumerate().filter(|(_, d)| d.unusable.is_empty());
        let best = usable.min_by_key(|(_, d)| (d.caps.kind, d.index)).map(|(at, _)| at);
        return best.ok_or_else(|| RuntimeError::NoUsableDevice { devices: list(devices.iter()) });
    };
    let unknown = || RuntimeError::UnknownDevice { selector: selector.into(), devices: list(devices.iter()) };
    let at = if let Ok(index) = selector.parse::<usize>() {
        devices.iter().position(|d| d.index == index).ok_or_else(unknown)?
    } else {
        by_name(devices, selector)?.ok_or_else(unknown)?
    };
    let chosen = &devices[at];
    if chosen.unusable.is_empty() {
        return Ok(at);
    }
    Err(RuntimeError::Unusable { device: chosen.caps.name.clone(), reasons: chosen.unusable.join("; ") })
}

fn by_name(devices: &[DeviceInfo], selector: &str) -> Result<Option<usize>, RuntimeError> {
    let wanted = selector.to_lowercase();
    let names: Vec<_> = devices.iter().map(|d| d.caps.name.to_lowercase()).collect();
    let matching = |test: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..names.len()).filter(|&at| test(&names[at])).collect()
    };
    let exact = matching(&|name| name == wanted);
    let found =
        if exact.is_empty() { matching(&|name| !wanted.is_empty() && name.contains(&wanted)) } else { exact };
    match found.as_slice() {
        [] => Ok(None),
        [at] => Ok(Some(*at)),
        several => Err(RuntimeError::AmbiguousDevice {
            selector: selector.into(),
            matches: several.len(),
            devices: list(several.iter().map(|&at| &devices[at])),
        }),
    }
}

fn list<'a>(devices: impl Iterator<Item = &'a DeviceInfo>) -> String {
    devices.map(DeviceInfo::summary).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kiln_abi::{DeviceCaps, DeviceKind, Limits, MatrixCaps};

    use super::choose;
    use crate::{
        RuntimeError,
        info::{ApiVersion, Cooperative, DeviceInfo},
        room::{Room, RoomBound},
    };

    fn device(index: usize, name: &str, kind: DeviceKind, unusable: &[&str]) -> DeviceInfo {
        DeviceInfo {
            index,
            caps: DeviceCaps {
                name: name.into(),
                driver: "test".into(),
                kind,
                capabilities: BTreeSet::new(),
                left_out: BTreeSet::new(),
                subgroup_size: 32,
                subgroup_sizes: (32, 32),
                matrix: MatrixCaps::default(),
                limits: Limits {
                    max_invocations: 1,
                    max_local_size: [1; 3],
                    max_grid: [1; 3],
                    max_workgroup_bytes: 1,
                    max_push_bytes: 1,
                    max_binding_bytes: 1,
                    max_buffer_bytes: 1,
                    max_allocation_bytes: 1,
                    max_bindings: 1,
                    binding_offset_alignment: 1,
                },
            },
            api: ApiVersion { major: 1, minor: 3, patch: 0 },
            ids: [0; 2],
            device_uuid: [0; 16],
            driver_uuid: [0; 16],
            heaps: Vec::new(),
            room: Room { bytes: 0, bound: RoomBound::HeapSize },
            timestamps: None,
            requires_subgroup_size: false,
            full_subgroups: false,
            max_subgroups: 1,
            dot4_accelerated: false,
            cooperative: Cooperative::default(),
            left_off: Vec::new(),
            unusable: unusable.iter().map(|r| r.to_string()).collect(),
        }
    }

    fn machine() -> Vec<DeviceInfo> {
        vec![
            device(0, "llvmpipe (LLVM 19)", DeviceKind::Cpu, &[]),
            device(1, "Old Card 9000", DeviceKind::Discrete, &["Vulkan 1.2, Kiln needs 1.3"]),
            device(2, "Radeon 780M", DeviceKind::Integrated, &[]),
            device(3, "Radeon Pro", DeviceKind::Discrete, &[]),
            device(4, "Radeon Pro", DeviceKind::Discrete, &[]),
            device(5, "Radeon Pro W7900", DeviceKind::Discrete, &[]),
        ]
    }

    #[test]
    fn better_kinds_come_first_and_unusable_devices_never() {
        let mut devices = machine();
        assert_eq!(choose(&devices, None), Ok(3));
        devices.truncate(3);
        assert_eq!(choose(&devices, None), Ok(2), "the discrete card is too old");
        devices.truncate(2);
        assert_eq!(choose(&devices, None), Ok(0));
        let error = choose(&devices[1..], None).unwrap_err();
        assert!(matches!(error, RuntimeError::NoUsableDevice { .. }));
        assert!(error.to_string().contains("Old Card 9000 (discrete), unusable: Vulkan 1.2"), "{error}");
    }

    #[test]
    fn a_selector_is_an_index_or_a_part_of_a_name() {
        let devices = machine();
        assert_eq!(choose(&devices, Some("0")), Ok(0));
        assert_eq!(choose(&devices, Some("LLVMPIPE")), Ok(0));
        assert_eq!(choose(&devices, Some("780m")), Ok(2));
        assert_eq!(choose(&devices, Some("radeon pro w7900")), Ok(5));
    }

    #[test]
    fn an_index_counts_in_the_loaders_order() {
        let devices = machine();
        assert_eq!(choose(&devices[2..], Some("3")), Ok(1));
    }

    #[test]
    fn an_ambiguous_selector_lists_what_it_matches() {
        let error = choose(&machine(), Some("radeon pro")).unwrap_err();
        let RuntimeError::AmbiguousDevice { matches, devices, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*matches, 2, "two cards have exactly this name");
        assert_eq!(devices, "  3: Radeon Pro (discrete)\n  4: Radeon Pro (discrete)");
        let error = choose(&machine(), Some("radeon")).unwrap_err();
        assert!(matches!(error, RuntimeError::AmbiguousDevice { matches: 4, .. }), "{error}");
    }

    #[test]
    fn an_unknown_selector_lists_every_device() {
        for selector in ["6", "GeForce", ""] {
            let error = choose(&machine(), Some(selector)).unwrap_err();
            let RuntimeError::UnknownDevice { devices, .. } = &error else { panic!("{error}") };
            assert_eq!(devices.lines().count(), 6);
        }
    }

    #[test]
    fn an_unusable_device_is_refused_with_its_reasons() {
        let error = choose(&machine(), Some("old")).unwrap_err();
        assert_eq!(error.to_string(), "Kiln cannot use Old Card 9000: Vulkan 1.2, Kiln needs 1.3");
    }
}
