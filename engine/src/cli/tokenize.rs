//! `kiln tokenize`: text to ids.

use std::io::{Read, Write};
use std::path::PathBuf;

use super::{Context, Failure, output};
use crate::gguf::Gguf;
use crate::session::Error;
use crate::tokenizer::{SpecialText, TokenId, Tokenizer};

/// Print the token ids of a text, separated by spaces, one line for each text.
///
/// Without TEXT and --lines, standard input is one text. A file with a vocabulary and no weights will do.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// The text
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Each line of a file is a text of its own
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    lines: Option<PathBuf>,
    /// Read control tokens such as <|im_end|> as such, and add BOS and EOS where the file asks for them
    #[arg(long)]
    special: bool,
}

pub(super) fn tokenize(context: &Context, args: &Args) -> Result<(), Failure> {
    let gguf = Gguf::open(&args.model, &context.registry).map_err(Error::from)?;
    let tokenizer = Tokenizer::from_gguf(&gguf).map_err(Error::from)?;
    let encode = |text: &str| match args.special {
        true => tokenizer.encode_framed(text, SpecialText::Parse),
        false => tokenizer.encode(text, SpecialText::Plain),
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut print = |ids: Vec<TokenId>| {
        let words: Vec<String> = ids.iter().map(ToString::to_string).collect();
        writeln!(out, "{}", words.join(" ")).map_err(output)
    };
    match (&args.text, &args.lines) {
        (Some(text), _) => print(encode(text))?,
        (None, Some(path)) => {
            let what = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|source| Failure::File { what, source })?;
            // Only \n ends a line: a \r before it is part of the text.
            let text = text.strip_suffix('\n').unwrap_or(&text);
            text.split('\n').try_for_each(|line| print(encode(line)))?;
        }
        (None, None) => {
            let mut text = String::new();
            let stdin = std::io::stdin().lock().read_to_string(&mut text);
            stdin.map_err(|source| Failure::Stream { stream: "input", source })?;
            print(encode(&text))?;
        }
    }
    out.flush().map_err(output)
}
