//! Timestamps per recorded command.

use kiln_runtime::RecordOptions;

use crate::{
    kernels::{affine, push, slow},
    machine::{args, open, options, upload, words},
};

const TIMED: RecordOptions = RecordOptions { timestamps: true, paranoid: false };

#[test]
fn every_command_has_a_label_and_a_time() {
    let Some(gpu) = open(&options()) else { return };
    if gpu.info().timestamps.is_none() {
        eprintln!("NOT RUN: the queue has no timestamps");
        return;
    }
    let kernels = [gpu.prepare(&affine()).unwrap(), gpu.prepare(&slow()).unwrap()];
    let (input, output) = (upload(&gpu, "input", &[1; 64]), upload(&gpu, "output", &[0; 64]));
    let mut recorder = gpu.recorder("timed", TIMED).unwrap();
    recorder.label("light");
    let bindings = [words(input, 0, 64), words(output, 0, 64)];
    recorder.launch(&kernels[0], &args(&bindings, &push(&[64, 1, 1]), 1)).unwrap();
    recorder.label("heavy");
    recorder.launch(&kernels[1], &args(&bindings[1..], &push(&[64, 2_000_000]), 1)).unwrap();
    recorder.label("");
    recorder.fill(words(output, 0, 64), 0).unwrap();
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.timings(), Ok(None), "it has not run yet");
    recorded.submit().unwrap();
    let times = recorded.timings().unwrap().unwrap();
    let names: Vec<_> = times.iter().map(|t| (t.label.as_str(), t.command.as_str())).collect();
    assert_eq!(names, [("light", "affine"), ("heavy", "slow"), ("", "fill")]);
    println!("{times:?}");
    assert!(times[1].ns > 1e5, "two million steps take longer than 0.1 ms");
    assert!(times[1].ns > 2.0 * times[0].ns, "the heavy kernel is the slower one");
}

#[test]
fn times_outgrow_one_query_pool_and_renew_with_each_run() {
    let Some(gpu) = open(&options()) else { return };
    if gpu.info().timestamps.is_none() {
        eprintln!("NOT RUN: the queue has no timestamps");
        return;
    }
    let kernel = gpu.prepare(&affine()).unwrap();
    let (input, output) = (upload(&gpu, "input", &[1; 64]), upload(&gpu, "output", &[0; 64]));
    for commands in [1, 255, 256, 257, 700] {
        let mut recorder = gpu.recorder("timed", TIMED).unwrap();
        for i in 0..commands {
            recorder.label(&i.to_string());
            let bindings = [words(input, 0, 64), words(output, 0, 64)];
            recorder.launch(&kernel, &args(&bindings, &push(&[64, 1, 1]), 1)).unwrap();
        }
        let recorded = recorder.finish().unwrap();
        for _ in 0..2 {
            recorded.run().unwrap();
            let times = recorded.timings().unwrap().unwrap();
            assert_eq!(times.len(), commands);
            assert!(times.iter().enumerate().all(|(i, t)| t.label == i.to_string()));
            // A wrapped or unwritten stamp would show as an absurd time.
            assert!(times.iter().all(|t| t.ns < 1e9), "{commands} commands");
        }
    }
}

#[test]
fn untimed_recordings_have_no_times() {
    let Some(gpu) = open(&options()) else { return };
    let output = upload(&gpu, "output", &[0; 64]);
    let mut recorder = gpu.recorder("untimed", RecordOptions::default()).unwrap();
    recorder.fill(words(output, 0, 64), 1).unwrap();
    let recorded = recorder.finish().unwrap();
    recorded.run().unwrap();
    assert_eq!(recorded.timings(), Ok(None));
}
