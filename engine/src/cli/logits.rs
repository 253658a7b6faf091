//! `kiln logits`: the raw output of a model, for comparisons.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;

use super::options::Placement;
use super::progress::Bar;
use super::{Context, Failure, spare_models};
use crate::forward::{Forward, ForwardError, feed_windows};
use crate::sample::check;
use crate::session::{Error, ModelFile};

/// Write the logits of given token ids as little-endian f32, [rows, n_vocab].
///
/// Ids are fed as one prompt and every id gives a row. With --forced only the first NPROMPT are the prompt,
/// the rest follow one by one as in decode, and the rows are the one after the prompt and one for each step.
/// The file's tokenizer is not used.
#[derive(clap::Args)]
pub(super) struct Args {
    /// GGUF file
    model: PathBuf,
    /// Token ids, with blanks or commas between them
    #[arg(long, value_name = "IDS", value_parser = ids_of_text, required_unless_present = "ids_file")]
    ids: Option<Ids>,
    /// Read the token ids from a file, with blanks or commas between them
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    ids_file: Option<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Feed only so many ids as a prompt, the rest one by one
    #[arg(long, value_name = "NPROMPT", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    forced: Option<usize>,
    /// Write only the last N rows
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    last: Option<usize>,
    #[command(flatten)]
    placement: Placement,
}

pub(super) fn logits(context: &Context, args: &Args) -> Result<(), Failure> {
    let ids = match &args.ids_file {
        Some(path) => ids_of_file(path)?,
        None => args.ids.clone().map_or(Vec::new(), |ids| ids.0),
    };
    let n_prompt = args.forced.unwrap_or(ids.len());
    if n_prompt > ids.len() {
        return Err(Failure::Usage(format!("--forced {n_prompt} is more than the {} ids given", ids.len())));
    }
    let n_rows = ids.len() + 1 - args.forced.unwrap_or(1);
    if let Some(last) = args.last.filter(|last| *last > n_rows) {
        return Err(Failure::Usage(format!("--last {last} is more than the {n_rows} rows there are")));
    }
    spare_models(&args.out)?;
    let file = ModelFile::open(&args.model, &context.registry)?;
    let n_ctx = args.placement.n_ctx(&file);
    ForwardError::check(&ids, 0, n_ctx, file.model.graph.n_vocab()).map_err(|why| match why {
        // The command names it; a tokenizer that gave such an id would be the file's fault.
        ForwardError::UnknownId { .. } => Failure::Usage(why.to_string()),
        other => other.into(),
    })?;
    let backend = args.placement.load(context, &file)?;
    let mut sequence = backend.sequence(n_ctx).map_err(Error::from)?;

    let what = || args.out.display().to_string();
    let failed = |source| Failure::File { what: what(), source };
    let mut out = BufWriter::new(File::create(&args.out).map_err(failed)?);
    // Numbered by the id they follow; without --forced each id has one, with it those before the prompt's last have none.
    let first_row =
        args.forced.map_or(0, |_| n_prompt - 1).max(args.last.map_or(0, |n| ids.len().saturating_sub(n)));
    let bar = Bar::new("feeding");
    let (n_vocab, mut position) = (sequence.n_vocab(), first_row as u64);
    write_rows(sequence.as_mut(), &ids, n_prompt, first_row, &bar, &mut |rows| {
        for row in rows.chunks(n_vocab) {
            position += 1;
            check(row, position).map_err(Error::from)?;
        }
        rows.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())).map_err(failed)
    })?;
    drop(bar);
    out.flush().map_err(failed)?;
    super::log::say(format_args!(
        "{} rows of {} logits in {}",
        ids.len() - first_row,
        sequence.n_vocab(),
        what()
    ));
    Ok(())
}

/// Feeds the prompt in windows and the rest one by one; `write` gets the rows after ids `first_row..`.
fn write_rows(
    sequence: &mut dyn Forward,
    ids: &[u32],
    n_prompt: usize,
    first_row: usize,
    bar: &Bar,
    write: &mut dyn FnMut(&[f32]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (prompt, rest) = ids.split_at(n_prompt);
    feed_windows(sequence, prompt, first_row.min(n_prompt)..n_prompt, |n_fed, rows| {
        bar.report(n_fed, ids.len());
        write(&rows)
    })?;
    for (at, id) in (n_prompt..).zip(rest) {
        let outputs = if at < first_row { 0..0 } else { 0..1 };
        let row = sequence.feed(&[*id], outputs)?;
        bar.report(at + 1, ids.len());
        write(&row)?;
    }
    Ok(())
}

/// Ids as an option gives them.
#[derive(Clone)]
struct Ids(Vec<u32>);

fn ids_of_text(text: &str) -> Result<Ids, String> {
    let ids = token_ids(text).map_err(|word| {
        format!("expected the numbers of tokens, as `kiln tokenize` gives them; {word:?} is none")
    })?;
    if ids.is_empty() { Err("it holds no token ids".to_owned()) } else { Ok(Ids(ids)) }
}

/// The ids between blanks and commas, or the first word that is none.
fn token_ids(text: &str) -> Result<Vec<u32>, &str> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| word)).collect()
}

fn ids_of_file(path: &Path) -> Result<Vec<u32>, Failure> {
    let what = || format!("ids file {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|source| Failure::File { what: what(), source })?;
    let ids =
        token_ids(&text).map_err(|word| Failure::Usage(format!("{}: {word:?} is no token id", what())))?;
    if ids.is_empty() {
        return Err(Failure::Usage(format!("{} holds no token ids", what())));
    }
    Ok(ids)
}

impl From<ForwardError> for Failure {
    fn from(error: ForwardError) -> Self {
        Self::Engine(error.into())
    }
}
