//! What templates expect of Python: how values print, and methods of strings, lists and maps.

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// A value as `str()` gives it.
pub(super) fn str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        _ => repr(value),
    }
}

/// A value as `repr()` gives it.
fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
        }
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq if value.is_tuple() => match value.len() {
            Some(1) => format!("({},)", items(value)),
            _ => format!("({})", items(value)),
        },
        ValueKind::Seq | ValueKind::Iterable => format!("[{}]", items(value)),
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter().map(Iterator::collect).unwrap_or_default();
            let field = |key: &Value| {
                format!("{}: {}", repr(key), value.get_item(key).map_or_else(|_| String::new(), |v| repr(&v)))
            };
            format!("{{{}}}", keys.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

fn items(value: &Value) -> String {
    let items: Vec<String> =
        value.try_iter().map(|items| items.map(|item| repr(&item)).collect()).unwrap_or_default();
    items.join(", ")
}

/// A string between quotes, single ones unless that would need escaping.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c < ' ' || ('\u{7f}'..='\u{a0}').contains(&c) || c == '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// A float as Python writes it: the shortest digits that read back, an exponent from 1e16 on and below 1e-4.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

/// Methods that the template engine does not have itself.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        match name {
            "removeprefix" => {
                let (prefix,): (&str,) = from_args(args)?;
                return Ok(text.strip_prefix(prefix).unwrap_or(text).into());
            }
            "removesuffix" => {
                let (suffix,): (&str,) = from_args(args)?;
                return Ok(text.strip_suffix(suffix).unwrap_or(text).into());
            }
            "partition" | "rpartition" => {
                let (separator,): (&str,) = from_args(args)?;
                let first = name == "partition";
                let found = if first { text.split_once(separator) } else { text.rsplit_once(separator) };
                let parts = match found {
                    Some((before, after)) => [before, separator, after],
                    None if first => [text, "", ""],
                    None => ["", "", text],
                };
                return Ok(Value::from(Tuple::from(parts.map(Value::from))));
            }
            "rsplit" => return rsplit(text, args),
            _ => {}
        }
    }
    let result = pycompat::unknown_method_callback(state, value, name, args);
    result.map_err(|error| match error.kind() {
        // The engine's own message names neither the method nor what it was called on.
        ErrorKind::UnknownMethod => {
            Error::new(ErrorKind::UnknownMethod, format!("{} has no method {name}", value.kind()))
        }
        _ => error,
    })
}

/// `str.rsplit` with a separator: at most so many cuts, counted from the end.
fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let cuts = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX - 1);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "rsplit: empty separator")),
        Some(separator) => text.rsplitn(cuts + 1, separator).collect(),
        None if most.is_none() => text.split_whitespace().rev().collect(),
        None => return Err(Error::new(ErrorKind::InvalidOperation, "rsplit: a limit needs a separator")),
    };
    parts.reverse();
    Ok(parts.into_iter().collect())
}

/// `is sequence` as Jinja has it: whatever has a length and can be indexed.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

/// `is iterable` as Jinja has it: nothing can be walked through in none, other than in an undefined value.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// `join` with items printed as `str()` does, of which an attribute can be taken first.
pub(super) fn join(items: &Value, separator: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    let attribute = kwargs.get::<Option<&str>>("attribute")?;
    let separator = kwargs.get::<Option<&str>>("d")?.or(separator).unwrap_or_default();
    kwargs.assert_all_used()?;
    let mut texts = Vec::new();
    for item in items.try_iter()? {
        texts.push(match attribute {
            Some(name) => str(&item.get_attr(name)?),
            None => str(&item),
        });
    }
    Ok(texts.join(separator))
}

/// `indent`: every line but the first, and no empty one, unless asked for; a line end at the end stays.
pub(super) fn indent(
    text: &str,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let width = kwargs.get::<Option<Value>>("width")?.or(width);
    let first = kwargs.get::<Option<bool>>("first")?.or(first).unwrap_or(false);
    let blank = kwargs.get::<Option<bool>>("blank")?.or(blank).unwrap_or(false);
    kwargs.assert_all_used()?;
    let unit = width.map_or_else(|| Ok("    ".to_owned()), |width| indent_unit(&width))?;
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&unit);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// What a line is indented by: so many blanks, or a string.
pub(super) fn indent_unit(value: &Value) -> Result<String, Error> {
    if let Some(unit) = value.as_str() {
        return Ok(unit.to_owned());
    }
    let width = value.as_usize().filter(|&width| width <= 64);
    let width = width
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "an indent must be 0 to 64 or a string"))?;
    Ok(" ".repeat(width))
}
