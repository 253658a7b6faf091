//! `tojson` as Python's `json.dumps` writes it: the text is part of the prompt, so every blank counts.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::python::{float, indent_unit};

/// The `tojson` filter with the arguments that `json.dumps` takes.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        Some(value) if !value.is_none() => Some(indent_unit(&value)?),
        _ => None,
    };
    let separators = kwargs.get::<Option<Value>>("separators")?.filter(|value| !value.is_none());
    let (item, key) = match &separators {
        Some(pair) => (text(&pair.get_item_by_index(0)?)?, text(&pair.get_item_by_index(1)?)?),
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let style = Style {
        ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item,
        key,
    };
    kwargs.assert_all_used()?;
    if value.kind() == ValueKind::Undefined {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson was given an undefined value"));
    }
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    let mut out = String::new();
    style.write(&json, 0, &mut out);
    Ok(out)
}

/// Reads JSON, for templates that take tool arguments apart.
pub(super) fn from_json(text: &str) -> Result<Value, Error> {
    let json: Json = serde_json::from_str(text)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("not JSON: {error}")))?;
    Ok(Value::from(Serde(json)))
}

fn text(value: &Value) -> Result<String, Error> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings"))
}

struct Style {
    ascii: bool,
    sort: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Style {
    fn write(&self, json: &Json, depth: usize, out: &mut String) {
        match json {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(value) => out.push_str(&float(value)),
                None => out.push_str(&number.to_string()),
            },
            Json::String(text) => self.string(text, out),
            Json::Array(items) if items.is_empty() => out.push_str("[]"),
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.next(at, depth + 1, out);
                    self.write(item, depth + 1, out);
                }
                self.line(depth, out);
                out.push(']');
            }
            Json::Object(fields) if fields.is_empty() => out.push_str("{}"),
            Json::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if self.sort {
                    fields.sort_by_key(|field| field.0);
                }
                out.push('{');
                for (at, (name, value)) in fields.into_iter().enumerate() {
                    self.next(at, depth + 1, out);
                    self.string(name, out);
                    out.push_str(&self.key);
                    self.write(value, depth + 1, out);
                }
                self.line(depth, out);
                out.push('}');
            }
        }
    }

    /// What stands before an item.
    fn next(&self, at: usize, depth: usize, out: &mut String) {
        if at > 0 {
            out.push_str(&self.item);
        }
        self.line(depth, out);
    }

    /// A new line where items stand on lines of their own.
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(unit) = &self.indent {
            out.push('\n');
            out.push_str(&unit.repeat(depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a String does not fail.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}
