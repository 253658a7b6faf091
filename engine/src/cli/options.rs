//! Arguments that commands share.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use kiln_abi::{Device as _, spirv::Capability};
use kiln_kernels::kv_type::KvType;
use kiln_runtime::{Gpu, RuntimeOptions};

use super::progress::Bar;
use super::{Context, Failure};
use crate::forward::Backend;
use crate::plan::{AccuracyClass, ContextWish, PlanOptions};
use crate::sample::{Penalties, SampleOptions};
use crate::session::{Device, Error, ModelFile};
use crate::submit::DeviceModel;

/// How the next token is chosen.
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct Sampling {
    /// Temperature; 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = at_least_zero, allow_negative_numbers = true)]
    temp: f32,
    /// Choose among the K likeliest; 0 for all
    #[arg(long, value_name = "K", default_value_t = 40, value_parser = count, allow_negative_numbers = true)]
    top_k: usize,
    /// Choose among the likeliest that make up this share; 1 for all
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = share, allow_negative_numbers = true)]
    top_p: f32,
    /// Choose among those at least P times as likely as the best; 0 for all
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = share, allow_negative_numbers = true)]
    min_p: f32,
    /// Make tokens of the last 64 less likely by this factor; 1 for none
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = factor)]
    repeat_penalty: f32,
    /// Lower the logit of tokens among the last 64
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = moderate, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Lower it once for each time that they occur
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = moderate, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Seed of the random draws; equal seeds give equal answers [default: a new one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl Sampling {
    /// The chain; a seed that was not given is drawn here.
    pub(super) fn options(&self) -> SampleOptions {
        SampleOptions {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            penalties: Penalties {
                repeat: self.repeat_penalty,
                presence: self.presence_penalty,
                frequency: self.frequency_penalty,
            },
            // 32 bits, so that it survives JSON readers that hold numbers as doubles.
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32),
        }
    }
}

/// A whole number.
pub(super) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number of 0 or more".to_owned())
}

fn positions(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|n| (1..=1 << 31).contains(n));
    parsed.ok_or_else(|| format!("expected a whole number of 1 to {}", 1_u32 << 31))
}

fn number(text: &str, expected: &str, good: impl Fn(f32) -> bool) -> Result<f32, String> {
    let parsed = text.parse().ok().filter(|x: &f32| x.is_finite() && good(*x));
    parsed.ok_or_else(|| format!("expected {expected}"))
}

fn moderate(text: &str) -> Result<f32, String> {
    number(text, "a number of -1000 to 1000", |x| x.abs() <= 1000.0)
}

fn at_least_zero(text: &str) -> Result<f32, String> {
    number(text, "a number of 0 or more", |x| x >= 0.0)
}

fn factor(text: &str) -> Result<f32, String> {
    number(text, "a number of 0.001 to 1000", |x| (0.001..=1000.0).contains(&x))
}

fn share(text: &str) -> Result<f32, String> {
    number(text, "a number of 0 to 1", |x| (0.0..=1.0).contains(&x))
}

fn class(text: &str) -> Result<AccuracyClass, String> {
    match text {
        "f16" => Ok(AccuracyClass::F16),
        "int8" => Ok(AccuracyClass::Int8),
        _ => Err("a class is f16 or int8".to_owned()),
    }
}

fn kv_type(text: &str) -> Result<KvType, String> {
    KvType::named(text).ok_or_else(|| format!("expected {}", KvType::ALL.map(KvType::name).join(", ")))
}

/// Where a model runs and how long its context is.
#[derive(clap::Args)]
#[command(next_help_heading = "Device")]
pub(super) struct Placement {
    /// A Vulkan device by number or part of its name, or `reference`: plain f32 on the CPU [default: the best device]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Most positions of prompt and answer together [default: what the model was trained for, at most 8192]
    #[arg(long, value_name = "N", value_parser = positions, allow_negative_numbers = true)]
    ctx: Option<usize>,
    /// Put a full barrier before every command; results are the same, only slower
    #[arg(long)]
    paranoid: bool,
    /// Do without what the device has: f16, dot4, khr, cm2, or a capability by SPIR-V's name, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    without: Vec<Without>,
    /// Accuracy class: f16 keeps activations in 16 bits or better, int8 in a byte where weights are packed
    #[arg(long, value_name = "CLASS", default_value = "f16", value_parser = class)]
    activations: AccuracyClass,
    /// How keys and values are kept on the device: f16, f32 or q8_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = kv_type)]
    kv_type: KvType,
}

/// Capabilities to do without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Without(pub(super) Vec<Capability>);

impl std::str::FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named =
            |part: &str| Capability::ALL.iter().copied().filter(|c| c.name().contains(part)).collect();
        let whole = || Capability::ALL.iter().copied().find(|c| c.name() == text).map(|c| vec![c]);
        let text = text.trim();
        match text {
            "f16" => Ok(Self(vec![Capability::Float16])),
            "dot4" => Ok(Self(named("DotProduct"))),
            "khr" => Ok(Self(named("CooperativeMatrixKHR"))),
            "cm2" => Ok(Self(Capability::ALL.iter().copied().filter(|c| c.name().ends_with("NV")).collect())),
            _ => match whole() {
                Some(base) if base.iter().any(|c| BASE.contains(c)) => {
                    Err("no kernel can do without it; `--device reference` runs a model without a GPU"
                        .to_owned())
                }
                Some(capabilities) => Ok(Self(capabilities)),
                None => Err("expected f16, dot4, khr, cm2 or a capability by SPIR-V's name".to_owned()),
            },
        }
    }
}

/// What every kernel needs.
pub(super) const BASE: [Capability; 2] = [Capability::Shader, Capability::VulkanMemoryModel];

