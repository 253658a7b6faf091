//! Recordings: hazards, replays, copies, indirect grids, threads.

use std::thread;

use kiln_abi::{BufferId, BufferRange, Device, DeviceError, Dispatch, Grid, LaunchArgs, LaunchError};
use kiln_runtime::{Faults, Gpu, Prepared, RecordOptions, Recorder, RuntimeOptions};

use crate::{
    kernels::{accumulate, affine, groups, push, slow, write_grid},
    machine::{Machine, args, download, open, options, pattern, run, upload, validated, words},
};

const N: u64 = 256;

/// Recorded commands over four buffers, with what they do to a model of them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Affine { from: (usize, u64), to: (usize, u64), factor: u32, term: u32 },
    Accumulate { from: (usize, u64), to: (usize, u64) },
    Copy { from: (usize, u64), to: (usize, u64) },
    Fill { to: (usize, u64), word: u32 },
}

/// Words of each command: offsets are multiples of it, which is every device's alignment.
const PIECE: u64 = 64;

fn steps(seed: u64) -> Vec<Step> {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    (0..60)
        .map(|_| {
            let mut place = || ((next(4)) as usize, next(N / PIECE) * PIECE);
            let (from, mut to) = (place(), place());
            while to == from {
                to = place();
            }
            match next(6) {
                0 => Step::Copy { from, to },
                1 => Step::Fill { to, word: next(1 << 30) as u32 },
                2 | 3 => Step::Affine { from, to, factor: next(1000) as u32, term: next(1000) as u32 },
                _ => Step::Accumulate { from, to },
            }
        })
        .collect()
}

fn model(steps: &[Step], buffers: &mut [Vec<u32>]) {
    let piece = |(buffer, start): (usize, u64)| move |i: u64| (buffer, (start + i) as usize);
    for step in steps {
        for i in 0..PIECE {
            let read = |at: (usize, u64), buffers: &[Vec<u32>]| {
                let (b, w) = piece(at)(i);
                buffers[b][w]
            };
            let (to, value) = match *step {
                Step::Affine { from, to, factor, term } => {
                    (to, read(from, buffers).wrapping_mul(factor).wrapping_add(term))
                }
                Step::Accumulate { from, to } => {
                    (to, read(to, buffers).wrapping_mul(3).wrapping_add(read(from, buffers)))
                }
                Step::Copy { from, to } => (to, read(from, buffers)),
                Step::Fill { to, word } => (to, word),
            };
            let (b, w) = piece(to)(i);
            buffers[b][w] = value;
        }
    }
}

fn record(recorder: &mut Recorder, kernels: &[Prepared; 2], buffers: &[BufferId], steps: &[Step]) {
    let range = |(buffer, start): (usize, u64)| words(buffers[buffer], start, PIECE);
    let grid = Grid::from(groups(PIECE as u32));
    let n = PIECE as u32;
    for step in steps {
        match *step {
            Step::Affine { from, to, factor, term } => {
                let push = push(&[n, factor, term]);
                recorder.launch(&kernels[0], &args(&[range(from), range(to)], &push, grid))
            }
            Step::Accumulate { from, to } => {
                recorder.launch(&kernels[1], &args(&[range(from), range(to)], &push(&[n]), grid))
            }
            Step::Copy { from, to } => recorder.copy(range(from), range(to)).map_err(LaunchError::from),
            Step::Fill { to, word } => recorder.fill(range(to), word).map_err(LaunchError::from),
        }
        .unwrap();
    }
}

fn prepared(gpu: &Gpu) -> [Prepared; 2] {
    [gpu.prepare(&affine()).unwrap(), gpu.prepare(&accumulate()).unwrap()]
}

fn four(gpu: &Gpu) -> Vec<BufferId> {
    (0..4).map(|i| upload(gpu, &format!("buffer {i}"), &pattern(N as usize, i))).collect()
}

