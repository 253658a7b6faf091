//! Buffers: allocation, reuse, transfers, limits.

use kiln_abi::{Access, BufferId, Device, DeviceError, spirv::Capability};
use kiln_runtime::{Placement, RING_BYTES, RecordOptions, RuntimeOptions};

use crate::{
    assembler::Assembler,
    kernels::{affine, groups, push},
    machine::{args, bytes, download, open, options, pattern, run, upload, words},
};

fn staged() -> RuntimeOptions {
    RuntimeOptions { force_staging: true, ..options() }
}

#[test]
fn transfers_return_what_was_written_on_both_paths() {
    for options in [options(), staged()] {
        let Some(gpu) = open(&options) else { return };
        let size = 3 * RING_BYTES + 12_345;
        let buffer = gpu.allocate(size, "large").unwrap();
        let mut expected: Vec<u8> = bytes(&pattern((size / 4 + 1) as usize, 9));
        expected.truncate(size as usize);
        gpu.write(buffer, 0, &expected).unwrap();
        // Odd starts and lengths, and pieces across the ring's slots.
        for (start, length, value) in [(1, 1, 0xa5), (4_194_303, 3, 0x5a), (5_000_001, 9_999_999, 0x11)] {
            let patch = vec![value; length];
            gpu.write(buffer, start, &patch).unwrap();
            expected[start as usize..start as usize + length].copy_from_slice(&patch);
        }
        let mut out = vec![0; size as usize];
        gpu.read(buffer, 0, &mut out).unwrap();
        assert!(out == expected, "the whole buffer differs");
        let mut part = vec![0; 7_654_321];
        gpu.read(buffer, 1_234_567, &mut part).unwrap();
        assert!(part == expected[1_234_567..1_234_567 + 7_654_321], "a part differs");
        expected[77] ^= 1;
        assert!(out != expected, "one falsified byte must show");
    }
}

#[test]
fn ranges_outside_a_buffer_are_refused() {
    for options in [options(), staged()] {
        let Some(gpu) = open(&options) else { return };
        let buffer = gpu.allocate(100, "small").unwrap();
        for (offset, length) in [(100, 1), (0, 101), (u64::MAX, 1)] {
            let error = gpu.write(buffer, offset, &vec![0; length]).unwrap_err();
            assert!(matches!(error, DeviceError::OutOfRange { size: 100, .. }), "{error}");
            let error = gpu.read(buffer, offset, &mut vec![0; length]).unwrap_err();
            assert!(matches!(error, DeviceError::OutOfRange { size: 100, .. }), "{error}");
        }
        gpu.write(buffer, 100, &[]).unwrap();
        gpu.write(buffer, 99, &[7]).unwrap();
        gpu.free(buffer);
        let error = gpu.write(buffer, 0, &[1]).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfRange { size: 0, .. }), "a freed buffer is gone: {error}");
        gpu.free(buffer);
        gpu.free(BufferId(12345));
    }
}

#[test]
fn a_hundred_buffers_share_slabs_and_give_them_back() {
    let Some(gpu) = open(&options()) else { return };
    let make = |i: u32| upload(&gpu, &format!("buffer {i}"), &pattern(50 + i as usize * 37, i));
    let mut buffers: Vec<_> = (0..100).map(make).collect();
    assert_eq!(gpu.memory_use().slabs, 1, "a hundred small buffers fit one slab");
    for i in (0..100).step_by(2) {
        gpu.free(buffers[i]);
        buffers[i] = make(i as u32);
    }
    for (i, &buffer) in buffers.iter().enumerate() {
        let n = 50 + i * 37;
        assert_eq!(download(&gpu, buffer, n), pattern(n, i as u32), "buffer {i}");
    }
    buffers.into_iter().for_each(|buffer| gpu.free(buffer));
    let left = gpu.memory_use();
    assert_eq!(
        (left.buffers, left.buffer_bytes, left.slabs),
        (0, 0, 1),
        "one slab stays for the next buffer"
    );
    let large = gpu.allocate(40 << 20, "large").unwrap();
    assert_eq!(gpu.memory_use().slabs, 2, "a large buffer has its own slab");
    gpu.free(large);
    assert_eq!(gpu.memory_use().slabs, 1);
}

