//! Dependencies between packages of the workspace must match the table in ARCHITECTURE.md.

use crate::run::{packages, read};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const PAGE: &str = "ARCHITECTURE.md";
const TABLE_HEAD: &str = "| folder | package | uses | what |\n";

#[derive(Debug, PartialEq)]
pub struct Member {
    pub folder: String,
    package: String,
    uses: BTreeSet<String>,
}

pub fn read_table(root: &Path) -> Result<Vec<Member>> {
    let text = read(root, Path::new(PAGE))?;
    let (_, table) = text
        .split_once(TABLE_HEAD)
        .with_context(|| format!("{PAGE}: no table that begins {TABLE_HEAD:?}"))?;
    table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|row| member(row).with_context(|| format!("{PAGE}: this row is no package: {row}")))
        .collect()
}

/// Parses `| `crates/a` | faultline-a | b, c | ... |`; `nothing` stands for no dependencies.
fn member(row: &str) -> Option<Member> {
    let mut cells = row.trim_matches('|').split('|').map(str::trim);
    let folder = cells.next()?;
    let package = cells.next()?;
    let uses = cells
        .next()?
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

/// Reports dependencies that only the table or only a manifest has. Ignores those for tests.
pub fn check(root: &Path, members: &[Member], violations: &mut Vec<String>) -> Result<()> {
    let packages = packages(root, &["--no-deps", "--offline"])?;
    let mut declared: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for package in &packages {
        let used = package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dependency| dependency["kind"] != "dev" && !dependency["path"].is_null())
            .filter_map(|dependency| dependency["name"].as_str());
        declared.insert(
            package["name"].as_str().unwrap_or_default(),
            used.map(str::to_owned).collect(),
        );
    }
    for member in members {
        let package = &member.package;
        let Some(used) = declared.remove(package.as_str()) else {
            violations.push(format!("{PAGE}: {package} is no package of the workspace"));
            continue;
        };
        for name in used.difference(&member.uses) {
            violations.push(format!(
                "{package} depends on {name}, but {PAGE} does not list {name}"
            ));
        }
        for name in member.uses.difference(&used) {
            violations.push(format!(
                "{PAGE} lists {name} for {package}, which does not depend on {name}"
            ));
        }
    }
    for name in declared.keys() {
        violations.push(format!("{PAGE}: the table of members lacks {name}"));
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
