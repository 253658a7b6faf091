//! Why a conversation did not become a prompt.

/// What went wrong with a chat template. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The file has no template, and guessing one would change what the model reads.
    #[error(
        "the file has no chat template (tokenizer.chat_template); `kiln run --raw` continues a text as it is"
    )]
    Missing,
    /// The template is not a program we can read.
    #[error("the chat template does not compile, line {line}: {reason}; `kiln run --raw` goes without it")]
    Compile {
        /// Line in the template, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The template refuses this conversation, in its own words.
    #[error("the chat template refuses this conversation: {message}")]
    Raised {
        /// What it gave to `raise_exception`.
        message: String,
    },
    /// The template fails on this conversation.
    #[error("the chat template fails at line {line}: {reason}; `kiln run --raw` goes without it")]
    Render {
        /// Line in the template, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The texts of control tokens in the messages could not be kept apart from the template's own.
    #[error(
        "the messages hold the texts of control tokens and every cuneiform sign that could mark those as text; leave \
         either out"
    )]
    Signs,
    /// The template works longer than any honest one.
    #[error("the chat template was stopped at line {line}: it does not end within {budget} steps")]
    Endless {
        /// Line in the template, from 1.
        line: usize,
        /// Steps it was given.
        budget: u64,
    },
}

/// What `raise_exception` carries out of a template.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

impl ChatError {
    /// Sorts out an error met while rendering.
    pub(super) fn from_render(error: &minijinja::Error, budget: u64) -> Self {
        let line = error.line().unwrap_or(0);
        let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = inner {
            if let Some(Raised(message)) = error.downcast_ref() {
                return Self::Raised { message: one_line(message) };
            }
            if error.downcast_ref::<minijinja::Error>().map(minijinja::Error::kind)
                == Some(minijinja::ErrorKind::OutOfFuel)
            {
                return Self::Endless { line, budget };
            }
            inner = error.source();
        }
        Self::Render { line, reason: reason(error) }
    }

    /// An error met while compiling.
    pub(super) fn from_compile(error: &minijinja::Error) -> Self {
        Self::Compile { line: error.line().unwrap_or(0), reason: reason(error) }
    }
}

fn reason(error: &minijinja::Error) -> String {
    let kind = error.kind().to_string();
    one_line(&error.detail().map_or(kind.clone(), |detail| format!("{kind}: {detail}")))
}

/// Text from a file, made fit for one line of a terminal.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let flat: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = flat.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ") + if text.chars().nth(LONGEST).is_some() { "..." } else { "" }
}
