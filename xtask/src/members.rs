//! Dependencies between packages of the workspace must match the table in ARCHITECTURE.md.

use crate::run::{output, read};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::path::Path;

const TABLE: (&str, &str) = ("ARCHITECTURE.md", "| folder | package | uses | what |\n");

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) folder: String,
    package: String,
    uses: Vec<String>,
}

pub(crate) fn read_table(root: &Path) -> anyhow::Result<Vec<Member>> {
    let (page, head) = TABLE;
    let text = read(root, Path::new(page))?;
    let (_, table) = text
        .split_once(head)
        .with_context(|| format!("{page}: no table that begins {head:?}"))?;
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| member(row).with_context(|| format!("{page}: this is no member: {row}")))
        .collect()
}

/// `| `crates/a` | faultline-a | b, c | ... |`; `nothing` for no dependencies.
fn member(row: &str) -> Option<Member> {
    let mut cells = row.trim_matches('|').split('|').map(str::trim);
    let (folder, package, uses) = (cells.next()?, cells.next()?, cells.next()?);
    let uses = uses
        .split(", ")
        .filter(|name| *name != "nothing")
        .map(|name| format!("faultline-{name}"))
        .collect();
    Some(Member {
        folder: folder.trim_matches('`').to_owned(),
        package: package.to_owned(),
        uses,
    })
}

/// Adds every dependency that differs from the table, except those for tests.
pub(crate) fn check(
    root: &Path,
    members: &[Member],
    broken: &mut Vec<String>,
) -> anyhow::Result<()> {
    let metadata = output(
        root,
        "cargo",
        &[
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ],
    )?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let used = dependencies
            .filter(|dependency| dependency["kind"] != "dev" && !dependency["path"].is_null());
        let name = package["name"].as_str().unwrap_or_default();
        found.insert(
            name,
            used.filter_map(|dependency| dependency["name"].as_str())
                .collect(),
        );
    }
    ensure!(!found.is_empty(), "cargo metadata names no packages");
    for member in members {
        let Some(used) = found.remove(member.package.as_str()) else {
            broken.push(format!(
                "{}: {} is no package of the workspace",
                TABLE.0, member.package
            ));
            continue;
        };
        for name in used
            .iter()
            .filter(|name| !member.uses.iter().any(|allowed| allowed == *name))
        {
            broken.push(format!(
                "{} depends on {name}: {} does not say so",
                member.package, TABLE.0
            ));
        }
        for name in member
            .uses
            .iter()
            .filter(|name| !used.contains(&name.as_str()))
        {
            broken.push(format!(
                "{} does not depend on {name}, as {} says",
                member.package, TABLE.0
            ));
        }
    }
    for name in found.keys() {
        broken.push(format!("{}: the table of members lacks {name}", TABLE.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_table_row_is_a_member() {
        let of = |uses: &[&str]| Member {
            folder: "crates/a".to_owned(),
            package: "faultline-a".to_owned(),
            uses: uses.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            member("| `crates/a` | faultline-a | nothing | it does |"),
            Some(of(&[]))
        );
        assert_eq!(
            member("| `crates/a` | faultline-a | b, c | it |"),
            Some(of(&["faultline-b", "faultline-c"]))
        );
        assert_eq!(member("| `crates/a` |"), None);
    }
}
