//! Modules of a crate depend on one another in one direction: a cycle among those of its root breaks a house rule.

use crate::run::read;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which modules of the root each of them uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds every cycle in the crates in these folders.
pub(crate) fn check(root: &Path, files: &[PathBuf], folders: &[&str], broken: &mut Vec<String>) -> anyhow::Result<()> {
    for folder in folders {
        let source = Path::new(folder).join("src");
        let mut uses = Uses::new();
        for (module, file) in files.iter().filter_map(|file| Some((module(&source, file)?, file))) {
            let text = read(root, file)?;
            let code: String =
                text.split_inclusive('\n').take_while(|line| !line.starts_with("#[cfg(test)]")).collect();
            let tokens: TokenStream = code.parse().map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
            let used = uses.entry(module).or_default();
            collect(&tokens.into_iter().collect::<Vec<_>>(), used);
        }
        for cycle in cycles(&uses) {
            broken.push(format!("{folder}: these modules use one another in a circle: {}", cycle.join(", ")));
        }
    }
    Ok(())
}

/// The module of the root that a file belongs to; `None` for the root itself, programs, tests and other crates.
fn module(source: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(source).ok()?;
    if inside.extension()? != "rs"
        || inside.ends_with("tests.rs")
        || inside.components().any(|c| c.as_os_str() == "tests")
    {
        return None;
    }
    let first = inside.components().next()?.as_os_str().to_str()?.trim_end_matches(".rs");
    (!["lib", "main", "bin"].contains(&first)).then(|| first.to_owned())
}

/// Adds the first part of every path that begins with `crate::`.
fn collect(tokens: &[TokenTree], used: &mut BTreeSet<String>) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if name == "crate" => match tokens.get(at + 3) {
                Some(TokenTree::Ident(first)) => drop(used.insert(first.to_string())),
                Some(TokenTree::Group(group)) => firsts(group, used),
                _ => {}
            },
            TokenTree::Group(group) => collect(&group.stream().into_iter().collect::<Vec<_>>(), used),
            _ => {}
        }
    }
}

/// The names that begin the parts of `{a::b, c, d::{e, f}}`.
fn firsts(group: &Group, used: &mut BTreeSet<String>) {
    if group.delimiter() != Delimiter::Brace {
        return;
    }
    let mut begins = true;
    for token in group.stream() {
        match token {
            TokenTree::Ident(name) if begins => {
                used.insert(name.to_string());
                begins = false;
            }
            TokenTree::Punct(mark) if mark.as_char() == ',' => begins = true,
            _ => {}
        }
    }
}

/// Groups of modules that reach one another.
fn cycles(uses: &Uses) -> BTreeSet<Vec<String>> {
    let together = |module: &String| -> Vec<String> {
        let reached = reached(uses, module);
        reached
            .into_iter()
            .filter(|other| self::reached(uses, other).contains(module.as_str()))
            .map(str::to_owned)
            .collect()
    };
    uses.keys().map(together).filter(|cycle| cycle.len() > 1).collect()
}

/// The modules that one uses, and those that they use in turn; itself only if one of them uses it.
fn reached<'a>(uses: &'a Uses, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        let next = uses.get(module).into_iter().flatten().map(String::as_str);
        let next: Vec<&str> = next.filter(|next| *next != module && uses.contains_key(*next)).collect();
        open.extend(next.into_iter().filter(|next| seen.insert(*next)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(code: &str) -> Vec<String> {
        let mut used = BTreeSet::new();
        collect(&code.parse::<TokenStream>().unwrap().into_iter().collect::<Vec<_>>(), &mut used);
        used.into_iter().collect()
    }

    #[test]
    fn paths_from_the_root_are_found_wherever_they_stand() {
        assert_eq!(uses("use crate::{a::b, c, d::{e, f}}; fn g() { crate::h::i(super::j) }"), ["a", "c", "d", "h"]);
    }

    #[test]
    fn modules_that_reach_one_another_are_a_cycle_and_others_are_not() {
        let of = |pairs: &[(&str, &[&str])]| -> Uses {
            let set = |to: &[&str]| to.iter().map(|to| (*to).to_owned()).collect();
            pairs.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
        };
        assert_eq!(cycles(&of(&[("a", &["b"]), ("b", &["c", "b"]), ("c", &[])])), BTreeSet::new());
        let circle = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
        assert_eq!(cycles(&circle), BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()]));
    }

    #[test]
    fn a_file_belongs_to_the_module_below_the_root() {
        let of = |file: &str| module(Path::new("daemon/src"), Path::new(file));
        assert_eq!(of("daemon/src/web/tls.rs").as_deref(), Some("web"));
        assert_eq!(of("daemon/src/web.rs").as_deref(), Some("web"));
        let others = ["daemon/src/main.rs", "daemon/src/web/tests.rs", "lab/src/main.rs", "daemon/src/a.toml"];
        assert_eq!(others.map(of), [None, None, None, None]);
    }
}
