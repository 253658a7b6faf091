//! Compiling a template and running it over a conversation.

use std::collections::BTreeMap;
use std::time::SystemTime;

use minijinja::value::{Kwargs, Serde};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::error::Raised;
use super::{ChatError, Message, clock, json, python};

/// Steps a template may take, where 64 bytes of data count as one: honest ones need a few hundred for a turn.
const BUDGET: u64 = 10_000_000;
/// The name under which the template is compiled.
const NAME: &str = "chat_template";

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// What a template is given to render.
#[derive(Clone, Debug)]
pub struct Conversation<'a> {
    /// The turns so far.
    pub messages: &'a [Message],
    /// Tool declarations, as JSON schemas; none when empty.
    pub tools: &'a [serde_json::Value],
    /// Whether the text ends where the assistant's answer starts.
    pub add_generation_prompt: bool,
    /// The text of the token that starts a text, if the file names one.
    pub bos_token: Option<&'a str>,
    /// The text of the token that ends a text, if the file names one.
    pub eos_token: Option<&'a str>,
    /// The moment that `strftime_now` tells.
    pub now: SystemTime,
    /// Other variables the template may look at, such as `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

impl<'a> Conversation<'a> {
    /// A conversation to be answered, without tools and at this moment.
    pub fn to_answer(messages: &'a [Message]) -> Self {
        Self {
            messages,
            tools: &[],
            add_generation_prompt: true,
            bos_token: None,
            eos_token: None,
            now: SystemTime::now(),
            variables: serde_json::Map::new(),
        }
    }
}

impl ChatTemplate {
    /// Compiles the template of a file, the value of `tokenizer.chat_template`.
    ///
    /// # Errors
    /// `Missing` without a template, `Compile` when it is not one we can read.
    pub fn new(source: Option<&str>) -> Result<Self, ChatError> {
        let source = source.ok_or(ChatError::Missing)?;
        let mut environment = environment().map_err(|error| ChatError::from_compile(&error))?;
        environment
            .add_template_owned(NAME, without_generation_tags(source))
            .map_err(|error| ChatError::from_compile(&error))?;
        Ok(Self { environment })
    }

    /// What it was compiled from.
    pub(crate) fn source(&self) -> String {
        self.environment.get_template(NAME).map(|template| template.source().to_owned()).unwrap_or_default()
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// `Raised` when the template refuses the conversation, `Render` when it fails, `Endless` when it does not end.
    pub fn render(&self, conversation: &Conversation) -> Result<String, ChatError> {
        let now = conversation.now;
        let tools = Some(conversation.tools).filter(|tools| !tools.is_empty());
        let mut variables = BTreeMap::from([
            ("messages", Value::from(Serde(conversation.messages))),
            ("tools", Value::from(Serde(tools))),
            ("documents", Value::from(())),
            ("add_generation_prompt", conversation.add_generation_prompt.into()),
            (
                "strftime_now",
                Value::from_function(move |format: &str| {
                    clock::strftime(format, now).ok_or_else(|| {
                        Error::new(
                            ErrorKind::InvalidOperation,
                            format!("strftime_now: unknown format {format:?}"),
                        )
                    })
                }),
            ),
        ]);
        let tokens = [("bos_token", conversation.bos_token), ("eos_token", conversation.eos_token)];
        variables.extend(tokens.into_iter().filter_map(|(name, text)| Some((name, text?.into()))));
        let extra = conversation.variables.iter();
        variables.extend(extra.map(|(name, value)| (name.as_str(), Value::from(Serde(value)))));
        let template = self.environment.get_template(NAME);
        template
            .and_then(|template| template.render(variables))
            .map_err(|error| ChatError::from_render(&error, BUDGET))
    }
}

/// The surroundings that template authors test with: trimmed blocks, loop controls, Python's methods and printing.
fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(BUDGET));
    environment.set_formatter(|out, _, value| out.write_str(&python::str(value)).map_err(Error::from));
    environment.set_unknown_method_callback(|state: &mut State, value, name, args| {
        python::method(state, value, name, args)
    });
    environment.add_filter("tojson", |value: &Value, kwargs: Kwargs| json::tojson(value, kwargs));
    environment.add_filter("from_json", json::from_json);
    environment.add_filter("string", python::str);
    environment.add_filter("indent", python::indent);
    environment.add_filter("join", python::join);
    environment.add_test("iterable", python::is_iterable);
    environment.add_test("sequence", python::is_sequence);
    environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        let raised = Raised(python::str(message));
        Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
    });
    Ok(environment)
}

/// `{% generation %}` marks, for training, what the assistant said; a condition that always holds leaves the text as it
/// is and keeps the whitespace rules of a block.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut raw = false;
    while let Some(at) = rest.find("{%").into_iter().chain(rest.find("{#")).min() {
        let comment = rest[at..].starts_with("{#");
        out.push_str(&rest[..at + 2]);
        rest = &rest[at + 2..];
        if comment && !raw {
            let end = rest.find("#}").unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let word_at = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let word_end =
            rest[word_at..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |n| word_at + n);
        let word = &rest[word_at..word_end];
        let is_tag = !comment && rest[..word_at].chars().all(|c| c.is_whitespace() || matches!(c, '-' | '+'));
        let replacement = match word {
            "endraw" if is_tag => {
                raw = false;
                word
            }
            _ if raw || !is_tag => word,
            "raw" => {
                raw = true;
                word
            }
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => word,
        };
        out.push_str(&rest[..word_at]);
        out.push_str(replacement);
        rest = &rest[word_end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_conditions() {
        for (source, want) in [
            ("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c"),
            ("{%- generation -%} x {%-endgeneration+%}", "{%- if true -%} x {%-endif+%}"),
            (
                "{# {% generation %} #}{% if generation %}{% endif %}",
                "{# {% generation %} #}{% if generation %}{% endif %}",
            ),
            ("{% raw %}{% generation %}{% endraw %}", "{% raw %}{% generation %}{% endraw %}"),
            ("{% generations %}", "{% generations %}"),
            ("{%", "{%"),
            ("{# é", "{# é"),
        ] {
            assert_eq!(without_generation_tags(source), want);
        }
    }
}
