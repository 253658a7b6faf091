//! Kernel variants with their types erased: what tools list, stage and check.

use std::sync::Arc;

use kiln_abi::{Kernel, StageErrors, StagedKernel};

use crate::conformance::Case;

type Stage = Arc<dyn Fn() -> Result<StagedKernel, StageErrors> + Send + Sync>;
type Cases = Arc<dyn Fn() -> Box<dyn Iterator<Item = Case>> + Send + Sync>;

/// One kernel variant.
#[derive(Clone)]
pub struct Variant {
    /// The part it plays in a model, such as `gemv`.
    pub role: &'static str,
    /// The format it is made for, if any.
    pub format: Option<&'static str>,
    /// Its inner product, if it has one.
    pub arm: Option<&'static str>,
    /// What else its kind varies, such as tile and form; a cover of variants meets every pair of these.
    pub cut: Vec<String>,
    /// Its name: kernel, type parameters, comptime parameters.
    pub name: String,
    stage: Stage,
    cases: Cases,
    long_cases: Cases,
}

impl Variant {
    /// The variant `kernel` in its role, with the launches that it is checked by.
    pub fn new<K: Kernel + Send + Sync + 'static>(
        role: &'static str,
        kernel: K,
        cases: impl Fn() -> Vec<Case> + Send + Sync + 'static,
    ) -> Self {
        Self::lazy(role, kernel, cases)
    }

    /// The same with launches whose references take long, each made when it is asked for.
    pub fn lazy<K, I>(role: &'static str, kernel: K, cases: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        K: Kernel + Send + Sync + 'static,
        I: IntoIterator<Item = Case, IntoIter: 'static>,
    {
        let name = kernel.name();
        let stage: Stage = Arc::new(move || kernel.stage());
        let (cases, long_cases) = (each(cases), each(Vec::new));
        Variant { role, format: None, arm: None, cut: Vec::new(), name, stage, cases, long_cases }
    }

    /// The same, made for a format on an arm.
    pub fn on(self, format: &'static str, arm: &'static str) -> Self {
        Variant { format: Some(format), arm: Some(arm), ..self }
    }

    /// The same, cut in this way.
    pub fn cut(self, cut: Vec<String>) -> Self {
        Variant { cut, ..self }
    }

    /// The same with launches that take long, such as those with long rows.
    pub fn with_long<I>(self, cases: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = Case, IntoIter: 'static>,
    {
        Variant { long_cases: each(cases), ..self }
    }

    /// Whether `text` is in its name, or names the format that it is made for, as files do (`IQ4_NL`) or as kernels do
    /// (`Iq4Nl`).
    pub fn is_called(&self, text: &str) -> bool {
        self.name.contains(text) || self.is_of_format(text)
    }

    /// Whether it is made for the format of that name, as files write it or as kernels do.
    pub fn is_of_format(&self, name: &str) -> bool {
        self.format.is_some_and(|format| is_format(format, name))
    }

    /// Words, layout and source map.
    ///
    /// # Errors
    /// Everything wrong with the kernel.
    pub fn stage(&self) -> Result<StagedKernel, StageErrors> {
        (self.stage)()
    }

    /// Launches with known answers.
    pub fn cases(&self) -> impl Iterator<Item = Case> + use<> {
        (self.cases)()
    }

    /// More of them, which take long.
    pub fn long_cases(&self) -> impl Iterator<Item = Case> + use<> {
        (self.long_cases)()
    }
}

fn each<I>(cases: impl Fn() -> I + Send + Sync + 'static) -> Cases
where
    I: IntoIterator<Item = Case, IntoIter: 'static>,
{
    Arc::new(move || Box::new(cases().into_iter()))
}

/// The kernel that a variant of this name is one of: `gemv` of `gemv<Q8_0>(t: …)`.
pub fn kernel_of(variant: &str) -> &str {
    variant.split(['<', '(']).next().unwrap_or(variant)
}

/// Whether `name` is that of the format: a file's `IQ4_NL` is a kernel's `Iq4Nl`.
pub fn is_format(format: &str, name: &str) -> bool {
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    letters(format) == letters(name)
}

impl std::fmt::Debug for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Variant").field(&self.name).finish()
    }
}