fn contents(gpu: &Gpu, buffers: &[BufferId]) -> Vec<Vec<u32>> {
    buffers.iter().map(|&b| download(gpu, b, N as usize)).collect()
}

#[test]
fn random_recordings_equal_their_model_with_and_without_paranoia() {
    let Some(gpu) = open(&options()) else { return };
    let kernels = prepared(&gpu);
    for seed in 0..20 {
        let steps = steps(seed);
        let mut expected: Vec<_> = (0..4).map(|i| pattern(N as usize, i)).collect();
        model(&steps, &mut expected);
        let mut barriers = Vec::new();
        for paranoid in [false, true] {
            let buffers = four(&gpu);
            let mut recorder =
                gpu.recorder("random", RecordOptions { paranoid, ..Default::default() }).unwrap();
            record(&mut recorder, &kernels, &buffers, &steps);
            barriers.push(recorder.barriers());
            recorder.finish().unwrap().run().unwrap();
            let found = contents(&gpu, &buffers);
            assert_eq!(found, expected, "seed {seed}, paranoid {paranoid}");
            expected[2][17] ^= 1;
            assert_ne!(found, expected, "one falsified word must show");
            expected[2][17] ^= 1;
            buffers.into_iter().for_each(|b| gpu.free(b));
        }
        assert_eq!(barriers[1], steps.len(), "paranoia is a barrier before every command");
        assert!(barriers[0] < barriers[1], "{barriers:?}");
        if seed == 0 {
            println!("seed 0: {} commands, {} barriers, {} paranoid", steps.len(), barriers[0], barriers[1]);
        }
    }
}

#[test]
fn the_synchronization_checks_find_a_missing_barrier() {
    if !validated() {
        eprintln!("NOT RUN: it needs the validation layer");
        return;
    }
    let faults = Faults { drop_barriers: true, ..Default::default() };
    let Some(gpu) = open(&RuntimeOptions { faults, ..options() }) else { return };
    let kernels = prepared(&gpu);
    let buffers = four(&gpu);
    let mut recorder = gpu.recorder("broken", RecordOptions::default()).unwrap();
    record(&mut recorder, &kernels, &buffers, &steps(0));
    recorder.finish().unwrap().run().unwrap();
    drop((kernels, buffers));
    let messages = gpu.into_messages();
    assert!(messages.iter().any(|m| m.contains("SYNC-HAZARD")), "no hazard was reported: {messages:?}");
    println!("without barriers: {} hazards reported", messages.len());
}

#[test]
fn a_kernel_that_hides_its_write_is_found() {
    if !validated() {
        eprintln!("NOT RUN: it needs the validation layer");
        return;
    }
    let Some(gpu) = open(&options()) else { return };
    let mut lying = affine();
    lying.layout.bindings[1].access = kiln_abi::Access::Read;
    let kernel = gpu.prepare(&lying).unwrap();
    let buffers = four(&gpu);
    let mut recorder = gpu.recorder("lying", RecordOptions::default()).unwrap();
    for [from, to] in [[0, 1], [1, 2]] {
        let bindings = [words(buffers[from], 0, N), words(buffers[to], 0, N)];
        recorder.launch(&kernel, &args(&bindings, &push(&[N as u32, 1, 1]), groups(N as u32))).unwrap();
    }
    assert_eq!(recorder.barriers(), 0);
    recorder.finish().unwrap().run().unwrap();
    drop(kernel);
    let messages = gpu.into_messages();
    assert!(messages.iter().any(|m| m.contains("SYNC-HAZARD-READ-AFTER-WRITE")), "{messages:?}");
}

