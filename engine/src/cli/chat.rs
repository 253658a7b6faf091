//! `kiln chat`: a conversation on the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use super::options::{Placement, Sampling, count};
use super::progress::Bar;
use super::run::speeds;
use super::{Context, Failure, output};
use crate::chat::Message;
use crate::forward::ForwardError;
use crate::session::{self, Error, ModelFile, Session, Stop, chat_prompt};
use crate::tokenizer::Tokenizer;

/// Talk with a model, one line a turn.
///
/// `/clear` starts over, `/exit` or the end of input leaves.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// What the model is told before the first turn
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Most tokens of each answer [default: no limit but the context]
    #[arg(short, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    n: Option<usize>,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    sampling: Sampling,
}

pub(super) fn chat(context: &Context, args: &Args) -> Result<(), Failure> {
    let file = ModelFile::open(&args.model, &context.registry)?;
    let tokenizer = Tokenizer::from_gguf(&file.gguf).map_err(Error::from)?;
    let template = session::chat_template(&file.gguf)?;
    let backend = args.placement.load(context, &file)?;
    let mut session = Session::new(backend.as_ref(), args.placement.n_ctx(&file))?;
    let options = args.sampling.options();

    let first = || args.system.iter().map(|text| Message::text("system", text)).collect::<Vec<_>>();
    let mut messages = first();
    let mut lines = std::io::stdin().lock().lines();
    let mut out = std::io::stdout().lock();
    loop {
        if std::io::stdin().is_terminal() {
            let _ = std::io::stderr().write_all(b"> ");
        }
        let Some(line) = lines.next() else { return Ok(()) };
        let line = line.map_err(|source| Failure::Stream { stream: "input", source })?;
        match line.trim() {
            "" => continue,
            "/exit" => return Ok(()),
            "/clear" => {
                messages = first();
                continue;
            }
            _ => messages.push(Message::text("user", &line)),
        }
        let prompt = chat_prompt(&tokenizer, &template, &messages)?;
        let bar = Bar::new("prefill");
        let answer = session.generate(
            &prompt,
            &tokenizer,
            options,
            args.n.unwrap_or(usize::MAX),
            &|done, total| bar.report(done, total),
            |piece| {
                out.write_all(piece.as_bytes())?;
                out.flush()
            },
        );
        drop(bar);
        let generated = match answer {
            // This turn is too long, the conversation goes on without it.
            Err(Error::Forward(full @ ForwardError::ContextFull { .. })) => {
                super::log::say(format_args!("error: {full}; /clear starts over"));
                messages.pop();
                continue;
            }
            other => other?,
        };
        writeln!(out).map_err(output)?;
        match generated.stop {
            Stop::Context => super::log::say(format_args!("{}; /clear starts over", speeds(&generated))),
            Stop::End | Stop::Length => tracing::info!("{}", speeds(&generated)),
        }
        messages.push(Message::text("assistant", &generated.text));
    }
}
