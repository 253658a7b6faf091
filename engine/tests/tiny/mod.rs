//! The tiny models of `tests/vectors/models`: made again from their records, with logits from outside beside them.

#![allow(dead_code, reason = "not every test binary needs all of it")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use kiln_engine::forward::{Backend, ForwardError, feed_windows};
use kiln_engine::gguf::Gguf;
use kiln_engine::gguf::GgufWriter;
use kiln_engine::models;
use kiln_engine::reference::Threads;
use kiln_engine::session::{Device, ModelFile};
use kiln_kernels::{Quantize, Registry, formats::Q8_0};
use serde::Deserialize;
use serde_json::Value;

/// A model and what it answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Tiny {
    #[serde(skip)]
    pub name: String,
    pub keys: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, Vec<u64>>,
    /// Keys whose other value gives other logits.
    pub controls: Vec<(String, Value)>,
    pub ids: Vec<u32>,
    /// The rows below, by their place in `ids`.
    pub rows: Vec<usize>,
    pub numpy: Vec<Vec<f32>>,
    pub peer: Vec<Vec<f32>>,
}

/// All of them, by name.
pub fn all() -> Vec<Tiny> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/models");
    let paths = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<Tiny> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let tiny: Tiny = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            Tiny { name, ..tiny }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 14, "{} models", all.len());
    all
}

impl Tiny {
    /// The same with another value under a key.
    pub fn with(&self, key: &str, value: &Value) -> Self {
        let mut other = self.clone();
        other.keys.insert(key.to_owned(), value.clone());
        other
    }

    /// As a file.
    pub fn file(&self) -> ModelFile {
        self.file_of(false)
    }

    /// As a file whose matrices are packed: Q8_0.
    pub fn packed(&self) -> ModelFile {
        self.file_of(true)
    }

    fn file_of(&self, packed: bool) -> ModelFile {
        let gguf = Gguf::from_bytes(self.bytes(packed), &Registry::builtin()).unwrap();
        let model = models::describe(&gguf).unwrap_or_else(|declined| panic!("{}: {declined}", self.name));
        ModelFile { gguf, model }
    }

    /// What a file of it holds, its matrices as f32 or packed.
    pub fn bytes(&self, packed: bool) -> Vec<u8> {
        let mut writer = GgufWriter::new();
        for (key, value) in &self.keys {
            match value {
                Value::String(text) => writer.key(key, text.as_str()).unwrap(),
                Value::Number(n) if n.is_f64() => writer.key(key, n.as_f64().unwrap() as f32).unwrap(),
                Value::Number(n) => writer.key(key, u32::try_from(n.as_u64().unwrap()).unwrap()).unwrap(),
                other => panic!("{key} is {other}"),
            }
        }
        let registry = Registry::builtin();
        let (f32, q8_0) = (registry.format_named("F32").unwrap(), registry.format_named("Q8_0").unwrap());
        let is_packed = |shape: &[u64]| packed && shape.len() > 1;
        for (name, shape) in &self.tensors {
            writer.tensor(name, shape, if is_packed(shape) { q8_0 } else { f32 }).unwrap();
        }
        let mut data = writer.start(Vec::new()).unwrap();
        for (name, shape) in &self.tensors {
            let values = values(name, shape);
            let bytes: Vec<u8> = if is_packed(shape) {
                let block = |values: &[f32]| {
                    let mut block = [0; 34];
                    Q8_0::quantize(values, &mut block);
                    block
                };
                values.chunks_exact(32).flat_map(block).collect()
            } else {
                values.iter().flat_map(|x| x.to_le_bytes()).collect()
            };
            data.data(&bytes).unwrap();
        }
        data.finish().unwrap()
    }

    /// On the reference.
    pub fn reference(&self) -> Box<dyn Backend> {
        let device = Device::Reference { threads: Threads::new(None) };
        self.file().load(&Registry::builtin(), device, &|_, _| ()).unwrap()
    }

    /// The rows of `logits` that are recorded, and those before them.
    pub fn recorded(&self, logits: &[f32], shift: usize) -> Vec<f32> {
        let n_vocab = logits.len() / self.ids.len();
        let row = |row: &usize| &logits[row.saturating_sub(shift) * n_vocab..][..n_vocab];
        self.rows.iter().flat_map(row).copied().collect()
    }
}

/// A tensor's values, as the script that made the records has them.
fn values(name: &str, shape: &[u64]) -> Vec<f32> {
    let fnv = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let range = (12.0 / *shape.last().unwrap() as f32).sqrt();
    let n: u64 = shape.iter().product();
    let unit = |i: u64| {
        let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    };
    let value = |unit: f32| match name {
        "rope_freqs.weight" => 4.5 + 7.0 * unit,
        _ if name.ends_with("norm.weight") => 1.0 + 0.5 * unit,
        _ if name.ends_with(".bias") => unit,
        _ => range * unit,
    };
    (0..n).map(|i| value(unit(i))).collect()
}

/// Logits after every id, fed in one window or one by one.
pub fn logits(backend: &dyn Backend, ids: &[u32], one_by_one: bool) -> Vec<f32> {
    let mut sequence = backend.sequence(ids.len()).unwrap();
    let mut all = Vec::new();
    if one_by_one {
        ids.iter().for_each(|id| all.extend(sequence.feed(&[*id], 0..1).unwrap()));
    } else {
        let rows = |_, rows: Vec<f32>| {
            all.extend(rows);
            Ok::<_, ForwardError>(())
        };
        feed_windows(sequence.as_mut(), ids, 0..ids.len(), rows).unwrap();
    }
    all
}

/// Largest difference.
pub fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