#[test]
fn a_recording_replays() {
    let Some(gpu) = open(&options()) else { return };
    let kernels = prepared(&gpu);
    let buffers = four(&gpu);
    let steps = steps(3);
    let mut recorder = gpu.recorder("replayed", RecordOptions::default()).unwrap();
    record(&mut recorder, &kernels, &buffers, &steps);
    let recorded = recorder.finish().unwrap();
    let mut expected: Vec<_> = (0..4).map(|i| pattern(N as usize, i)).collect();
    // Ten submits in flight at once, then one more.
    let tickets: Vec<_> = (0..10).map(|_| recorded.submit().unwrap()).collect();
    (0..10).for_each(|_| model(&steps, &mut expected));
    gpu.wait(tickets.last().unwrap(), None).unwrap();
    assert!(tickets.iter().all(|ticket| gpu.is_done(ticket).unwrap()));
    assert_eq!(contents(&gpu, &buffers), expected);
    recorded.run().unwrap();
    model(&steps, &mut expected);
    assert_eq!(contents(&gpu, &buffers), expected);
}

#[test]
fn thousands_of_dispatches_fit_one_recording() {
    let Some(gpu) = open(&options()) else { return };
    let kernel = gpu.prepare(&accumulate()).unwrap();
    let (ones, total) = (upload(&gpu, "ones", &[1; 64]), upload(&gpu, "total", &[0; 64]));
    let mut recorder = gpu.recorder("many", RecordOptions::default()).unwrap();
    let mut expected = 0u32;
    for _ in 0..3000 {
        let bindings = [words(ones, 0, 64), words(total, 0, 64)];
        recorder.launch(&kernel, &args(&bindings, &push(&[64]), 1)).unwrap();
        expected = expected.wrapping_mul(3).wrapping_add(1);
    }
    assert_eq!(recorder.barriers(), 2999, "each one depends on the last");
    recorder.finish().unwrap().run().unwrap();
    assert_eq!(download(&gpu, total, 64), [expected; 64]);
}

#[test]
fn an_indirect_grid_is_read_when_the_recording_runs() {
    let Some(gpu) = open(&options()) else { return };
    let kernels = [gpu.prepare(&write_grid()).unwrap(), gpu.prepare(&affine()).unwrap()];
    for workgroups in [0, 1, 3] {
        let (input, output) = (upload(&gpu, "input", &[1; 256]), upload(&gpu, "output", &[0; 256]));
        let grid = upload(&gpu, "grid", &[99; 4]);
        let mut recorder = gpu.recorder("indirect", RecordOptions::default()).unwrap();
        recorder.launch(&kernels[0], &args(&[words(grid, 0, 4)], &push(&[1, workgroups]), 1)).unwrap();
        let bindings = [words(input, 0, 256), words(output, 0, 256)];
        let launch = args(&bindings, &push(&[256, 2, 1]), 1);
        recorder.launch_indirect(&kernels[1], &launch, words(grid, 0, 3)).unwrap();
        assert_eq!(recorder.barriers(), 1, "the grid is written before it is read");
        recorder.finish().unwrap().run().unwrap();
        let expected: Vec<_> = (0..256).map(|i| if i < workgroups * 64 { 3 } else { 0 }).collect();
        assert_eq!(download(&gpu, output, 256), expected, "{workgroups} workgroups");
    }
    let grid = upload(&gpu, "grid", &[1; 4]);
    let other = upload(&gpu, "other", &[1; 64]);
    let launch = args(&[words(grid, 0, 3), words(other, 0, 4)], &push(&[1, 1, 1]), 1);
    let mut recorder = gpu.recorder("refused", RecordOptions::default()).unwrap();
    for bad in [words(grid, 0, 4), BufferRange { buffer: grid, offset_bytes: 2, bytes: 12 }] {
        let error = recorder.launch_indirect(&kernels[1], &launch, bad).unwrap_err();
        assert!(matches!(error, LaunchError::Device(DeviceError::Refused { .. })), "{error}");
    }
}

