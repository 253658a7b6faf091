//! Events as single lines on standard error.

use std::fmt::{Arguments, Debug, Write};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Reports events of `level` and graver ones from here on.
pub(super) fn start(level: Level) {
    // Fails only where an embedding program has set its own, which then reports.
    let _ = tracing::subscriber::set_global_default(Lines { level });
}

/// One line on standard error. Where nobody can read it any more, the command goes on without.
///
/// Control characters, which a file's names may hold, are escaped so that no terminal acts on them.
pub(super) fn say(line: Arguments<'_>) {
    let lines: Vec<String> = line.to_string().split('\n').map(visible).collect();
    let _ = std::io::stderr().write_all(format!("kiln: {}\n", lines.join("\n")).as_bytes());
}

/// A text with its control characters escaped.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

struct Lines {
    level: Level,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Other crates' events are not about the user's model.
        *metadata.level() <= self.level && metadata.target().starts_with("kiln")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "note",
            _ => "debug",
        };
        say(format_args!("{level}: {}{}", line.message, line.fields));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
