//! Sequences of tiny models by their slots, for tests on the Vulkan device that is here.

#![allow(dead_code, reason = "not every test binary needs all of it")]

use kiln_engine::forward::Choice;
use kiln_engine::plan::PlanOptions;
use kiln_engine::session::ModelFile;
use kiln_engine::submit::{DeviceModel, Feed, Got, SlotId, Want};
use kiln_kernels::Registry;
use kiln_runtime::{CacheDir, Gpu, RuntimeOptions};

use crate::tiny::{self, Tiny};

pub fn gpu() -> Option<Gpu> {
    if std::env::var_os("KILN_NO_VULKAN").is_some() {
        println!("NOT RUN: KILN_NO_VULKAN is set, no model ran through Vulkan");
        return None;
    }
    let device = std::env::var("KILN_DEVICE").ok();
    let options = RuntimeOptions { device, validation: true, cache: CacheDir::Off, ..Default::default() };
    Some(Gpu::open(&options).unwrap())
}

pub fn clean(gpu: &Gpu) {
    let messages = gpu.validation_messages();
    assert!(messages.is_empty(), "the validation layer says:\n{}", messages.join("\n"));
}

pub fn tiny(name: &str) -> Tiny {
    tiny::all().into_iter().find(|tiny| tiny.name == name).unwrap()
}

pub fn load(gpu: &Gpu, file: &ModelFile, options: PlanOptions) -> DeviceModel {
    let (registry, graph) = (Registry::builtin(), &file.model.graph);
    DeviceModel::load(gpu, &file.gguf, graph, &registry, options, &|_, _| ()).unwrap()
}

/// Ids that only `seed` decides.
pub fn ids(seed: usize, n: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * 7 + seed * 13 + i * i % 11) % 48) as u32).collect()
}

pub fn feed(model: &DeviceModel, slot: SlotId, ids: &[u32]) {
    for ids in ids.chunks(model.plan().window as usize) {
        model.slots().step(&[Feed { slot, ids, want: Want::Nothing }]).unwrap();
    }
}

/// Logits after one id for each slot, in one command.
pub fn together(model: &DeviceModel, rows: &[(SlotId, u32)]) -> Vec<Vec<f32>> {
    let ids: Vec<[u32; 1]> = rows.iter().map(|(_, id)| [*id]).collect();
    let feeds: Vec<_> = rows
        .iter()
        .zip(&ids)
        .map(|((slot, _), ids)| Feed { slot: *slot, ids, want: Want::Logits(0..1) })
        .collect();
    let got = model.slots().step(&feeds).unwrap();
    got.into_iter().map(|got| if let Got::Logits(row) = got { row } else { panic!("{got:?}") }).collect()
}

pub fn one(model: &DeviceModel, slot: SlotId, id: u32) -> Vec<f32> {
    together(model, &[(slot, id)]).remove(0)
}

pub fn choose(model: &DeviceModel, slot: SlotId, ids: &[u32]) -> u32 {
    match model.slots().step(&[Feed { slot, ids, want: Want::Choice }]).unwrap().remove(0) {
        Got::Choice(Choice::Token(token)) => token,
        other => panic!("{other:?}"),
    }
}
