//! Runs a [`Case`] on a device and compares: values within their bounds, guards and inputs untouched.

use kiln_abi::{
    BufferId, BufferRange, Device, DeviceError, LaunchError, StagedKernel, launch::launch_staged,
};
use thiserror::Error;

use super::{Buffer, Case, Content, Expected};
use crate::{
    activations::{BLOCK, FIELDS, read_row},
    reference::kv,
};

/// What outputs hold before the launch: a kernel that forgets an element leaves it.
pub const SENTINEL: f32 = -999.25;
/// What lies before and behind every range: an f32 NaN, so that a read past the end spoils the result.
const POISON: [u8; 4] = 0x7fc0_dead_u32.to_le_bytes();
/// Guard bytes on each side, at least.
const GUARD: u64 = 256;

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The launch was refused or the device failed.
    #[error("{case}: {error}")]
    Launch {
        /// The case.
        case: String,
        /// The refusal.
        error: Box<LaunchError>,
    },
    /// An output differs.
    #[error("{case}: {binding}[{index}] is {found}, expected {expected} ± {bound:e}")]
    Value {
        /// The case.
        case: String,
        /// The binding's name.
        binding: String,
        /// The element.
        index: usize,
        /// What the kernel wrote.
        found: f32,
        /// The reference's value.
        expected: f64,
        /// The bound.
        bound: f64,
    },
    /// An output that must be equal bit by bit differs.
    #[error(
        "{case}: word {index} of {binding} is {found} ({found:#010x}), expected {expected} ({expected:#010x}); \
         {different} words differ"
    )]
    Word {
        /// The case.
        case: String,
        /// The binding's name.
        binding: String,
        /// The word.
        index: usize,
        /// What the kernel wrote.
        found: u32,
        /// The reference's word.
        expected: u32,
        /// How many differ.
        different: usize,
    },
    /// A scale or a sum of a block of integers is not what its bytes say.
    #[error("{case}: word {index} of {binding}, {found:#010x}, does not fit its block's bytes")]
    Blocks {
        /// The case.
        case: String,
        /// The binding's name.
        binding: String,
        /// The word.
        index: usize,
        /// What the kernel wrote.
        found: u32,
    },
    /// A byte outside the ranges, or of an input, changed.
    #[error("{case}: byte {offset} of {binding}, {what}, was overwritten")]
    Overwritten {
        /// The case.
        case: String,
        /// The binding's name.
        binding: String,
        /// Byte offset within the buffer.
        offset: usize,
        /// Which part it belongs to.
        what: &'static str,
    },
    /// A falsified output passed the comparison.
    #[error("{case}: the comparison of {binding} accepts a falsified element {index}")]
    Blind {
        /// The case.
        case: String,
        /// The binding's name.
        binding: String,
        /// The element that was falsified.
        index: usize,
    },
}

/// What a passed case measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Outputs compared.
    pub outputs: usize,
    /// The largest difference as a share of its bound.
    pub worst: f64,
}

struct Placed {
    range: BufferRange,
    before: Vec<u8>,
}

/// What a comparison speaks of.
#[derive(Clone, Copy)]
struct Compared<'a> {
    case: &'a Case,
    /// The binding's name.
    binding: &'a str,
}

/// Runs `case` of `kernel` on `device`.
///
/// Every range starts at a nonzero offset between guards of NaNs, every output is filled with a sentinel, and each
/// comparison is repeated with one falsified element, which it must refuse.
///
/// # Errors
/// The first [`Failure`].
pub fn check(device: &dyn Device, kernel: &StagedKernel, case: &Case) -> Result<Report, Failure> {
    let placed = place(device, case).map_err(|e| launch_failure(case, e.into()))?;
    let result = run(device, kernel, case, &placed);
    placed.iter().for_each(|p| device.free(p.range.buffer));
    result
}

