//! Why a model cannot be run, one sentence each.

use crate::graph::GraphError;

/// One reason; nothing is ever run in spite of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Decline {
    /// The file does not say what it is.
    #[error("the file has no text `general.architecture`: it holds no language model")]
    NoArchitecture,
    /// The file has a vocabulary alone.
    #[error(
        "the file has no tensors: a vocabulary alone serves `kiln tokenize`, to run it takes the weights too"
    )]
    NoTensors,
    /// An architecture without a model file of ours.
    #[error("architecture `{found}` is not supported; supported: {}", known.join(", "))]
    UnknownArchitecture {
        /// From the file.
        found: String,
        /// What we have.
        known: Vec<&'static str>,
    },
    /// A hyper-parameter without a default is absent.
    #[error("metadata key `{key}` is missing")]
    MissingKey {
        /// Full name.
        key: String,
    },
    /// A hyper-parameter of the wrong type or out of range.
    #[error("metadata key `{key}` is {found}, expected {expected}")]
    BadKey {
        /// Full name.
        key: String,
        /// As text.
        found: String,
        /// What would do.
        expected: String,
    },
    /// One number is wanted and the file has one per layer.
    #[error(
        "metadata key `{key}` differs from layer to layer ({found}), which this architecture does not support"
    )]
    VariesByLayer {
        /// Full name.
        key: String,
        /// The numbers.
        found: String,
    },
    /// A feature that changes the model's results and that the architecture does not have here.
    #[error("metadata key `{key}` is {found}: {feature} is not supported for architecture `{architecture}`")]
    Unsupported {
        /// Full name.
        key: String,
        /// As text.
        found: String,
        /// In words.
        feature: &'static str,
        /// Ours.
        architecture: &'static str,
    },
    /// A tensor that the layers need is absent.
    #[error("tensor `{name}` is missing; is the file complete?")]
    MissingTensor {
        /// Full name.
        name: String,
    },
    /// A tensor's shape contradicts the hyper-parameters.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?}")]
    WrongShape {
        /// Full name.
        name: String,
        /// Slowest dimension first.
        found: Vec<usize>,
        /// Slowest dimension first.
        expected: Vec<usize>,
    },
    /// A tensor that the architecture has no use for; leaving it out could change the results.
    #[error(
        "tensor `{name}` is not part of architecture `{architecture}`, and leaving it out could change the answers"
    )]
    UnexpectedTensor {
        /// Full name.
        name: String,
        /// Ours.
        architecture: &'static str,
    },
    /// The architecture's own description is at fault.
    #[error("Kiln's description of architecture `{architecture}` is at fault: {slip}; please report this")]
    Description {
        /// Ours.
        architecture: &'static str,
        /// What is wrong with it.
        slip: GraphError,
    },
}
