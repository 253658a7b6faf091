//! Texts that one model continues at once on one device, as a service would have it: `embed MODEL TEXT...`.
//!
//! `kiln-engine` reads files and runs models, `kiln-kernels` has the registry of formats, `kiln-runtime` the devices.
//! A single conversation is shorter: `kiln_engine::session::Session` keeps its ids and streams its text.

use std::{error::Error, path::Path, process::ExitCode};

use kiln_engine::{
    forward::Choice,
    plan::{ContextWish, PlanOptions},
    sample::Sampler,
    session::ModelFile,
    submit::{DeviceModel, Feed, Got, SlotId, Want},
    tokenizer::{ControlText, SpecialText, Tokenizer},
};
use kiln_kernels::Registry;
use kiln_runtime::{Gpu, RuntimeOptions};

/// Positions of a sequence, at most.
const N_CTX: usize = 1024;
/// Ids that follow a text, at most.
const LIMIT: usize = 24;

/// A sequence, the ids that it is fed next, and those that it was given.
struct Text {
    slot: SlotId,
    next: Vec<u32>,
    ids: Vec<u32>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("embed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, texts @ ..] = &args[..] else { return Err("usage: embed MODEL TEXT...".into()) };

    let registry = Registry::builtin();
    let file = ModelFile::open(Path::new(path), &registry)?;
    let tokenizer = Tokenizer::from_gguf(&file.gguf)?;
    let gpu = Gpu::open(&RuntimeOptions::default())?;
    let options = PlanOptions::new(ContextWish::AtMost(N_CTX));
    let model = DeviceModel::load(&gpu, &file.gguf, &file.model.graph, &registry, options, &|_, _| ())?;

    // A sequence each. Whose texts these are is not known, so what reads like a control token stays text.
    let slots = model.slots();
    let start = |text: &String| {
        let next = tokenizer.encode_prompt(text, SpecialText::Plain);
        slots.start(N_CTX).map(|slot| Text { slot, next, ids: Vec::new() })
    };
    let mut texts = texts.iter().map(start).collect::<Result<Vec<_>, _>>()?;

    // All of them go on in each step, until a text ends: what one gets does not depend on the others.
    let mut going: Vec<usize> = (0..texts.len()).collect();
    while !going.is_empty() {
        let feed = |i: &usize| Feed { slot: texts[*i].slot, ids: &texts[*i].next, want: Want::Choice };
        let feeds: Vec<Feed<'_>> = going.iter().map(feed).collect();
        let got = slots.step(&feeds)?;
        for (i, got) in going.iter().zip(got) {
            let text = &mut texts[*i];
            let id = match got {
                Got::Choice(Choice::Token(id)) => id,
                Got::Choice(Choice::Logits(row)) => Sampler::greedy().choose(&row, 0)?,
                _ => return Err("a choice was asked for".into()),
            };
            text.next = vec![id];
            if !tokenizer.is_end(id) {
                text.ids.push(id);
            }
        }
        going
            .retain(|&i| texts[i].ids.len() < LIMIT && !texts[i].next.iter().any(|id| tokenizer.is_end(*id)));
    }
    for (i, text) in texts.iter().enumerate() {
        println!("{}: {}", i + 1, tokenizer.decode(&text.ids, ControlText::Hidden)?);
        slots.end(text.slot);
    }
    Ok(())
}
