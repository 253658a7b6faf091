//! What fails, fails with a name, and leaves the process standing.

use std::time::{Duration, Instant};

use kiln_abi::{Device, DeviceError, Dispatch, Grid, LaunchError};
use kiln_runtime::{Faults, RecordOptions, RuntimeOptions};

use crate::{
    kernels::{accumulate, affine, groups, push, slow},
    machine::{args, download, open, options, run, upload, words},
};

fn with(faults: Faults) -> RuntimeOptions {
    RuntimeOptions { faults, ..options() }
}

#[test]
fn a_failing_allocation_is_named_and_the_next_one_works() {
    let Some(gpu) = open(&with(Faults { fail_allocation: Some(2), ..Default::default() })) else { return };
    let first = upload(&gpu, "first", &[1; 64]);
    let error = gpu.allocate(4096, "blk.0.attn_q.weight").unwrap_err();
    let DeviceError::OutOfMemory { label, bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((label.as_str(), *bytes), ("blk.0.attn_q.weight", 4096));
    let third = upload(&gpu, "third", &[0; 64]);
    run(&gpu, &affine(), vec![words(first, 0, 64), words(third, 0, 64)], &[64, 4, 0], groups(64));
    assert_eq!(download(&gpu, third, 64), [4; 64]);
}

#[test]
fn a_full_memory_says_what_is_left() {
    let Some(gpu) = open(&with(Faults { room_bytes: Some(20 << 20), ..Default::default() })) else { return };
    let small = upload(&gpu, "small", &[1; 64]);
    assert!(gpu.memory_use().slab_bytes <= 20 << 20, "a slab is no larger than what is left");
    let error = gpu.allocate((20 << 20) + 1, "token_embd.weight").unwrap_err();
    let DeviceError::OutOfMemory { label, bytes, reason } = &error else { panic!("{error}") };
    assert_eq!((label.as_str(), *bytes), ("token_embd.weight", (20 << 20) + 1));
    assert!(reason.starts_with("20 MiB usable"), "{reason}");
    println!("{error}");
    assert!(gpu.allocate(20 << 20, "what fits").is_ok());
    assert_eq!(download(&gpu, small, 64), [1; 64]);
}

#[test]
fn a_failing_pipeline_is_named_and_other_kernels_run() {
    let Some(gpu) = open(&with(Faults { fail_pipeline: Some("affine".into()), ..Default::default() })) else {
        return;
    };
    let error = gpu.prepare(&affine()).err().unwrap();
    let LaunchError::Device(DeviceError::Vulkan { call, object, .. }) = &error else { panic!("{error}") };
    assert_eq!((*call, object.as_str()), ("vkCreateComputePipelines", "affine"));
    let (input, total) = (upload(&gpu, "input", &[1; 64]), upload(&gpu, "total", &[2; 64]));
    run(&gpu, &accumulate(), vec![words(input, 0, 64), words(total, 0, 64)], &[64], groups(64));
    assert_eq!(download(&gpu, total, 64), [7; 64]);
}

#[test]
fn a_lost_device_stays_lost_and_a_new_one_works() {
    let lossy = RuntimeOptions {
        force_staging: true,
        ..with(Faults { lose_at_submit: Some(4), ..Default::default() })
    };
    let Some(gpu) = open(&lossy) else { return };
    // Submits 1 and 2 are uploads, 3 is the first dispatch, 4 the second.
    let (input, output) = (upload(&gpu, "input", &[1; 64]), upload(&gpu, "output", &[0; 64]));
    let kernel = affine();
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    let push = push(&[64, 1, 1]);
    let dispatch = Dispatch {
        kernel: &kernel,
        bindings: &bindings,
        needed_bytes: &[],
        push: &push,
        grid: Grid::from(1),
    };
    gpu.dispatch(&dispatch).unwrap();
    let lost = DeviceError::Lost { kernel: "affine".into() };
    assert_eq!(gpu.dispatch(&dispatch), Err(lost.clone()));
    assert_eq!(gpu.dispatch(&dispatch), Err(lost.clone()));
    assert_eq!(gpu.allocate(4, "late"), Err(lost.clone()));
    assert_eq!(gpu.write(input, 0, &[1]), Err(lost.clone()));
    assert_eq!(gpu.read(output, 0, &mut [0]), Err(lost.clone()));
    assert_eq!(gpu.peek(output, 0), Err(lost.clone()));
    assert_eq!(gpu.recorder("late", RecordOptions::default()).err(), Some(lost.clone()));
    assert_eq!(gpu.prepare(&accumulate()).err(), Some(LaunchError::Device(lost)));
    gpu.free(input);
    drop(gpu);
    let Some(gpu) = open(&options()) else { return };
    let buffer = upload(&gpu, "again", &[3]);
    assert_eq!(download(&gpu, buffer, 1), [3]);
}

#[test]
fn a_recording_finished_before_the_loss_fails_with_its_kernels() {
    let lossy = with(Faults { lose_at_submit: Some(4), ..Default::default() });
    let Some(gpu) = open(&RuntimeOptions { force_staging: true, ..lossy }) else { return };
    let kernels = [gpu.prepare(&affine()).unwrap(), gpu.prepare(&accumulate()).unwrap()];
    let (input, output) = (upload(&gpu, "input", &[1; 64]), upload(&gpu, "output", &[0; 64]));
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    let mut recorder = gpu.recorder("decode", RecordOptions::default()).unwrap();
    recorder.launch(&kernels[0], &args(&bindings, &push(&[64, 1, 1]), 1)).unwrap();
    recorder.launch(&kernels[1], &args(&bindings, &push(&[64]), 1)).unwrap();
    let recorded = recorder.finish().unwrap();
    let ticket = recorded.submit().unwrap();
    gpu.wait(&ticket, None).unwrap();
    let lost = DeviceError::Lost { kernel: "decode (affine, accumulate)".into() };
    assert_eq!(recorded.run(), Err(lost.clone()));
    assert_eq!(gpu.wait(&ticket, None), Err(lost.clone()));
    assert_eq!(gpu.is_done(&ticket), Err(lost));
}

#[test]
fn a_wait_ends_at_its_timeout_and_can_be_repeated() {
    let Some(gpu) = open(&options()) else { return };
    let kernel = gpu.prepare(&slow()).unwrap();
    let output = upload(&gpu, "output", &[0; 64]);
    let mut steps = 1_000_000;
    // Long enough on any device: the work doubles until a wait of one millisecond does not suffice.
    loop {
        let mut recorder = gpu.recorder("long", RecordOptions::default()).unwrap();
        recorder.launch(&kernel, &args(&[words(output, 0, 64)], &push(&[64, steps]), 1)).unwrap();
        let recorded = recorder.finish().unwrap();
        let started = Instant::now();
        let ticket = recorded.submit().unwrap();
        match gpu.wait(&ticket, Some(Duration::from_millis(1))) {
            Err(error) => {
                let DeviceError::Vulkan { call, object, result } = &error else { panic!("{error}") };
                assert_eq!((*call, object.as_str()), ("vkWaitSemaphores", "slow"));
                assert!(result.starts_with("TIMEOUT"), "{result}");
                assert_eq!(gpu.is_done(&ticket), Ok(false));
                gpu.wait(&ticket, None).unwrap();
                assert!(started.elapsed() > Duration::from_millis(1));
                assert_eq!(gpu.is_done(&ticket), Ok(true));
                return;
            }
            Ok(()) => {
                assert!(steps < 1 << 30, "a billion steps end within a millisecond");
                steps *= 2;
            }
        }
    }
}