#[test]
fn freed_ranges_are_used_again() {
    let Some(gpu) = open(&options()) else { return };
    for round in 0..50 {
        // 12 MiB at a time: without reuse the second round would need another slab.
        let buffers: Vec<_> = (0..4).map(|_| gpu.allocate(12 << 20, "again").unwrap()).collect();
        assert_eq!(gpu.memory_use().slabs, 1, "round {round}");
        buffers.into_iter().for_each(|buffer| gpu.free(buffer));
    }
}

#[test]
fn what_cannot_be_allocated_says_what_would_fit() {
    let Some(gpu) = open(&options()) else { return };
    let largest = gpu.largest_buffer();
    assert!(largest <= gpu.caps().limits.max_binding_bytes);
    for size in [largest + 1, u64::MAX] {
        let DeviceError::OutOfMemory { label, bytes, reason } = gpu.allocate(size, "token_embd").unwrap_err()
        else {
            panic!("it cannot be allocated");
        };
        assert_eq!((label.as_str(), bytes), ("token_embd", size));
        assert!(reason.contains(&largest.to_string()), "{reason}");
    }
    assert!(gpu.allocate(0, "nothing").is_err());
    // Exactly the limit is no error.
    if largest <= 1 << 30 && largest + (1 << 28) < gpu.room().bytes {
        let buffer = gpu.allocate(largest, "largest").unwrap();
        gpu.write(buffer, largest - 1, &[42]).unwrap();
        gpu.free(buffer);
    }
}

#[test]
fn host_buffers_can_be_looked_into() {
    let Some(gpu) = open(&staged()) else { return };
    let input = upload(&gpu, "input", &[5; 64]);
    let output = gpu.allocate_in(Placement::Host, 256, "ids").unwrap();
    run(&gpu, &affine(), vec![words(input, 0, 64), words(output, 0, 64)], &[64, 2, 3], groups(64));
    assert_eq!(gpu.peek(output, 252), Ok(13));
    assert!(matches!(gpu.peek(output, 256), Err(DeviceError::OutOfRange { .. })));
    assert!(matches!(gpu.peek(output, 2), Err(DeviceError::Refused { .. })), "words are aligned");
    assert!(matches!(gpu.peek(input, 0), Err(DeviceError::Refused { .. })), "device memory is not mapped");
}

#[test]
fn a_freed_buffer_stays_intact_for_its_recordings() {
    let Some(gpu) = open(&options()) else { return };
    let kernel = gpu.prepare(&affine()).unwrap();
    let (input, output) = (upload(&gpu, "input", &pattern(64, 1)), upload(&gpu, "output", &[0; 64]));
    let mut recorder = gpu.recorder("kept", RecordOptions::default()).unwrap();
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    recorder.launch(&kernel, &args(&bindings, &push(&[64, 1, 1]), 1)).unwrap();
    let recorded = recorder.finish().unwrap();
    gpu.free(input);
    let other = upload(&gpu, "other", &[0; 64]);
    recorded.run().unwrap();
    let expected: Vec<_> = pattern(64, 1).iter().map(|x| x.wrapping_add(1)).collect();
    assert_eq!(download(&gpu, output, 64), expected, "the freed input was not handed out again");
    drop(recorded);
    assert_eq!(download(&gpu, other, 64), [0; 64]);
}

#[test]
fn a_kernel_never_reaches_its_neighbors_in_the_slab() {
    let Some(gpu) = open(&options()) else { return };
    let buffers: Vec<_> = (0..3).map(|i| upload(&gpu, "row", &pattern(64, i))).collect();
    let mut asm = Assembler::new(64, &[("output", Access::Write)], 0);
    asm.capability(Capability::GroupNonUniform);
    let index = asm.global_index();
    let value = asm.constant(9);
    asm.store(0, index, value);
    let kernel = asm.finish("fill_nine");
    run(&gpu, &kernel, vec![words(buffers[1], 0, 64)], &[], 1);
    assert_eq!(download(&gpu, buffers[0], 64), pattern(64, 0));
    assert_eq!(download(&gpu, buffers[1], 64), [9; 64]);
    assert_eq!(download(&gpu, buffers[2], 64), pattern(64, 2));
}
