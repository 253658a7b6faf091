//! Chat templates: the Jinja program that a model's file carries, executed as the model's authors meant it.
//!
//! Values print as Python prints them, with one exception that the engine leaves no handle for: `~` joins true, false,
//! none and floats in the engine's own spelling.

mod clock;
mod error;
mod json;
mod python;
mod template;
mod written;

use serde::{Deserialize, Serialize};

pub use error::ChatError;
pub use template::{ChatTemplate, Conversation};
pub(crate) use written::Written;

/// One turn of a conversation. Beside the role it holds whatever a template may look at: `content`, `tool_calls`, ...
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or what else the template knows.
    pub role: String,
    /// The other fields, in order.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl Message {
    /// A turn of plain text.
    pub fn text(role: &str, content: &str) -> Self {
        let fields = std::iter::once(("content".to_owned(), content.into())).collect();
        Self { role: role.to_owned(), fields }
    }
}
