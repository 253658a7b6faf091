//! GGUF files for tests, written byte by byte, with the place of every field kept so that a test can damage it.

use std::fmt::Arguments;

/// A metadata value to be written.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are GGUF's own")]
pub enum Val {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    /// Element type and elements.
    Array(u32, Vec<Val>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Val {
    fn number(&self) -> u32 {
        match self {
            Val::U8(_) => 0,
            Val::I8(_) => 1,
            Val::U16(_) => 2,
            Val::I16(_) => 3,
            Val::U32(_) => 4,
            Val::I32(_) => 5,
            Val::F32(_) => 6,
            Val::Bool(_) => 7,
            Val::Str(_) => 8,
            Val::Array(..) => 9,
            Val::U64(_) => 10,
            Val::I64(_) => 11,
            Val::F64(_) => 12,
        }
    }
}

/// A string value.
pub fn text(s: &str) -> Val {
    Val::Str(s.to_owned())
}

/// A string array.
pub fn texts<S: AsRef<str>>(all: impl IntoIterator<Item = S>) -> Val {
    Val::Array(8, all.into_iter().map(|s| text(s.as_ref())).collect())
}

/// A tensor to be written: its dimensions slowest first, its type, its data.
#[derive(Clone, Debug)]
pub struct Ten {
    /// Its name.
    pub name: String,
    /// Slowest first.
    pub shape: Vec<u64>,
    /// ggml's id.
    pub type_id: u32,
    /// Its bytes; their length is not checked against the shape.
    pub data: Vec<u8>,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Spec {
    /// 2 or 3.
    pub version: u32,
    /// Of the data section.
    pub alignment: usize,
    /// In order.
    pub keys: Vec<(String, Val)>,
    /// In order.
    pub tensors: Vec<Ten>,
}

impl Spec {
    /// An empty file of version 3.
    pub fn new() -> Self {
        Spec { version: 3, alignment: 32, keys: Vec::new(), tensors: Vec::new() }
    }

    /// One more key.
    #[must_use]
    pub fn key(mut self, key: &str, value: Val) -> Self {
        self.keys.push((key.to_owned(), value));
        self
    }

    /// One more tensor.
    #[must_use]
    pub fn tensor(mut self, name: &str, shape: &[u64], type_id: u32, data: Vec<u8>) -> Self {
        self.tensors.push(Ten { name: name.to_owned(), shape: shape.to_vec(), type_id, data });
        self
    }

    /// The file. Fields are marked `version`, `n_tensors`, `n_keys`, `KEY` (length of the key), `KEY.type`, `KEY.value`,
    /// `KEY.elem`, `KEY.len`, `KEY[i]`, `TENSOR` (length of the name), `TENSOR.rank`, `TENSOR.dim[i]` (slowest first),
    /// `TENSOR.type`, `TENSOR.offset`.
    pub fn build(&self) -> File {
        self.write(Some(Vec::new()))
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.write(None).bytes
    }

    /// The file, its fields marked if there is room for marks.
    fn write(&self, marks: Option<Vec<(String, usize)>>) -> File {
        let mut file = File { bytes: b"GGUF".to_vec(), marks };
        file.put(format_args!("version"), &self.version.to_le_bytes());
        file.put(format_args!("n_tensors"), &(self.tensors.len() as u64).to_le_bytes());
        file.put(format_args!("n_keys"), &(self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            file.put_text(format_args!("{key}"), key);
            file.put(format_args!("{key}.type"), &value.number().to_le_bytes());
            file.put_value(format_args!("{key}.value"), key, value);
        }
        let mut offset = 0u64;
        for Ten { name, shape, type_id, data } in &self.tensors {
            file.put_text(format_args!("{name}"), name);
            file.put(format_args!("{name}.rank"), &(shape.len() as u32).to_le_bytes());
            for (i, dim) in shape.iter().enumerate().rev() {
                file.put(format_args!("{name}.dim[{i}]"), &dim.to_le_bytes());
            }
            file.put(format_args!("{name}.type"), &type_id.to_le_bytes());
            file.put(format_args!("{name}.offset"), &offset.to_le_bytes());
            offset += (data.len() as u64).next_multiple_of(self.alignment as u64);
        }
        for tensor in &self.tensors {
            let padded = file.bytes.len().next_multiple_of(self.alignment);
            file.bytes.resize(padded, 0);
            file.bytes.extend(&tensor.data);
        }
        file
    }
}

/// A written file.
#[derive(Clone, Debug)]
pub struct File {
    /// All of it.
    pub bytes: Vec<u8>,
    marks: Option<Vec<(String, usize)>>,
}

impl File {
    /// Where the field is.
    pub fn at(&self, mark: &str) -> usize {
        let found = self.marks.iter().flatten().find(|(name, _)| name == mark);
        found.expect("the builder marks every field").1
    }

    /// The file with other bytes at the field.
    pub fn with(&self, mark: &str, bytes: &[u8]) -> Vec<u8> {
        self.with_at(self.at(mark), bytes)
    }

    /// The file with other bytes at a place.
    pub fn with_at(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut changed = self.bytes.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    }

    fn put(&mut self, mark: Arguments<'_>, bytes: &[u8]) {
        if let Some(marks) = &mut self.marks {
            marks.push((mark.to_string(), self.bytes.len()));
        }
        self.bytes.extend(bytes);
    }

    fn put_text(&mut self, mark: Arguments<'_>, text: &str) {
        self.put(mark, &(text.len() as u64).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    fn put_value(&mut self, mark: Arguments<'_>, key: &str, value: &Val) {
        match value {
            Val::U8(v) => self.put(mark, &v.to_le_bytes()),
            Val::I8(v) => self.put(mark, &v.to_le_bytes()),
            Val::U16(v) => self.put(mark, &v.to_le_bytes()),
            Val::I16(v) => self.put(mark, &v.to_le_bytes()),
            Val::U32(v) => self.put(mark, &v.to_le_bytes()),
            Val::I32(v) => self.put(mark, &v.to_le_bytes()),
            Val::F32(v) => self.put(mark, &v.to_le_bytes()),
            Val::Bool(v) => self.put(mark, &[u8::from(*v)]),
            Val::Str(v) => self.put_text(mark, v),
            Val::U64(v) => self.put(mark, &v.to_le_bytes()),
            Val::I64(v) => self.put(mark, &v.to_le_bytes()),
            Val::F64(v) => self.put(mark, &v.to_le_bytes()),
            Val::Array(elem, values) => {
                self.put(format_args!("{key}.elem"), &elem.to_le_bytes());
                self.put(format_args!("{key}.len"), &(values.len() as u64).to_le_bytes());
                for (i, value) in values.iter().enumerate() {
                    self.put_value(format_args!("{key}[{i}]"), key, value);
                }
            }
        }
    }
}

/// A small file with every kind of value and tensors of two formats: what the damage tests start from.
pub fn specimen() -> Spec {
    Spec::new()
        .key("general.architecture", text("llama"))
        .key("a.u8", Val::U8(200))
        .key("a.i8", Val::I8(-2))
        .key("a.u16", Val::U16(60_000))
        .key("a.i16", Val::I16(-300))
        .key("a.u32", Val::U32(4_000_000_000))
        .key("a.i32", Val::I32(-70_000))
        .key("a.f32", Val::F32(0.25))
        .key("a.bool", Val::Bool(true))
        .key("a.text", text("naïve"))
        .key("a.u64", Val::U64(1 << 40))
        .key("a.i64", Val::I64(-(1 << 40)))
        .key("a.f64", Val::F64(1e-5))
        .key("b.texts", texts(["a", "", "ç"]))
        .key("b.flags", Val::Array(7, vec![Val::Bool(true), Val::Bool(false)]))
        .key("b.i32s", Val::Array(5, vec![Val::I32(-1), Val::I32(7)]))
        .key("b.f32s", Val::Array(6, vec![Val::F32(1.5), Val::F32(-2.0)]))
        .key("b.none", Val::Array(4, vec![]))
        .key("general.alignment", Val::U32(32))
        .tensor("one", &[3], 0, [1f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect())
        .tensor("two", &[2, 32], 8, (0..68).collect())
        .tensor("three", &[1, 2, 3, 4], 1, vec![0; 48])
}
