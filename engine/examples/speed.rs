//! Tokens per second of a model file on a Vulkan device: `speed MODEL [PROMPT] [ANSWER] [REPEATS]`.
//!
//! Random ids are fed in windows, then the answer is chosen greedily, one id a step, each on the host before it
//! counts. The first repetition warms up and is dropped. It checks no results: read it beside a parity test.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use kiln_abi::Device as _;
use kiln_engine::forward::{Choice, ForwardError, feed_windows};
use kiln_engine::plan::{ContextWish, PlanOptions};
use kiln_engine::session::{Device, ModelFile};
use kiln_kernels::{Registry, conformance::Random};
use kiln_runtime::{Gpu, RuntimeOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |n| n.parse());
    let path = args.first().ok_or("usage: speed MODEL [PROMPT] [ANSWER] [REPEATS]")?;
    let (n_prompt, n_answer, repeats) = (number(1, 512)?, number(2, 128)?, number(3, 3)?);
    let n_ctx = n_prompt + n_answer + 1;

    let registry = Registry::builtin();
    let file = ModelFile::open(Path::new(path), &registry)?;
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    println!("{} ({})", gpu.caps().name, gpu.caps().driver);
    let started = Instant::now();
    let backend = file.load(
        &registry,
        Device::Vulkan { gpu, options: PlanOptions::new(ContextWish::Exactly(n_ctx)) },
        &|_, _| (),
    )?;
    println!("loaded in {:.2} s", started.elapsed().as_secs_f64());

    let n_vocab = u32::try_from(file.model.graph.n_vocab())?;
    let mut random = Random::new(1);
    for repeat in 0..=repeats {
        let mut sequence = backend.sequence(n_ctx)?;
        // Recording and pipelines are not what is measured.
        sequence.feed_greedy(&[1])?;
        sequence.rewind(0);
        let ids: Vec<u32> = (0..n_prompt).map(|_| random.below(n_vocab)).collect();
        let started = Instant::now();
        feed_windows(sequence.as_mut(), &ids, n_prompt - 1..n_prompt, |_, _| Ok::<_, ForwardError>(()))?;
        let prefill = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let mut id = 1;
        for _ in 0..n_answer {
            let Choice::Token(next) = sequence.feed_greedy(&[id])? else {
                return Err("no id can be chosen".into());
            };
            id = next;
        }
        let decode = started.elapsed().as_secs_f64();
        if repeat > 0 {
            let (pp, tg) = (n_prompt as f64 / prefill, n_answer as f64 / decode);
            println!("pp{n_prompt} {pp:.1} t/s, tg{n_answer} {tg:.1} t/s");
        }
    }
    Ok(())
}