#[test]
fn what_does_not_fit_the_kernel_is_refused_and_leaves_the_recording_whole() {
    let Some(gpu) = open(&options()) else { return };
    let kernel = gpu.prepare(&affine()).unwrap();
    let (input, output) = (upload(&gpu, "input", &[5; 64]), upload(&gpu, "output", &[0; 64]));
    let good = [words(input, 0, 64), words(output, 0, 64)];
    let good_push = push(&[64, 1, 1]);
    let mut recorder = gpu.recorder("checked", RecordOptions::default()).unwrap();
    let one = Grid::from(1);
    let huge = Grid([1, gpu.caps().limits.max_grid[1].saturating_add(1), 1]);
    let mut refused = |bindings: &[BufferRange], push: &[u8], grid: Grid, part: &str| {
        let error = recorder.launch(&kernel, &args(bindings, push, grid)).unwrap_err();
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    };
    refused(&good[..1], &good_push, one, "2 buffers, 1 were given");
    refused(&good, &good_push[..8], one, "12 bytes of push constants, 8");
    refused(&[good[0], words(output, 0, 65)], &good_push, one, "outside buffer");
    refused(&[good[0], words(output, 0, 0)], &good_push, one, "argument output");
    refused(&[good[0], BufferRange { offset_bytes: 1, bytes: 4, ..good[1] }], &good_push, one, "multiple of");
    refused(&[good[0], words(BufferId(999), 0, 64)], &good_push, one, "outside buffer");
    if gpu.caps().limits.max_grid[1] < u32::MAX {
        refused(&good, &good_push, huge, "workgroups");
    }
    assert!(recorder.copy(words(input, 0, 8), words(input, 4, 8)).is_err(), "an overlapping copy");
    assert!(recorder.copy(words(input, 0, 8), words(output, 0, 4)).is_err(), "unequal lengths");
    assert!(recorder.fill(BufferRange { offset_bytes: 2, ..words(input, 0, 8) }, 0).is_err());
    recorder.launch(&kernel, &args(&good, &good_push, 0)).unwrap();
    recorder.launch(&kernel, &args(&good, &good_push, one)).unwrap();
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.commands(), 1, "an empty grid records nothing");
    recorded.run().unwrap();
    assert_eq!(download(&gpu, output, 64), [6; 64]);
}

#[test]
fn buffers_and_submits_of_another_device_are_refused() {
    let Some((gpu, other)) = open(&options()).zip(open(&options())) else { return };
    let (own, foreign) = (upload(&gpu, "own", &[0; 4]), upload(&other, "foreign", &[5; 4]));
    assert_ne!(own, foreign);
    let mut recorder = gpu.recorder("copy", RecordOptions::default()).unwrap();
    let error = recorder.copy(words(foreign, 0, 4), words(own, 0, 4)).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfRange { buffer, .. } if buffer == foreign), "{error}");
    let ticket = recorder.finish().unwrap().submit().unwrap();
    for refused in [other.wait(&ticket, None), other.is_done(&ticket).map(|_| ())] {
        assert!(matches!(refused, Err(DeviceError::Refused { .. })), "{refused:?}");
    }
    gpu.wait(&ticket, None).unwrap();
}

#[test]
fn a_kernel_of_another_device_is_refused() {
    let (Some(gpu), Some(other)) = (open(&options()), open(&options())) else { return };
    let foreign = other.prepare(&affine()).unwrap();
    let (input, output) = (upload(&gpu, "input", &[5; 64]), upload(&gpu, "output", &[0; 64]));
    let mut recorder = gpu.recorder("mixed", RecordOptions::default()).unwrap();
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    let error = recorder.launch(&foreign, &args(&bindings, &push(&[64, 1, 1]), 1)).unwrap_err();
    assert!(error.to_string().contains("another device"), "{error}");
}