fn run(
    device: &dyn Device,
    kernel: &StagedKernel,
    case: &Case,
    placed: &[Placed],
) -> Result<Report, Failure> {
    let ranges: Vec<_> = placed.iter().map(|p| p.range).collect();
    let args = (case.bind)(&ranges);
    launch_staged(device, kernel, &args).map_err(|e| launch_failure(case, e))?;
    let mut report = Report::default();
    for (number, (buffer, placed)) in case.buffers.iter().zip(placed).enumerate() {
        // A case may have a buffer that its launch leaves out, and a launch its own order.
        let bound = args.bindings.iter().position(|range| range.buffer == placed.range.buffer);
        let name = bound.and_then(|at| kernel.layout.bindings.get(at)).map(|binding| binding.name.clone());
        let of = Compared { case, binding: &name.unwrap_or_else(|| format!("buffer {number}")) };
        let mut after = vec![0; placed.before.len()];
        let read = device.read(placed.range.buffer, 0, &mut after);
        read.map_err(|e| launch_failure(case, e.into()))?;
        untouched(of, buffer, placed, &after)?;
        for expected in case.expected.iter().filter(|e| e.binding == number) {
            let start = byte_index(placed.range.offset_bytes);
            let found = words(&after[start..start + buffer.bytes()]);
            let worst = compare(of, &expected.content, &found)?;
            falsified_is_refused(of, expected, found)?;
            report.outputs += expected.len();
            report.worst = report.worst.max(worst);
        }
    }
    Ok(report)
}

fn place(device: &dyn Device, case: &Case) -> Result<Vec<Placed>, DeviceError> {
    let alignment = u64::from(device.caps().limits.binding_offset_alignment.max(4));
    let offset_bytes = GUARD.next_multiple_of(alignment);
    case.buffers
        .iter()
        .map(|buffer| {
            let bytes = buffer.bytes() as u64;
            let total = (offset_bytes + bytes + GUARD).next_multiple_of(4);
            let mut before = POISON.repeat(byte_index(total) / POISON.len());
            let inside = &mut before[byte_index(offset_bytes)..byte_index(offset_bytes + bytes)];
            match buffer {
                Buffer::Input(data) | Buffer::Changed(data) => inside.copy_from_slice(data),
                Buffer::Output(_) => fill(inside, SENTINEL.to_le_bytes()),
            }
            let id: BufferId = device.allocate(total, &case.name)?;
            device.write(id, 0, &before)?;
            Ok(Placed { range: BufferRange { buffer: id, offset_bytes, bytes }, before })
        })
        .collect()
}

fn untouched(of: Compared<'_>, buffer: &Buffer, placed: &Placed, after: &[u8]) -> Result<(), Failure> {
    let start = byte_index(placed.range.offset_bytes);
    let inside = start..start + buffer.bytes();
    let is_output = !matches!(buffer, Buffer::Input(_));
    let end = after.len();
    let kept = if is_output { [0..inside.start, inside.end..end] } else { [0..end, end..end] };
    // Slices first: nearly all are equal, and are compared at once.
    let differs = kept.into_iter().find(|part| after[part.clone()] != placed.before[part.clone()]);
    match differs.and_then(|mut part| part.find(|i| after[*i] != placed.before[*i])) {
        None => Ok(()),
        Some(offset) => {
            let what = if inside.contains(&offset) { "an input" } else { "outside its range" };
            Err(Failure::Overwritten {
                case: of.case.name.clone(),
                binding: of.binding.to_owned(),
                offset,
                what,
            })
        }
    }
}

