//! Hyper-parameters: reads a file's metadata and keeps a log of what was read.

use super::Decline;

/// What a model description needs to know of a file, however it is stored.
pub trait FileFacts {
    /// The value of a metadata key.
    fn key(&self, name: &str) -> Option<KeyValue>;
    /// Name and shape, slowest dimension first, of each tensor.
    fn tensors(&self) -> Vec<(String, Vec<usize>)>;
}

/// A metadata value as far as hyper-parameters go.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// Any integer type.
    Int(i128),
    /// Either float type.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array of numbers or flags.
    List(Vec<KeyValue>),
    /// An array of anything else.
    Other,
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyValue::Int(x) => write!(f, "{x}"),
            // Files hold f32; its shortest form is what was meant (1e-5, not 9.99999974e-6).
            KeyValue::Float(x) => write!(f, "{}", *x as f32),
            KeyValue::Bool(x) => write!(f, "{x}"),
            KeyValue::Text(x) => write!(f, "{x:?}"),
            KeyValue::List(items) => {
                let shown: Vec<String> = items.iter().take(8).map(ToString::to_string).collect();
                let dots = if items.len() > shown.len() { ", ..." } else { "" };
                write!(f, "[{}{dots}]", shown.join(", "))
            }
            KeyValue::Other => write!(f, "an array"),
        }
    }
}

/// A hyper-parameter that was read, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperRow {
    /// Full name of the key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The file is silent and this is the default.
    pub default: bool,
}

/// Where a feature's key says that the feature is not used.
#[derive(Debug, Clone, Copy)]
enum Neutral {
    Number(f64),
    Flag(bool),
}

/// Keys that change a model's results. One that an architecture does not read must be absent or neutral.
const CONSEQUENTIAL: &[(&str, Neutral, &str)] = &[
    ("attention.causal", Neutral::Flag(true), "attention that is not causal"),
    ("attention.clamp_kqv", Neutral::Number(0.0), "clamping of queries, keys and values"),
    ("attention.max_alibi_bias", Neutral::Number(0.0), "ALiBi"),
    ("attention.scale", Neutral::Number(0.0), "an attention scale of its own"),
    ("attention.shared_kv_layers", Neutral::Number(0.0), "sharing keys and values between layers"),
    ("attention.sliding_window", Neutral::Number(0.0), "sliding-window attention"),
    ("attention.temperature_scale", Neutral::Number(0.0), "attention temperature"),
    ("attn_logit_softcapping", Neutral::Number(0.0), "capping of attention scores"),
    ("embedding_length_per_layer_input", Neutral::Number(0.0), "embeddings per layer"),
    ("embedding_scale", Neutral::Number(1.0), "an embedding scale"),
    ("expert_count", Neutral::Number(0.0), "mixture of experts"),
    ("final_logit_softcapping", Neutral::Number(0.0), "capping of logits"),
    ("logit_scale", Neutral::Number(1.0), "a logit scale"),
    ("nextn_predict_layers", Neutral::Number(0.0), "multi-token prediction"),
    ("residual_scale", Neutral::Number(1.0), "a residual scale"),
    ("rope.scaling.alpha", Neutral::Number(0.0), "rope scaling by alpha"),
    ("rope.scaling.yarn_attn_factor", Neutral::Number(1.0), "a YaRN attention factor of its own"),
    ("rope.scaling.yarn_ext_factor", Neutral::Number(1.0), "YaRN in part"),
    ("rope.scaling.yarn_log_multiplier", Neutral::Number(0.0), "a YaRN magnitude of its own"),
    ("use_parallel_residual", Neutral::Flag(false), "parallel residuals"),
];

/// Reads the keys of one architecture.
pub struct Keys<'a> {
    file: &'a dyn FileFacts,
    architecture: &'static str,
    n_tensors: usize,
    log: Vec<HyperRow>,
}

impl<'a> Keys<'a> {
    /// A reader for keys that start with `architecture`.
    pub fn new(file: &'a dyn FileFacts, architecture: &'static str) -> Self {
        Self { n_tensors: file.tensors().len(), file, architecture, log: Vec::new() }
    }

    /// A number of layers; no more than the file has tensors.
    ///
    /// # Errors
    /// Absent, not a positive integer, or impossible.
    pub fn layers(&mut self, name: &str) -> Result<usize, Decline> {
        let n_layer = self.count(name)?;
        if n_layer > self.n_tensors {
            let expected = format!("at most the file's number of tensors, {}", self.n_tensors);
            return Err(self.bad(name, n_layer, &expected));
        }
        Ok(n_layer)
    }

    /// A positive integer.
    ///
    /// # Errors
    /// Absent, or not one.
    pub fn count(&mut self, name: &str) -> Result<usize, Decline> {
        self.optional_count(name)?.ok_or_else(|| Decline::MissingKey { key: self.full(name) })
    }

    /// A positive integer, `default` where the file is silent.
    ///
    /// # Errors
    /// Present, but not a positive integer.
    pub fn count_or(&mut self, name: &str, default: usize) -> Result<usize, Decline> {
        let found = self.optional_count(name)?;
        Ok(found.unwrap_or_else(|| self.defaulted(name, default)))
    }

    /// A size that may be 0, which says that the model lacks the thing; `default` where the file is silent.
    ///
    /// # Errors
    /// Present, but neither 0 nor a positive integer.
    pub fn size_or(&mut self, name: &str, default: usize) -> Result<usize, Decline> {
        if self.file.key(&self.full(name)) == Some(KeyValue::Int(0)) {
            self.read(name);
            return Ok(0);
        }
        self.count_or(name, default)
    }

