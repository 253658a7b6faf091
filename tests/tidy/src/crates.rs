//! Crate edges: what cargo sees equals the table in ARCHITECTURE.md, both ways.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Fault;

/// Where the table is.
pub const TABLE: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- crates -->";

/// Crate folder → folders of the workspace crates it uses; `None` may use anything.
pub type Edges = BTreeMap<String, Option<Vec<String>>>;

/// Reads the table that follows the marker: rows of `crate | uses | …`, names in backticks, `nothing` or `anything`.
///
/// # Errors
/// When there is no table.
pub fn declared(architecture: &str) -> Result<Edges, Fault> {
    let after = architecture.split_once(OPEN).map(|(_, after)| after);
    let rows = after.into_iter().flat_map(|after| {
        let table = after.trim_start().lines().take_while(|line| line.starts_with('|'));
        table.skip(2).map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
    });
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
    let mut edges = Edges::new();
    for row in rows {
        let (Some(from), Some(uses)) = (row.get(1), row.get(2)) else { continue };
        for name in names(from) {
            edges.insert(name, (*uses != "anything").then(|| sorted(names(uses))));
        }
    }
    if edges.is_empty() {
        return Err(Fault::new(TABLE, 0, format!("expected a table of crates after {OPEN}")));
    }
    Ok(edges)
}

/// Compares cargo's metadata with the declared edges. Development dependencies are free.
pub fn check(metadata: &Value, declared: &Edges) -> Vec<Fault> {
    let mut faults = Vec::new();
    let root = text(&metadata["workspace_root"]);
    let mut met = Vec::new();
    for package in list(&metadata["packages"]) {
        let Some(folder) = folder(root, text(&package["manifest_path"])) else { continue };
        let manifest = format!("{folder}/Cargo.toml");
        if text(&package["name"])
            != format!("kiln-{}", folder.rsplit('/').next().unwrap_or_default().replace('_', "-"))
        {
            faults.push(Fault::new(
                &manifest,
                0,
                format!("package `{}` is not kiln-<folder>", package["name"]),
            ));
        }
        let Some(allowed) = declared.get(&folder) else {
            faults.push(Fault::new(TABLE, 0, format!("`{folder}` has no row in the table of crates")));
            continue;
        };
        met.push(folder.clone());
        let Some(allowed) = allowed else { continue };
        let used = sorted(
            list(&package["dependencies"])
                .iter()
                .filter(|dependency| text(&dependency["kind"]) != "dev")
                .filter_map(|dependency| dependency["path"].as_str())
                .filter_map(|path| folder_of(root, path))
                .collect(),
        );
        for edge in used.iter().filter(|edge| !allowed.contains(edge)) {
            faults.push(Fault::new(&manifest, 0, format!("`{folder}` may not use `{edge}`, by {TABLE}")));
        }
        for edge in allowed.iter().filter(|edge| !used.contains(edge)) {
            faults.push(Fault::new(
                TABLE,
                0,
                format!("`{folder}` does not use `{edge}`; drop it from the table"),
            ));
        }
    }
    for gone in declared.keys().filter(|name| !met.contains(name)) {
        faults.push(Fault::new(TABLE, 0, format!("the table has a row for `{gone}`, which is no crate")));
    }
    faults
}

fn folder(root: &str, manifest: &str) -> Option<String> {
    folder_of(root, manifest.strip_suffix("/Cargo.toml")?)
}

fn folder_of(root: &str, dir: &str) -> Option<String> {
    dir.strip_prefix(root)?.strip_prefix('/').map(str::to_string)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(folder: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let uses: Vec<Value> =
            uses.iter().map(|(to, kind)| json!({"path": format!("/r/{to}"), "kind": kind})).collect();
        json!({"name": format!("kiln-{folder}"), "manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": uses})
    }

    fn run(packages: &[Value]) -> Vec<String> {
        let table = format!(
            "# A\n{OPEN}\n\n| crate | uses | holds |\n|---|---|---|\n| `abi` | nothing | x |\n| `dsl` | `abi` | x |\n| `xtask` | anything | x |\n\nafter `no` | row\n"
        );
        let edges = declared(&table).unwrap();
        let metadata = json!({"workspace_root": "/r", "packages": packages});
        check(&metadata, &edges).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn equal_edges_are_clean_and_development_dependencies_are_free() {
        let packages = [
            package("abi", &[("dsl", Some("dev"))]),
            package("dsl", &[("abi", None)]),
            package("xtask", &[("dsl", None)]),
        ];
        assert_eq!(run(&packages), [""; 0]);
    }

    #[test]
    fn each_planted_difference_is_found() {
        let good = [package("abi", &[]), package("dsl", &[("abi", None)]), package("xtask", &[])];
        let with = |i: usize, package: Value| {
            let mut packages = good.to_vec();
            packages[i] = package;
            run(&packages)
        };
        assert_eq!(
            with(0, package("abi", &[("dsl", None)])),
            ["abi/Cargo.toml:0: `abi` may not use `dsl`, by ARCHITECTURE.md"]
        );
        assert_eq!(with(0, package("abi", &[("dsl", Some("build"))])).len(), 1);
        assert_eq!(
            with(1, package("dsl", &[])),
            ["ARCHITECTURE.md:0: `dsl` does not use `abi`; drop it from the table"]
        );
        assert_eq!(run(&good[..2]).len(), 1, "a row without a crate");
        assert_eq!(run(&[&good[..], &[package("new", &[])]].concat()).len(), 1, "a crate without a row");
        let mut renamed = good[0].clone();
        renamed["name"] = json!("abi");
        assert_eq!(with(0, renamed).len(), 1);
        assert!(declared("# no table").is_err());
    }
}
