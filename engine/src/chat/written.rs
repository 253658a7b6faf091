//! What a message says stays text: the texts of control tokens in it get a sign before a template runs, by which they are
//! found again in the text that the template makes of them.

use serde_json::Value;

use super::{ChatError, Message};

/// Signs that a message hardly has, letters to every filter of a template and without a case: cuneiform.
const SIGNS: std::ops::RangeInclusive<char> = '\u{12000}'..='\u{12399}';

/// Messages with a sign before each control token's text, where there is one.
pub(crate) struct Written {
    pub messages: Vec<Message>,
    sign: Option<char>,
}

impl Written {
    /// Puts a sign that neither they nor `template` have before each of the places that `starts` finds in a text.
    ///
    /// # Errors
    /// `Signs` where messages with such places have every sign.
    pub fn new(
        messages: &[Message],
        template: &str,
        starts: impl Fn(&str) -> Vec<usize>,
    ) -> Result<Self, ChatError> {
        let mut messages = messages.to_vec();
        let (mut all, mut any) = (template.to_owned(), false);
        each_text(&mut messages, &mut |text| {
            all.push_str(text);
            any |= !starts(text).is_empty();
        });
        if !any {
            return Ok(Self { messages, sign: None });
        }
        let sign = SIGNS.into_iter().find(|sign| !all.contains(*sign)).ok_or(ChatError::Signs)?;
        each_text(&mut messages, &mut |text| {
            starts(text).into_iter().rev().for_each(|at| text.insert(at, sign));
        });
        Ok(Self { messages, sign: Some(sign) })
    }

    /// A rendered text without the signs, and the places where they stood, ascending.
    pub fn found(&self, rendered: String) -> (String, Vec<usize>) {
        let Some(sign) = self.sign else { return (rendered, Vec::new()) };
        let (mut text, mut places) = (String::with_capacity(rendered.len()), Vec::new());
        for (i, part) in rendered.split(sign).enumerate() {
            if i > 0 {
                places.push(text.len());
            }
            text.push_str(part);
        }
        (text, places)
    }
}

/// Every text of messages: roles, and the strings of their fields at any depth.
fn each_text(messages: &mut [Message], visit: &mut impl FnMut(&mut String)) {
    for message in messages {
        visit(&mut message.role);
        let mut open: Vec<&mut Value> = message.fields.values_mut().collect();
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) => visit(text),
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.values_mut()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }
}
