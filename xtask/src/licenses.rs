//! Every package that a build can pull in has a licence that `deny.toml` allows. Offline, from `cargo metadata`.

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// Fails with every package whose licence is not allowed.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let deny = crate::run::read(root, Path::new("deny.toml"))?;
    let allowed = allowed(&deny).context("deny.toml has no list `allow = [...]`")?;
    let metadata = crate::run::output(root, "cargo", &["metadata", "--locked", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let mut broken = Vec::new();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("(none)");
        *counted.entry(licence).or_default() += 1;
        if !is_allowed(licence, &allowed) {
            broken.push(format!("{} {}: {licence}", text(&package["name"]), text(&package["version"])));
        }
    }
    if !broken.is_empty() {
        bail!("{} packages have a licence that deny.toml does not allow:\n  {}", broken.len(), broken.join("\n  "));
    }
    for (licence, packages) in counted {
        println!("{packages:5}  {licence}");
    }
    Ok(())
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// The strings of the first list called `allow`.
fn allowed(deny: &str) -> Option<Vec<&str>> {
    let (_, list) = deny.split_once("\nallow = [")?;
    let (list, _) = list.split_once(']')?;
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    Some(lines.flat_map(|line| line.split('"').skip(1).step_by(2)).collect())
}

/// Whether an SPDX expression can be met with these licences. `A/B`, as older packages write it, is `A OR B`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        met |= all(rest, allowed);
    }
    met
}

fn all(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let met = any(rest, allowed);
            if let [")", after @ ..] = *rest {
                *rest = after;
            }
            met
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{name} WITH {exception}").as_str())
        }
        [name, after @ ..] => {
            *rest = after;
            allowed.contains(name)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: [&str; 3] = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn one_of_several_is_enough_and_all_of_several_are_needed() {
        for fine in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(fine, &ALLOWED), "{fine}");
        }
        for wrong in
            ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(none)", "", "GPL-3.0 OR MIT AND BSD-3-Clause", "MIT ISC"]
        {
            assert!(!is_allowed(wrong, &ALLOWED), "{wrong}");
        }
    }

    #[test]
    fn the_list_is_read_without_its_comments() {
        let deny = "[licenses]\nallow = [\n  \"MIT\", # \"GPL\"\n  \"ISC\",\n]\nother = [\"BSD\"]\n";
        assert_eq!(allowed(deny), Some(vec!["MIT", "ISC"]));
        assert_eq!(allowed("[licenses]\n"), None);
    }
}