/// The name of the CPU reference among devices.
pub(super) const REFERENCE: &str = "reference";
/// Positions that are planned for when nobody asks for more.
const DEFAULT_CTX: usize = 8192;

impl Placement {
    /// Loads the model where it shall run, with a bar on terminals.
    ///
    /// A device that is asked for is used or the command fails; the default falls back to the reference and says why.
    pub(super) fn load(&self, context: &Context, file: &ModelFile) -> Result<Box<dyn Backend>, Failure> {
        self.warn_of_length(file);
        if self.is_reference() {
            return self.load_reference(context, file);
        }
        match self.load_vulkan(context, file) {
            Err(why) if self.device.is_none() => {
                super::log::say(format_args!("note: running on the CPU reference (plain f32): {why}"));
                self.load_reference(context, file)
            }
            Err(Failure::Runtime(why)) => Err(Failure::Placed(why)),
            loaded => loaded,
        }
    }

    fn load_reference(&self, context: &Context, file: &ModelFile) -> Result<Box<dyn Backend>, Failure> {
        if self.activations != AccuracyClass::F16 {
            super::log::say(format_args!("note: the reference has activations of f32 in every class"));
        }
        let bar = Bar::new("dequantizing");
        let device = Device::Reference { threads: context.threads };
        Ok(file.load(&context.registry, device, &|done, total| bar.report(done, total))?)
    }

    /// Whether the CPU reference is asked for.
    pub(super) fn is_reference(&self) -> bool {
        self.device.as_deref() == Some(REFERENCE)
    }

    /// Loads the model on a Vulkan device, for commands that look into it; there is no falling back.
    pub(super) fn load_device(
        &self,
        context: &Context,
        file: &ModelFile,
    ) -> Result<(Gpu, DeviceModel), Failure> {
        if self.is_reference() {
            return Err(Failure::Usage(
                "--profile is of Vulkan devices; the reference has no launches".into(),
            ));
        }
        self.warn_of_length(file);
        let gpu = self.open(context)?;
        super::log::say(format_args!("note: running on {}", gpu.caps().name));
        let bar = Bar::new("uploading");
        let (gguf, graph, registry) = (&file.gguf, &file.model.graph, &context.registry);
        let progress = |done, total| bar.report(done, total);
        let model = DeviceModel::load(&gpu, gguf, graph, registry, self.plan_options(file), &progress);
        Ok((gpu, model.map_err(Error::from)?))
    }

    /// The device, opened: a Vulkan one.
    pub(super) fn open(&self, context: &Context) -> Result<Gpu, Failure> {
        let options = RuntimeOptions {
            device: self.device.clone(),
            validation: context.validation,
            paranoid: self.paranoid,
            without: self.left_out(context),
            ..RuntimeOptions::default()
        };
        let gpu = Gpu::open(&options)?;
        context.validation_log.get_or_init(|| gpu.validation_log());
        Ok(gpu)
    }

    /// Capabilities to do without, by the command and by the environment.
    pub(super) fn left_out(&self, context: &Context) -> BTreeSet<Capability> {
        context.without.iter().chain(&self.without).flat_map(|w| &w.0).copied().collect()
    }

    fn load_vulkan(&self, context: &Context, file: &ModelFile) -> Result<Box<dyn Backend>, Failure> {
        let gpu = self.open(context)?;
        let name = gpu.caps().name.clone();
        let bar = Bar::new("uploading");
        let device = Device::Vulkan { gpu, options: self.plan_options(file) };
        let loaded = file.load(&context.registry, device, &|done, total| bar.report(done, total))?;
        // Said of what is loaded: before, the reference may still have to take over.
        super::log::say(format_args!("note: running on {name}"));
        Ok(loaded)
    }

    /// What a plan is told: a length that was asked for is kept, the default may shrink to what fits.
    pub(super) fn plan_options(&self, file: &ModelFile) -> PlanOptions {
        let n_ctx = self.n_ctx(file);
        let exact = self.ctx.is_some();
        let context = if exact { ContextWish::Exactly(n_ctx) } else { ContextWish::AtMost(n_ctx) };
        PlanOptions { kv_type: self.kv_type, class: self.activations, ..PlanOptions::new(context) }
    }

    /// Positions that a sequence may have.
    pub(super) fn n_ctx(&self, file: &ModelFile) -> usize {
        self.ctx.unwrap_or(file.model.n_ctx_train.min(DEFAULT_CTX))
    }

    fn warn_of_length(&self, file: &ModelFile) {
        let trained = file.model.n_ctx_train;
        if self.n_ctx(file) > trained {
            tracing::warn!("the model was trained for {trained} positions, beyond them its answers decay");
        }
    }

    /// Positions that were asked for.
    pub(super) fn asked_ctx(&self) -> Option<usize> {
        self.ctx
    }
}

#[cfg(test)]
mod tests {
    use kiln_kernels::Registry;

    use super::*;

    #[test]
    fn what_every_kernel_needs_is_not_left_out() {
        for base in BASE {
            let why = base.name().parse::<Without>().unwrap_err();
            assert!(why.starts_with("no kernel can do without it"), "{}: {why}", base.name());
        }
        let registry = Registry::builtin();
        let mut shared: Vec<Capability> = Capability::ALL.to_vec();
        for variant in registry.variants().step_by(97) {
            let needed = variant.stage().unwrap().layout.capabilities;
            shared.retain(|capability| needed.contains(capability));
        }
        assert_eq!(shared, BASE, "what all of many kernels need");
        for other in Capability::ALL.iter().filter(|c| !BASE.contains(c)) {
            assert_eq!(other.name().parse(), Ok(Without(vec![*other])));
        }
    }
}
