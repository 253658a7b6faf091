//! GGUF files as model descriptions see them.

use super::{FileFacts, KeyValue};
use crate::gguf::{Gguf, Value};

/// Longest list that is a hyper-parameter: one number for each layer. Vocabularies are longer.
const MAX_LIST: usize = 4096;

impl FileFacts for Gguf {
    fn key(&self, name: &str) -> Option<KeyValue> {
        self.metadata().get(name).map(scalar_or_list)
    }

    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        // The reader has checked that a shape's product fits 63 bits.
        let shape = |dims: &[u64]| dims.iter().map(|&n| n as usize).collect();
        Gguf::tensors(self).map(|tensor| (tensor.name.to_owned(), shape(tensor.shape))).collect()
    }
}

fn scalar_or_list(value: Value<'_>) -> KeyValue {
    match value {
        Value::Int { value, .. } => KeyValue::Int(value),
        Value::Float { value, .. } => KeyValue::Float(value),
        Value::Bool(value) => KeyValue::Bool(value),
        Value::String(text) => KeyValue::Text(text.to_owned()),
        Value::Array(array) if array.len() <= MAX_LIST => {
            KeyValue::List(array.iter().map(scalar_or_list).collect())
        }
        Value::Array(_) => KeyValue::Other,
    }
}