#[test]
fn a_recorded_launch_checks_the_contracts() {
    let Some(gpu) = open(&options()) else { return };
    let kernel = gpu.prepare(&affine()).unwrap();
    let (input, output) = (upload(&gpu, "input", &[5; 64]), upload(&gpu, "output", &[0; 64]));
    let mut args = LaunchArgs {
        bindings: vec![words(input, 0, 64), words(output, 0, 64)],
        needed_bytes: vec![Some(256), Some(257)],
        push: push(&[64, 1, 1]),
        grid: Grid::from(1),
    };
    let mut recorder = gpu.recorder("launch", RecordOptions::default()).unwrap();
    let error = recorder.launch(&kernel, &args).unwrap_err();
    assert!(matches!(&error, LaunchError::TooShort { needed: 257, given: 256, .. }), "{error}");
    args.needed_bytes[1] = Some(256);
    recorder.launch(&kernel, &args).unwrap();
    recorder.finish().unwrap().run().unwrap();
    assert_eq!(download(&gpu, output, 64), [6; 64]);
}

#[test]
fn a_length_that_nobody_would_check_is_refused() {
    let Some(gpu) = open(&options()) else { return };
    let mut trusting = affine();
    trusting.layout.checked = false;
    let (input, output) = (upload(&gpu, "input", &[5; 64]), upload(&gpu, "output", &[0; 64]));
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    let kernel = gpu.prepare(&trusting).unwrap();
    let mut recorder = gpu.recorder("trusting", RecordOptions::default()).unwrap();
    let mut launch = args(&bindings, &push(&[64, 1, 1]), 1);
    for needed in [vec![], vec![None, None], vec![Some(256)], vec![Some(256), None]] {
        let named = if needed.first().is_some_and(Option::is_some) { "output" } else { "input" };
        let refused = |error: &str| assert!(error.contains(&format!("argument {named} needs")), "{error}");
        let dispatch = Dispatch {
            kernel: &trusting,
            bindings: &bindings,
            needed_bytes: &needed,
            push: &launch.push,
            grid: launch.grid,
        };
        refused(&gpu.dispatch(&dispatch).unwrap_err().to_string());
        launch.needed_bytes.clone_from(&needed);
        let error = recorder.launch(&kernel, &launch).unwrap_err();
        assert!(matches!(error, LaunchError::NoContract { .. }), "{error}");
        refused(&error.to_string());
        refused(&recorder.launch_indirect(&kernel, &launch, words(input, 0, 3)).unwrap_err().to_string());
    }
    launch.needed_bytes = vec![Some(256), Some(256)];
    recorder.launch(&kernel, &launch).unwrap();
    recorder.finish().unwrap().run().unwrap();
    assert_eq!(download(&gpu, output, 64), [6; 64]);
}

#[test]
fn several_threads_share_a_device() {
    for force_staging in [false, true] {
        let Some(gpu) = open(&RuntimeOptions { force_staging, ..options() }) else { return };
        let gpu: &Machine = &gpu;
        thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    for round in 0..10 {
                        let (seed, n) = (thread * 100 + round, 1000);
                        let input = upload(gpu, "input", &pattern(n, seed));
                        let output = upload(gpu, "output", &vec![0; n]);
                        let bindings = vec![words(input, 0, n as u64), words(output, 0, n as u64)];
                        run(gpu, &affine(), bindings, &[n as u32, 7, seed], groups(n as u32));
                        let expected: Vec<_> =
                            pattern(n, seed).iter().map(|x| x.wrapping_mul(7).wrapping_add(seed)).collect();
                        assert_eq!(download(gpu, output, n), expected);
                        gpu.free(input);
                        gpu.free(output);
                    }
                });
            }
        });
        assert_eq!(gpu.memory_use().buffers, 0);
    }
}

#[test]
fn a_loop_in_a_kernel_counts_as_its_model() {
    let Some(gpu) = open(&options()) else { return };
    let output = upload(&gpu, "output", &[0; 64]);
    run(&gpu, &slow(), vec![words(output, 0, 64)], &[64, 100], 1);
    let step = |x: u32| x.wrapping_mul(crate::kernels::SLOW_FACTOR).wrapping_add(crate::kernels::SLOW_TERM);
    let expected: Vec<_> = (0..64).map(|i| (0..100).fold(i, |x, _| step(x))).collect();
    assert_eq!(download(&gpu, output, 64), expected);
}