fn compare(of: Compared<'_>, expected: &Content, found: &[u32]) -> Result<f64, Failure> {
    match expected {
        Content::Near { values, bounds } => compare_near(of, (values, bounds), found),
        Content::Blocks { k, values, bounds } => {
            let mut read = Vec::with_capacity(values.len());
            let row_words = k / BLOCK as usize * FIELDS as usize * 4;
            for (row, words) in found.chunks_exact(row_words).enumerate() {
                let values = read_row(words).map_err(|word| Failure::Blocks {
                    case: of.case.name.clone(),
                    binding: of.binding.to_owned(),
                    index: row * row_words + word,
                    found: words[word],
                })?;
                read.extend(values.into_iter().map(f32::to_bits));
            }
            compare_near(of, (values, bounds), &read)
        }
        Content::Lines { places, head_dim, ty, values, bounds } => {
            let n = ty.line_words(u32::try_from(*head_dim).unwrap_or(u32::MAX)) as usize;
            let mut rest = found.to_vec();
            let mut read = Vec::with_capacity(values.len());
            for &place in places {
                let line = &mut rest[place..place + n];
                read.extend(kv::decode(line, *head_dim, *ty).into_iter().map(f32::to_bits));
                line.fill(SENTINEL.to_bits());
            }
            compare_words(of, &vec![SENTINEL.to_bits(); rest.len()], &rest)?;
            compare_near(of, (values, bounds), &read)
        }
        Content::Words(expected) => compare_words(of, expected, found),
        Content::Pairs(expected) => {
            let mut found: Vec<[u32; 2]> = found.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            found.sort_unstable();
            let mut expected = expected.clone();
            expected.sort_unstable();
            compare_words(of, expected.as_flattened(), found.as_flattened())
        }
    }
}

fn compare_words(of: Compared<'_>, expected: &[u32], found: &[u32]) -> Result<f64, Failure> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(0.0),
        Some(index) => {
            let different = found.iter().zip(expected).filter(|(f, e)| f != e).count();
            let (found, expected) = (found[index], expected[index]);
            let (case, binding) = (of.case.name.clone(), of.binding.to_owned());
            Err(Failure::Word { case, binding, index, found, expected, different })
        }
    }
}

fn compare_near(of: Compared<'_>, (values, bounds): (&[f64], &[f64]), found: &[u32]) -> Result<f64, Failure> {
    let mut worst: f64 = 0.0;
    for (index, ((&found, &value), &bound)) in found.iter().zip(values).zip(bounds).enumerate() {
        let found = f32::from_bits(found);
        let difference = (f64::from(found) - value).abs();
        if difference.is_nan() || difference > bound {
            let (case, binding) = (of.case.name.clone(), of.binding.to_owned());
            return Err(Failure::Value { case, binding, index, found, expected: value, bound });
        }
        if bound > 0.0 {
            worst = worst.max(difference / bound);
        }
    }
    Ok(worst)
}

/// The control: the comparison must refuse one element moved by a little more than its bound, or by one bit.
fn falsified_is_refused(of: Compared<'_>, expected: &Expected, mut found: Vec<u32>) -> Result<(), Failure> {
    let Some(index) = expected.len().checked_sub(1).map(|last| last / 2) else { return Ok(()) };
    found[index] = match &expected.content {
        Content::Near { values, bounds } => {
            let past = values[index] + bounds[index];
            let moved = (past + bounds[index]) as f32;
            if f64::from(moved) > past { moved } else { moved.next_up().next_up() }.to_bits()
        }
        // The lowest bit of some element or scale, which the sums give away.
        Content::Blocks { .. } => found[index] ^ 1,
        Content::Lines { .. } | Content::Words(_) | Content::Pairs(_) => found[index] ^ 1,
    };
    // A line's lowest bit is within what its type rounds.
    if let Content::Lines { places, .. } = &expected.content {
        found[index] ^= 1;
        found[places[places.len() / 2]] ^= 0x0040_0040;
    }
    match compare(of, &expected.content, &found) {
        Err(_) => Ok(()),
        Ok(_) => {
            let (case, binding) = (of.case.name.clone(), of.binding.to_owned());
            Err(Failure::Blind { case, binding, index })
        }
    }
}

fn fill(bytes: &mut [u8], pattern: [u8; 4]) {
    bytes.copy_from_slice(&pattern.repeat(bytes.len().div_ceil(pattern.len()))[..bytes.len()]);
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn byte_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn launch_failure(case: &Case, error: LaunchError) -> Failure {
    Failure::Launch { case: case.name.clone(), error: Box::new(error) }
}
