//! Tracked text speaks of the project: no path of somebody's machine, no registry by its host.

use crate::Fault;
use crate::repo::Text;

/// Folders that exist on a machine, not in the project.
const MACHINE: [&str; 4] = ["/work", "/tmp", "/root", "/home"];
/// Package indexes and mirrors are reached through cargo, pip and apt as the machine configures them.
const HOSTS: [&str; 8] = [
    "crates.io",
    "pypi.org",
    "pythonhosted.org",
    "npmjs.com",
    "npmjs.org",
    "deb.debian.org",
    "snapshot.debian.org",
    "security.debian.org",
];
/// Cargo writes its registry into the lock files; this file lists what is looked for.
const EXEMPT: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "tests/tidy/src/texts.rs"];

/// Every line of every tracked file but those.
pub fn check(texts: &[Text]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for text in texts.iter().filter(|text| !EXEMPT.contains(&text.path.as_str())) {
        for (i, line) in text.text.lines().enumerate() {
            if let Some(path) = MACHINE.into_iter().find(|path| names_folder(line, path)) {
                faults.push(Fault::new(&text.path, i + 1, format!("a machine's path, {path}")));
            }
            if let Some(host) = HOSTS.into_iter().find(|host| line.contains(host)) {
                faults.push(Fault::new(&text.path, i + 1, format!("a registry's host, {host}")));
            }
        }
    }
    faults
}

/// Whether the line holds `folder` as the start of an absolute path: `/tmp/x`, not `target/tmp` or `/tmpfs`.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        let joins =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*' | '"' | '\'' | '/');
        // A quote may open a path.
        let opens = before.is_none_or(|c| matches!(c, '"' | '\'') || !joins(c));
        let ends = after.is_none_or(|c| matches!(c, '/' | '"' | '\'' | '.') || !joins(c));
        opens && ends
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::repo::Text;

    fn count(path: &str, text: &str) -> usize {
        check(&[Text { path: path.into(), text: text.into() }]).len()
    }

    #[test]
    fn machine_paths_and_hosts_are_found() {
        for bad in [
            "see /tmp/x",
            "\"/tmp\"",
            "`/root/.cargo`",
            "cd /home/me",
            "--index https://pypi.org/simple",
            "on crates.io",
        ] {
            assert_eq!(count("a.md", bad), 1, "{bad}");
        }
        for good in ["subgroup/workgroup", "target/tmp/x", "/tmpfs", "$HOME/tmp", "a.root/x", "~/.cache/kiln"]
        {
            assert_eq!(count("a.md", good), 0, "{good}");
        }
        assert_eq!(count("Cargo.lock", "crates.io"), 0);
    }
}
