//! CycloneDX document of a program: the linked packages and SQLite, but no packages for build
//! scripts, macros or tests. The same tree gives the same bytes.

use anyhow::{Context, Result, bail};
use itertools::Itertools;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Name and version.
type PackageId = (String, String);
type Dependencies = BTreeMap<PackageId, BTreeSet<PackageId>>;

pub fn print(root: &Path, program: &str, target: &str) -> Result<()> {
    println!("{:#}", document(root, program, target)?);
    Ok(())
}

fn document(root: &Path, program: &str, target: &str) -> Result<Value> {
    let (program, mut depends) = linked(root, program, target)?;
    let packages = crate::run::packages(root, &["--locked"])?;
    let metadata: BTreeMap<PackageId, &Value> = packages
        .iter()
        .map(|package| ((text(&package["name"]), text(&package["version"])), package))
        .collect();
    let sums = checksums(&crate::run::read(root, Path::new("Cargo.lock"))?);
    let mut components = Vec::new();
    for id in depends.keys().filter(|id| **id != program) {
        let package = metadata
            .get(id)
            .with_context(|| format!("cargo metadata lacks {} {}", id.0, id.1))?;
        components.push(component(id, package, sums.get(id)));
    }
    if let Some(id) = depends.keys().find(|id| id.0 == "libsqlite3-sys").cloned() {
        let manifest = metadata
            .get(&id)
            .map(|package| text(&package["manifest_path"]))
            .unwrap_or_default();
        let header = Path::new(&manifest).with_file_name("sqlite3/sqlite3.h");
        let version = sqlite_version(&crate::run::read(root, &header)?)
            .with_context(|| format!("{} defines no SQLITE_VERSION", header.display()))?;
        components.push(sqlite_component(&version));
        depends
            .entry(id)
            .or_default()
            .insert(("sqlite".to_owned(), version));
    }
    let package = metadata
        .get(&program)
        .context("cargo metadata lacks the program")?;
    let mut subject = component(&program, package, None);
    subject["type"] = json!("application");
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": subject,
            "properties": [{ "name": "target", "value": target }],
        },
        "components": components,
        "dependencies": depends.iter().map(|(id, on)| json!({
            "ref": reference(id),
            "dependsOn": on.iter().map(reference).collect_vec(),
        })).collect_vec(),
    }))
}

/// Runs `cargo tree`: the features of the program and the target select the packages.
fn linked(root: &Path, program: &str, target: &str) -> Result<(PackageId, Dependencies)> {
    let arguments = [
        "tree",
        "--locked",
        "--prefix",
        "depth",
        "--edges",
        "normal,no-proc-macro",
        "--format",
        "|{p}|",
        "--package",
        program,
        "--target",
        target,
    ];
    read_tree(&crate::run::output(root, "cargo", &arguments)?)
}

/// Parses lines like `2|serde v1.0.0 (proc-macro)| (*)`: depth, name and version. The first line is
/// that of the program.
fn read_tree(tree: &str) -> Result<(PackageId, Dependencies)> {
    let mut ancestors: Vec<PackageId> = Vec::new();
    let mut depends = Dependencies::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut parts = line.split('|');
        let depth = parts.next().and_then(|depth| depth.parse::<usize>().ok());
        let mut words = parts.next().unwrap_or_default().split(' ');
        let name = words.next().filter(|name| !name.is_empty());
        let version = words.next().and_then(|version| version.strip_prefix('v'));
        let (Some(depth), Some(name), Some(version)) = (depth, name, version) else {
            bail!("cargo tree prints {line:?}, which is not depth|name vVERSION|");
        };
        let id = (name.to_owned(), version.to_owned());
        ancestors.truncate(depth);
        if let Some(user) = ancestors.last() {
            depends.entry(user.clone()).or_default().insert(id.clone());
        }
        depends.entry(id.clone()).or_default();
        ancestors.push(id);
    }
    Ok((
        ancestors
            .into_iter()
            .next()
            .context("cargo tree prints nothing")?,
        depends,
    ))
}

