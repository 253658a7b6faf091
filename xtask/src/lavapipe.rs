//! A CPU Vulkan driver in a folder of its own: Mesa's lavapipe, the loader, the validation layer and the Vulkan tools,
//! taken from Debian packages whose signatures apt checks. The system's packages and libraries stay untouched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, capture, run};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const PACKAGES: [&str; 4] = ["mesa-vulkan-drivers", "libvulkan1", "vulkan-validationlayers", "vulkan-tools"];

/// Debian suites to take the packages from; the last one is preferred.
pub(crate) struct Source {
    suites: Vec<String>,
}

impl Source {
    /// Mesa 25 and later has cooperative matrices, clustered subgroup operations and a memory budget.
    pub(crate) fn preferred() -> Source {
        Source { suites: vec!["trixie".into(), "trixie-backports".into()] }
    }

    /// This machine's own release, for when its mirror does not carry the preferred suites.
    pub(crate) fn host() -> Option<Source> {
        let release = fs::read_to_string("/etc/os-release").ok()?;
        let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
        Some(Source { suites: vec![name.trim_matches('"').to_string()] })
    }

    /// What a stamp records. Mirrors keep one version of a package, so the suite is all that can be pinned.
    pub(crate) fn pin(&self) -> String {
        format!("lavapipe 1 from {}\n", self.suites.join(" "))
    }

    /// Downloads and unpacks under `stage`; returns the finished, relocatable folder.
    pub(crate) fn unpack(&self, stage: &Path) -> Result<PathBuf> {
        if !Path::new(KEYRING).exists() {
            return Err(format!("{KEYRING} is missing, so Debian's packages cannot be checked"));
        }
        let (apt, out) = (Apt::new(stage)?, stage.join("lavapipe"));
        apt.point_at(&self.suites)?;
        run(apt.get().args(["-q", "update"]))?;
        let target = self.suites.last().map(String::as_str).unwrap_or_default();
        run(apt.get().args(["-y", "-q", "--download-only", "-t", target, "install"]).args(PACKAGES))?;
        let versions = apt.unpack_all(&out.join("root"))?;
        write(&out.join("versions"), &versions)?;
        finish(&out)?;
        Ok(out)
    }
}

/// The driver's own answer, as `vulkaninfo` prints it; an error when the folder does not work.
pub(crate) fn describe(dir: &Path) -> Result<String> {
    let mut command = Command::new(dir.join("run"));
    let summary = capture(command.arg(dir.join("root/usr/bin/vulkaninfo")).arg("--summary"))?;
    let field = |name: &str| {
        let line = summary.lines().find(|line| line.trim_start().starts_with(name));
        line.and_then(|line| line.split('=').nth(1)).map(|value| value.trim().to_string())
    };
    match (field("deviceName"), field("driverInfo"), field("apiVersion")) {
        (Some(device), Some(driver), Some(api)) => Ok(format!("{device}, {driver}, Vulkan {api}")),
        _ => Err(format!("{}: vulkaninfo names no device", dir.display())),
    }
}

/// Loader, driver and validation layer as the distribution installs them, and the driver's manifest.
pub(crate) fn system_driver() -> Option<PathBuf> {
    let listed = capture(Command::new("/sbin/ldconfig").arg("-p")).ok()?;
    let manifests = fs::read_dir("/usr/share/vulkan/icd.d").ok()?;
    let is_lavapipe =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd"));
    let manifest = manifests.flatten().map(|entry| entry.path()).find(is_lavapipe)?;
    listed.contains("libvulkan.so.1").then_some(manifest)
}

/// apt with every path its own, so that it needs no privilege and sees no installed package.
struct Apt {
    dir: PathBuf,
}

impl Apt {
    fn new(stage: &Path) -> Result<Apt> {
        let dir = stage.join("apt");
        for sub in ["lists/partial", "cache/archives/partial", "state", "log"] {
            let sub = dir.join(sub);
            fs::create_dir_all(&sub).map_err(|e| format!("{}: {e}", sub.display()))?;
        }
        let at = |path: &str| dir.join(path).display().to_string();
        // apt as root drops to a user that cannot enter a private folder.
        let host = format!(
            "Dir::State \"{}\";\nDir::State::Lists \"{}\";\nDir::Cache \"{}\";\nDir::Log \"{}\";\n\
             APT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\n\
             Acquire::Retries \"3\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n",
            at("state"),
            at("lists"),
            at("cache"),
            at("log")
        );
        let own = format!(
            "{host}Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\nDir::State::status \"{}\";\n",
            at("sources.list"),
            at("status")
        );
        write(&dir.join("status"), "")?;
        write(&dir.join("host.conf"), &host)?;
        write(&dir.join("own.conf"), &own)?;
        Ok(Apt { dir })
    }

    /// apt-get on this machine's sources, with lists of our own.
    fn on_host_sources(&self) -> Command {
        let mut apt = Command::new("apt-get");
        apt.env("APT_CONFIG", self.dir.join("host.conf"));
        apt
    }

