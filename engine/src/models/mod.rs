//! Architectures: one file each and one row in the table below.
//!
//! A model file has three parts in this order: hyper-parameters, tensors, layers. It contains no byte
//! arithmetic and knows no format and no device; what is particular about an architecture (how rope pairs
//! elements, where norms and biases stand) is a value or a word in its file and nowhere else.

mod decline;
mod file;
mod gemma2;
mod gemma3;
mod keys;
mod llama;
mod qwen2;
mod qwen3;
mod rope;
mod sizes;
mod tensors;
#[cfg(test)]
pub(crate) mod tests;
mod window;

pub use decline::Decline;
pub use keys::{FileFacts, HyperRow, KeyValue, Keys};
pub use rope::{read_rope, read_theta};
pub use sizes::Sizes;
pub use tensors::TensorList;
pub use window::read_windows;

use crate::graph::{Graph, GraphBuilder, ValueId};

/// What a model file states.
pub trait Architecture: Sized {
    /// As in `general.architecture`.
    const NAME: &'static str;

    /// Reads the hyper-parameters.
    ///
    /// # Errors
    /// The first one that is missing, makes no sense or is not supported.
    fn hyper(keys: &mut Keys) -> Result<Self, Decline>;

    /// Lists every tensor that the architecture has.
    fn tensors(&self, t: &mut TensorList);

    /// Says the layers in graph words; the returned value is the logits.
    fn layers(&self, g: &mut GraphBuilder) -> ValueId;
}

/// A row of the registry.
struct Row {
    name: &'static str,
    describe: fn(&dyn FileFacts) -> Result<Model, Declined>,
}

const ARCHITECTURES: &[Row] = &[
    row::<llama::Llama>(),
    row::<qwen2::Qwen2>(),
    row::<qwen3::Qwen3>(),
    row::<gemma2::Gemma2>(),
    row::<gemma3::Gemma3>(),
];

const fn row<A: Architecture>() -> Row {
    Row { name: A::NAME, describe: describe_as::<A> }
}

/// A model that can be run.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its architecture.
    pub architecture: &'static str,
    /// Positions that it was trained for.
    pub n_ctx_train: usize,
    /// What was read of the file.
    pub hyper: Vec<HyperRow>,
    /// From ids to logits.
    pub graph: Graph,
}

/// A model that cannot be run, with every reason that could be found.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", summary(reasons))]
pub struct Declined {
    /// What was read of the file all the same.
    pub hyper: Vec<HyperRow>,
    /// At least one.
    pub reasons: Vec<Decline>,
}

impl From<Decline> for Declined {
    fn from(reason: Decline) -> Self {
        Self { hyper: Vec::new(), reasons: vec![reason] }
    }
}

fn summary(reasons: &[Decline]) -> String {
    let first = reasons.first().map_or(String::new(), ToString::to_string);
    match reasons.len() {
        0 | 1 => first,
        n => format!("{first} (and {} more; `kiln inspect` lists them)", n - 1),
    }
}

/// The architectures that can be run.
pub fn names() -> Vec<&'static str> {
    ARCHITECTURES.iter().map(|row| row.name).collect()
}

/// Describes the model in a file: hyper-parameters, then tensors, then the graph.
///
/// # Errors
/// Everything that keeps the model from being run.
pub fn describe(file: &dyn FileFacts) -> Result<Model, Declined> {
    let found = match file.key("general.architecture") {
        Some(KeyValue::Text(name)) => name,
        _ => return Err(Decline::NoArchitecture.into()),
    };
    match ARCHITECTURES.iter().find(|row| row.name == found) {
        Some(_) if file.tensors().is_empty() => Err(Decline::NoTensors.into()),
        Some(row) => (row.describe)(file),
        None => Err(Decline::UnknownArchitecture { found, known: names() }.into()),
    }
}

fn describe_as<A: Architecture>(file: &dyn FileFacts) -> Result<Model, Declined> {
    let mut keys = Keys::new(file, A::NAME);
    let read = keys.count("context_length").and_then(|n_ctx_train| Ok((n_ctx_train, A::hyper(&mut keys)?)));
    let (mut reasons, hyper) = keys.finish();
    let (n_ctx_train, architecture) = match read {
        Ok(read) => read,
        Err(reason) => return Err(Declined { hyper, reasons: vec![reason] }),
    };
    let mut list = TensorList::default();
    architecture.tensors(&mut list);
    let tensors = list.check(file.tensors(), A::NAME).unwrap_or_else(|declines| {
        reasons.extend(declines);
        Vec::new()
    });
    if !reasons.is_empty() {
        return Err(Declined { hyper, reasons });
    }
    let mut g = GraphBuilder::new(tensors);
    let logits = architecture.layers(&mut g);
    match g.finish(logits) {
        Ok(graph) => Ok(Model { architecture: A::NAME, n_ctx_train, hyper, graph }),
        Err(slip) => {
            let reasons = vec![Decline::Description { architecture: A::NAME, slip }];
            Err(Declined { hyper, reasons })
        }
    }
}