    /// A cap, none where the file is silent or says 0.
    ///
    /// # Errors
    /// Present, but not a finite number of 0 or more.
    pub fn cap(&mut self, name: &str) -> Result<Option<f32>, Decline> {
        Ok(Some(self.amount_or(name, 0.0)?).filter(|cap| *cap > 0.0))
    }

    /// A number of 0 or more, `default` where the file is silent.
    ///
    /// # Errors
    /// Present, but not a number of 0 or more, or too large for 32 bits.
    pub fn amount_or(&mut self, name: &str, default: f64) -> Result<f32, Decline> {
        let number = self.number_or(name, default)?;
        if !(0.0..=f64::from(f32::MAX)).contains(&number) {
            return Err(self.bad(name, number, "a number of 0 or more"));
        }
        Ok(number as f32)
    }

    /// The elements of a list; none where the file is silent or has a single value.
    pub fn list(&mut self, name: &str) -> Option<Vec<KeyValue>> {
        match self.file.key(&self.full(name)) {
            Some(KeyValue::List(items)) => {
                self.read(name);
                Some(items)
            }
            _ => None,
        }
    }

    /// A finite number, `default` where the file is silent.
    ///
    /// # Errors
    /// Present, but not a finite number.
    pub fn number_or(&mut self, name: &str, default: f64) -> Result<f64, Decline> {
        let Some(value) = self.read(name) else { return Ok(self.defaulted(name, default)) };
        let number = match value {
            KeyValue::Int(x) => Some(x as f64),
            KeyValue::Float(x) => Some(x),
            _ => None,
        };
        number.filter(|x| x.is_finite()).ok_or_else(|| self.bad(name, value, "a finite number"))
    }

    /// A string, if the file has it.
    ///
    /// # Errors
    /// Present, but not a string.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Decline> {
        match self.read(name) {
            None => Ok(None),
            Some(KeyValue::Text(text)) => Ok(Some(text)),
            Some(value) => Err(self.bad(name, value, "a string")),
        }
    }

    /// The size of a tensor's slowest dimension, for sizes that no key states.
    ///
    /// # Errors
    /// No such tensor.
    pub fn rows_of(&self, tensor: &str) -> Result<usize, Decline> {
        let tensors = self.file.tensors();
        let shape = tensors.into_iter().find(|(name, _)| name == tensor).map(|(_, shape)| shape);
        let missing = || Decline::MissingTensor { name: tensor.to_owned() };
        shape.and_then(|shape| shape.first().copied()).ok_or_else(missing)
    }

    /// A decline of a key that was read but makes no sense.
    pub fn bad(&self, name: &str, found: impl ToString, expected: &str) -> Decline {
        Decline::BadKey { key: self.full(name), found: found.to_string(), expected: expected.to_owned() }
    }

    /// A decline of a feature that a key asks for.
    pub fn unsupported(&self, name: &str, found: impl ToString, feature: &'static str) -> Decline {
        let architecture = self.architecture;
        Decline::Unsupported { key: self.full(name), found: found.to_string(), feature, architecture }
    }

    /// The consequential keys that nobody read and that are not neutral, and the log of those read.
    pub fn finish(self) -> (Vec<Decline>, Vec<HyperRow>) {
        let mut declines = Vec::new();
        for &(name, neutral, feature) in CONSEQUENTIAL {
            let key = self.full(name);
            let Some(value) = self.file.key(&key) else { continue };
            let is_neutral = match (neutral, &value) {
                (Neutral::Number(n), KeyValue::Int(x)) => *x as f64 == n,
                (Neutral::Number(n), KeyValue::Float(x)) => *x == n,
                (Neutral::Flag(n), KeyValue::Bool(x)) => *x == n,
                _ => false,
            };
            if !is_neutral && self.log.iter().all(|row| row.key != key) {
                declines.push(self.unsupported(name, value, feature));
            }
        }
        (declines, self.log)
    }

    fn optional_count(&mut self, name: &str) -> Result<Option<usize>, Decline> {
        let Some(mut value) = self.read(name) else { return Ok(None) };
        if let KeyValue::List(items) = &value {
            match items.first() {
                Some(first) if items.iter().all(|item| item == first) => value = first.clone(),
                _ => return Err(Decline::VariesByLayer { key: self.full(name), found: value.to_string() }),
            }
        }
        // Counts fit 32 bits in every real model; products of three then fit 128 and are compared with real shapes.
        let count = match &value {
            KeyValue::Int(x) => u32::try_from(*x).ok().filter(|&x| x > 0),
            _ => None,
        };
        count.map(|x| Some(x as usize)).ok_or_else(|| self.bad(name, value, "an integer of 1 to 2^32 - 1"))
    }

    fn read(&mut self, name: &str) -> Option<KeyValue> {
        let key = self.full(name);
        let value = self.file.key(&key)?;
        self.log(HyperRow { key, value: value.to_string(), default: false });
        Some(value)
    }

    fn defaulted<T: ToString>(&mut self, name: &str, default: T) -> T {
        self.log(HyperRow { key: self.full(name), value: default.to_string(), default: true });
        default
    }

    /// Keeps a row for each key, however often it is read.
    fn log(&mut self, row: HyperRow) {
        if self.log.iter().all(|known| known.key != row.key) {
            self.log.push(row);
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }
}