    /// apt-get on the chosen suites alone.
    fn get(&self) -> Command {
        let mut apt = Command::new("apt-get");
        apt.env("APT_CONFIG", self.dir.join("own.conf"));
        apt
    }

    fn point_at(&self, suites: &[String]) -> Result<()> {
        let uri = self.mirror()?;
        let lines: String =
            suites.iter().map(|suite| format!("deb [signed-by={KEYRING}] {uri} {suite} main\n")).collect();
        write(&self.dir.join("sources.list"), &lines)
    }

    /// The Debian mirror this machine is set up for. Slim images ship without lists, and apt then knows no mirror until
    /// it has fetched them.
    fn mirror(&self) -> Result<String> {
        let ask = ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"];
        let find =
            |listed: String| listed.lines().find_map(|line| line.strip_prefix("Debian ")).map(str::to_string);
        if let Some(uri) = find(capture(Command::new("apt-get").args(ask))?) {
            return Ok(uri);
        }
        // Other repositories of the machine may be out of reach; only Debian's lists matter.
        let updated = run(self.on_host_sources().args(["-q", "update"]));
        let found = find(capture(self.on_host_sources().args(ask))?);
        found.ok_or_else(|| match updated {
            Ok(()) => "apt lists no repository labelled Debian".to_string(),
            Err(why) => why,
        })
    }

    /// Unpacks every downloaded package; returns `name version` lines of those asked for.
    fn unpack_all(&self, root: &Path) -> Result<String> {
        fs::create_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))?;
        let archives = self.dir.join("cache/archives");
        let entries = fs::read_dir(&archives).map_err(|e| format!("{}: {e}", archives.display()))?;
        let mut versions = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|ext| ext != "deb") {
                continue;
            }
            let unpacked = capture(Command::new("dpkg").arg("-x").arg(&path).arg(root));
            unpacked.map_err(|e| format!("{}: {e}", path.display()))?;
            let fields = capture(
                Command::new("dpkg-deb").args(["--show", "--showformat=${Package} ${Version}\n"]).arg(&path),
            )?;
            if fields.split(' ').next().is_some_and(|name| PACKAGES.contains(&name)) {
                versions.push(fields);
            }
        }
        versions.sort();
        Ok(versions.concat())
    }
}

/// Adds the driver manifest and the launcher. Both refer to their own folder, so it may be moved.
fn finish(out: &Path) -> Result<()> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let (usr, lib) = (format!("root/usr/lib/{triplet}"), format!("root/lib/{triplet}"));
    let manifests = out.join("root/usr/share/vulkan/icd.d");
    let entries = fs::read_dir(&manifests).map_err(|e| format!("{}: {e}", manifests.display()))?;
    let manifest = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_icd")))
        .ok_or_else(|| {
            format!("{}: mesa-vulkan-drivers brought no lavapipe manifest", manifests.display())
        })?;
    let text = fs::read_to_string(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    write(&out.join("lvp.json"), &relocate(&text, &format!("./{usr}/libvulkan_lvp.so"))?)?;

    let loader = fs::read_dir(out.join(&usr))
        .into_iter()
        .chain(fs::read_dir(out.join(&lib)))
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux-")))
        .ok_or_else(|| format!("{}: no dynamic loader among the packages", out.display()))?;
    let loader = loader.strip_prefix(out).map_err(|e| e.to_string())?.display().to_string();
    let launcher = format!(
        "#!/bin/sh\n\
         # Runs a program on this folder's libraries and driver.\n\
         here=$(cd \"$(dirname \"$0\")\" && pwd)\n\
         export VK_DRIVER_FILES=\"$here/lvp.json\"\n\
         export VK_LAYER_PATH=\"$here/root/usr/share/vulkan/explicit_layer.d\"\n\
         exec \"$here/{loader}\" --library-path \"$here/{usr}:$here/{lib}\" \"$@\"\n"
    );
    let path = out.join("run");
    write(&path, &launcher)?;
    run(Command::new("chmod").arg("+x").arg(&path))
}

/// The manifest with its `library_path` replaced.
fn relocate(manifest: &str, library: &str) -> Result<String> {
    let key = "\"library_path\"";
    let bad = || "the driver's manifest has no library_path".to_string();
    let after = manifest.find(key).ok_or_else(bad)? + key.len();
    let open = after + manifest[after..].find('"').ok_or_else(bad)? + 1;
    let close = open + manifest[open..].find('"').ok_or_else(bad)?;
    Ok(format!("{}{library}{}", &manifest[..open], &manifest[close..]))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::relocate;

    #[test]
    fn relocate_replaces_the_path_and_nothing_else() {
        let text = r#"{"ICD": {"api_version": "1.4", "library_path": "/usr/lib/l.so"}, "v": "1"}"#;
        let want = r#"{"ICD": {"api_version": "1.4", "library_path": "./l.so"}, "v": "1"}"#;
        assert_eq!(relocate(text, "./l.so").unwrap(), want);
        assert!(relocate("{}", "./l.so").is_err());
    }
}