fn component(id: &PackageId, package: &Value, checksum: Option<&String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(id),
        "name": id.0,
        "version": id.1,
        "description": text(&package["description"]).trim(),
        // Older packages separate licenses with a slash.
        "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
    });
    // Packages of this workspace are in no registry.
    if !package["source"].is_null() {
        component["purl"] = json!(format!("pkg:cargo/{}@{}", id.0, id.1.replace('+', "%2B")));
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(url) = package["repository"].as_str() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
    component
}

fn sqlite_component(version: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": reference(&("sqlite".to_owned(), version.to_owned())),
        "name": "sqlite",
        "version": version,
        "description": "SQL database engine in C, compiled in",
        "licenses": [{ "expression": "blessing" }],
        "purl": format!("pkg:generic/sqlite@{version}"),
        "cpe": format!("cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*"),
    })
}

fn reference(id: &PackageId) -> String {
    format!("{}@{}", id.0, id.1)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn checksums(lock: &str) -> BTreeMap<PackageId, String> {
    let field = |package: &str, key: &str| {
        let line = package
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|value| value.strip_suffix('"'))
            .map(str::to_owned)
    };
    lock.split("[[package]]")
        .skip(1)
        .filter_map(|package| {
            Some((
                (field(package, "name")?, field(package, "version")?),
                field(package, "checksum")?,
            ))
        })
        .collect()
}

fn sqlite_version(header: &str) -> Option<String> {
    header
        .split_once("#define SQLITE_VERSION ")?
        .1
        .split('"')
        .nth(1)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> PackageId {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn a_cargo_tree_becomes_a_dependency_graph() {
        let tree =
            "0|tool v0.1.0 (/here)|\n1|a v1.0.0|\n2|b v2.0.0|\n1|b v2.0.0| (*)\n1|c v3.0.0+x|\n";
        let (program, depends) = read_tree(tree).unwrap();
        assert_eq!(program, id("tool", "0.1.0"));
        let on = |name: &str, version: &str| depends[&id(name, version)].clone();
        assert_eq!(
            on("tool", "0.1.0"),
            [id("a", "1.0.0"), id("b", "2.0.0"), id("c", "3.0.0+x")].into()
        );
        assert_eq!(on("a", "1.0.0"), [id("b", "2.0.0")].into());
        assert!(on("b", "2.0.0").is_empty());
        assert!(read_tree("").is_err() && read_tree("tool v1\n").is_err());
    }

    #[test]
    fn digests_are_read_from_cargo_lock() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\nchecksum = \"ff\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        assert_eq!(
            checksums(lock),
            [(id("a", "1.0.0"), "ff".to_owned())].into()
        );
        assert_eq!(
            sqlite_version("x\n#define SQLITE_VERSION        \"3.50.1\"\n").as_deref(),
            Some("3.50.1")
        );
    }

    #[test]
    fn the_sbom_lists_linked_crates_but_not_dev_dependencies() {
        let root = crate::root();
        let document = document(&root, "faultlined", "x86_64-unknown-linux-gnu").unwrap();
        let names: Vec<_> = document["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| text(&c["name"]))
            .collect();
        for name in ["faultline-kernel", "rustls", "sqlite", "tokio"] {
            assert!(
                names.iter().any(|n| n == name),
                "{name} is missing: {names:?}"
            );
        }
        for name in ["proptest", "serde_derive", "faultline-testkit", "cc"] {
            assert!(!names.iter().any(|n| n == name), "{name} is not linked");
        }
        let known: BTreeSet<_> = names
            .iter()
            .cloned()
            .chain(["faultlined".to_owned()])
            .collect();
        for entry in document["dependencies"].as_array().unwrap() {
            for on in entry["dependsOn"].as_array().unwrap() {
                let name = text(on).split('@').next().unwrap_or_default().to_owned();
                assert!(known.contains(&name), "{name} is referred to and not there");
            }
        }
    }
}
