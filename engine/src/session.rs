//! The whole program: open a file → describe its model → load it on a backend → feed → sample → text.

use std::path::Path;
use std::time::{Duration, Instant};

use kiln_kernels::Registry;
use kiln_runtime::Gpu;

use crate::chat::{ChatError, ChatTemplate, Conversation, Message, Written};
use crate::forward::{Backend, Choice, Forward, ForwardError, PREFILL_WINDOW, feed_windows};
use crate::gguf::{Gguf, GgufError};
use crate::graph::TensorId;
use crate::models::{self, Declined, Model};
use crate::plan::{Plan, PlanOptions, Target, log_declines};
use crate::reference::{self, LoadError, Threads};
use crate::sample::{SampleError, SampleOptions, Sampler};
use crate::submit::{DeviceLoadError, DeviceModel};
use crate::tokenizer::{ControlText, Detokenizer, SpecialText, TokenId, Tokenizer, TokenizerError};

/// Why there is no text, or no more of it. One line each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file.
    #[error(transparent)]
    File(#[from] GgufError),
    /// What the model needs and we lack.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// The weights.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device, or what it lacks for the model.
    #[error(transparent)]
    Device(#[from] DeviceLoadError),
    /// The file's tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The file's chat template.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// Ids that do not fit.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// Logits that no id can be chosen from.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// There is nothing to answer.
    #[error("the prompt is empty: there is nothing to continue")]
    EmptyPrompt,
    /// Whoever reads the text went away or cannot take more.
    #[error("cannot write the answer: {0}")]
    Output(#[from] std::io::Error),
}

/// Told of the progress of long work: done and total.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Where a model runs.
pub enum Device {
    /// The plain f32 reference on the CPU.
    Reference {
        /// It runs on so many threads.
        threads: Threads,
    },
    /// A Vulkan device.
    Vulkan {
        /// The device.
        gpu: Gpu,
        /// How it is planned.
        options: PlanOptions,
    },
}

/// An open file whose model can be run.
#[derive(Debug)]
pub struct ModelFile {
    /// The file.
    pub gguf: Gguf,
    /// What it holds.
    pub model: Model,
}

impl ModelFile {
    /// Opens a file and describes its model; reads no weights yet.
    ///
    /// # Errors
    /// A broken file or a declined model.
    pub fn open(path: &Path, registry: &Registry) -> Result<Self, Error> {
        let gguf = Gguf::open(path, registry)?;
        let model = models::describe(&gguf).inspect_err(|declined| {
            declined.reasons.iter().for_each(|reason| tracing::info!("declined: {reason}"));
        })?;
        Ok(Self { gguf, model })
    }

    /// What a device would hold and do for the model.
    ///
    /// # Errors
    /// What the device lacks for it, by name.
    pub fn plan(&self, registry: &Registry, target: &Target, options: PlanOptions) -> Result<Plan, Error> {
        let graph = &self.model.graph;
        let type_id = |t: TensorId| self.gguf.tensor(&graph.tensors[t.0].name).map(|t| t.type_id);
        let plan = Plan::new(graph, &type_id, registry, target, options);
        log_declines(&plan);
        Ok(plan.map_err(DeviceLoadError::from)?)
    }

    /// Brings the weights to a device; `progress` counts weights.
    ///
    /// # Errors
    /// No room, or weights that cannot be read.
    pub fn load(
        &self,
        registry: &Registry,
        device: Device,
        progress: Progress,
    ) -> Result<Box<dyn Backend>, Error> {
        let (gguf, graph) = (&self.gguf, &self.model.graph);
        Ok(match device {
            Device::Reference { threads } => {
                Box::new(reference::Model::load(gguf, graph, registry, threads, progress)?)
            }
            Device::Vulkan { gpu, options } => {
                Box::new(DeviceModel::load(&gpu, gguf, graph, registry, options, progress)?)
            }
        })
    }
}

/// The file's chat template.
///
/// # Errors
/// None, or one that does not compile.
pub fn chat_template(gguf: &Gguf) -> Result<ChatTemplate, Error> {
    Ok(ChatTemplate::new(gguf.metadata().opt_str("tokenizer.chat_template")?)?)
}

/// The ids of a conversation up to where the answer starts.
///
/// The template makes one text of it. The texts of control tokens become those tokens where the template wrote them and
/// stay text where a message did, so that nobody ends another's turn by writing `<|im_end|>`.
///
/// # Errors
/// A template that fails on the conversation or refuses it.
pub fn chat_prompt(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    messages: &[Message],
) -> Result<Vec<TokenId>, Error> {
    let literal = |id: Option<TokenId>| tokenizer.decode(&[id?], ControlText::Shown).ok();
    let (bos, eos) = (literal(tokenizer.bos()), literal(tokenizer.eos()));
    let written = Written::new(messages, &template.source(), |text| tokenizer.control_texts(text))?;
    let conversation = Conversation {
        bos_token: bos.as_deref(),
        eos_token: eos.as_deref(),
        ..Conversation::to_answer(&written.messages)
    };
    let (text, plain) = written.found(template.render(&conversation)?);
    Ok(tokenizer.encode_prompt(&text, SpecialText::ParseBut(&plain)))
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model ended its answer.
    End,
    /// As many ids as were asked for.
    Length,
    /// The context is full.
    Context,
}

/// An answer and what it took.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The ids chosen, without the one that ends the answer.
    pub ids: Vec<TokenId>,
    /// Their text.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// Ids of the prompt that had to be fed; the rest were known from before.
    pub n_fed: usize,
    /// Ids of the answer that had to be fed to get the next.
    pub n_decoded: usize,
    /// From the first id fed to the prompt's last logits.
    pub prefill: Duration,
    /// From there to the last id.
    pub decode: Duration,
}

/// One conversation: a sequence on a backend and the ids that it holds.
pub struct Session {
    forward: Box<dyn Forward>,
    ids: Vec<TokenId>,
}

impl Session {
    /// An empty sequence of at most `n_ctx` positions.
    ///
    /// # Errors
    /// No room for its state.
    pub fn new(backend: &dyn Backend, n_ctx: usize) -> Result<Self, Error> {
        Ok(Self { forward: backend.sequence(n_ctx)?, ids: Vec::new() })
    }

    /// Continues `prompt` by at most `limit` ids. What the prompt shares with the sequence is not fed again.
    ///
    /// `progress` counts the prompt's ids; `piece` gets the text as it grows, in whole characters.
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, options without a meaning, broken logits, and those of `piece`.
    pub fn generate(
        &mut self,
        prompt: &[TokenId],
        tokenizer: &Tokenizer,
        options: SampleOptions,
        limit: usize,
        progress: Progress,
        mut piece: impl FnMut(&str) -> std::io::Result<()>,
    ) -> Result<Generated, Error> {
        options.check()?;
        let started = Instant::now();
        let last = prompt.len().checked_sub(1).ok_or(Error::EmptyPrompt)?;
        let known = self.ids.iter().zip(prompt).take_while(|(a, b)| a == b).count().min(last);
        let known = self.rewind(known);
        let mut sampler = Sampler::new(options, 0);
        prompt.iter().for_each(|&id| sampler.accept(id));
        let mut choice = self.feed(&prompt[known..], &sampler, limit.saturating_sub(1), progress)?;
        let prefilled = Instant::now();

        let mut detokenizer = Detokenizer::new(ControlText::Hidden);
        let (mut ids, mut answer, mut n_decoded) = (Vec::new(), String::new(), 0);
        let stop = loop {
            if ids.len() == limit {
                break Stop::Length;
            }
            let id = match choice {
                Choice::Token(id) => id,
                Choice::Logits(ref logits) => sampler.choose(logits, self.forward.n_past() as u64)?,
            };
            if tokenizer.is_end(id) {
                break Stop::End;
            }
            ids.push(id);
            sampler.accept(id);
            // A model may have more rows than its tokenizer has tokens: those have no text.
            let new = match (id as usize) < tokenizer.n_tokens() {
                true => detokenizer.push(tokenizer, id)?,
                false => String::new(),
            };
            piece(&new)?;
            answer += &new;
            if self.forward.n_past() == self.forward.n_ctx() {
                break Stop::Context;
            }
            if ids.len() < limit {
                choice = self.feed(&[id], &sampler, limit - ids.len() - 1, &|_, _| ())?;
                n_decoded += 1;
            }
        };
        let rest = detokenizer.finish();
        piece(&rest)?;
        answer += &rest;
        let (prefill, decode) = (prefilled - started, prefilled.elapsed());
        Ok(Generated { ids, text: answer, stop, n_fed: prompt.len() - known, n_decoded, prefill, decode })
    }

    /// Appends ids, window by window, and returns what may follow the last; up to `ahead` more may follow it.
    fn feed(
        &mut self,
        ids: &[TokenId],
        sampler: &Sampler,
        ahead: usize,
        progress: Progress,
    ) -> Result<Choice, ForwardError> {
        let last = ids.len() - 1;
        let body = last / PREFILL_WINDOW * PREFILL_WINDOW;
        feed_windows(self.forward.as_mut(), &ids[..body], body..body, |n_fed, _| {
            progress(n_fed, ids.len());
            Ok::<_, ForwardError>(())
        })?;
        let choice = self.forward.feed_choose(&ids[body..], sampler, ahead)?;
        progress(ids.len(), ids.len());
        self.ids.extend_from_slice(ids);
        Ok(choice)
    }

    /// Keeps at most `n_past` ids, and says how many.
    fn rewind(&mut self, n_past: usize) -> usize {
        let kept = self.forward.rewind(n_past);
        self.ids.truncate(kept);
        kept
    }
}
