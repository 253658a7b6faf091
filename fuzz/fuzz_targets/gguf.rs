//! A GGUF file of arbitrary bytes: whatever parses can be walked, described and asked for its tokenizer.
#![no_main]

use kiln_engine::{gguf::Gguf, models, tokenizer::Tokenizer};
use kiln_kernels::Registry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let registry = Registry::builtin();
    let Ok(file) = Gguf::from_bytes(bytes.to_vec(), &registry) else { return };
    for (key, value) in file.metadata().iter() {
        assert_eq!(file.metadata().get(key).map(|v| v.ty()), Some(value.ty()));
    }
    for tensor in file.tensors() {
        let expected = tensor.geometry().row_bytes(tensor.n_elems());
        assert_eq!(expected, Some(tensor.data.len() as u64));
    }
    let _ = models::describe(&file);
    let _ = Tokenizer::from_gguf(&file);
});
