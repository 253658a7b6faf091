//! How much device memory a plan may count on.

use std::fmt;

use kiln_abi::DeviceKind;

use crate::info::Heap;

/// Left free for the driver, other programs and the command buffers themselves.
pub const RESERVE_BYTES: u64 = 256 << 20;

/// Device memory that can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes, after the reserve.
    pub bytes: u64,
    /// Who sets the bound.
    pub bound: RoomBound,
}

/// Which of the sources gave the smallest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomBound {
    /// The driver's budget for this process.
    Budget,
    /// The operating system's free memory: device memory is host memory here.
    System,
    /// The heap's size; nobody says how much of it is free.
    HeapSize,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.bound {
            RoomBound::Budget => "the driver's budget",
            RoomBound::System => "the system's free memory",
            RoomBound::HeapSize => "the heap's size",
        };
        write!(f, "{} MiB usable ({from} less {} MiB)", self.bytes >> 20, RESERVE_BYTES >> 20)
    }
}

impl Room {
    /// The room of the largest device-local heap; `system_bytes` is what the operating system has free, where device
    /// memory is host memory and it says so.
    pub fn of_heaps(heaps: &[Heap], system_bytes: Option<u64>) -> Self {
        let none = Heap { bytes: 0, device_local: true, budget_bytes: None, used_bytes: None };
        let largest = heaps.iter().filter(|h| h.device_local).max_by_key(|h| h.bytes).unwrap_or(&none);
        Self::of(largest, system_bytes)
    }

    /// The room of a heap. A source that says nothing does not lower it.
    fn of(heap: &Heap, system_bytes: Option<u64>) -> Self {
        let budget = heap.budget_bytes.map(|budget| budget.saturating_sub(heap.used_bytes.unwrap_or(0)));
        let sources = [
            (budget, RoomBound::Budget),
            (system_bytes, RoomBound::System),
            (Some(heap.bytes), RoomBound::HeapSize),
        ];
        let smallest =
            sources.into_iter().filter_map(|(bytes, bound)| Some((bytes?, bound))).min_by_key(|s| s.0);
        let (bytes, bound) = smallest.unwrap_or((heap.bytes, RoomBound::HeapSize));
        Self { bytes: bytes.saturating_sub(RESERVE_BYTES), bound }
    }
}

/// What the operating system says is free, where the device's memory is the host's; `None` when it does not say.
pub(crate) fn system_bytes(kind: DeviceKind) -> Option<u64> {
    match kind {
        DeviceKind::Integrated | DeviceKind::Cpu => {
            available_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)
        }
        DeviceKind::Discrete | DeviceKind::Virtual | DeviceKind::Other => None,
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{RESERVE_BYTES, Room, RoomBound, available_bytes};
    use crate::info::Heap;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_smallest_source_bounds_the_room() {
        let heap = Heap {
            bytes: 24 * GIB,
            device_local: true,
            budget_bytes: Some(20 * GIB),
            used_bytes: Some(4 * GIB),
        };
        let room = Room::of(&heap, None);
        assert_eq!(room, Room { bytes: 16 * GIB - RESERVE_BYTES, bound: RoomBound::Budget });
        let room = Room::of(&heap, Some(2 * GIB));
        assert_eq!(room, Room { bytes: 2 * GIB - RESERVE_BYTES, bound: RoomBound::System });
    }

    #[test]
    fn without_an_answer_the_whole_heap_counts() {
        let heap = Heap { bytes: 8 * GIB, device_local: true, budget_bytes: None, used_bytes: None };
        assert_eq!(
            Room::of(&heap, None),
            Room { bytes: 8 * GIB - RESERVE_BYTES, bound: RoomBound::HeapSize }
        );
        let full = Heap { budget_bytes: Some(GIB), used_bytes: Some(2 * GIB), ..heap };
        assert_eq!(Room::of(&full, None).bytes, 0, "more used than allowed leaves nothing, and no wrap");
    }

    #[test]
    fn meminfo_is_read_in_kibibytes() {
        let text = "MemTotal:       100 kB\nMemFree:  5 kB\nMemAvailable:     42 kB\n";
        assert_eq!(available_bytes(text), Some(42 * 1024));
        assert_eq!(available_bytes("MemTotal: 100 kB\n"), None);
        assert_eq!(available_bytes("MemAvailable: many kB\n"), None);
    }
}
