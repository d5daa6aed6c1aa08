//! Fails if modules with the same parent use one another in a cycle.

use crate::run::{is_production_file, read, tokens, without_tests};
use anyhow::{Context, Result};
use itertools::Itertools;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

type ModulePath = Vec<String>;

/// The modules of each parent, each with the siblings that it uses.
type Uses = BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>>;

pub fn check(
    root: &Path,
    files: &[PathBuf],
    folders: &[&str],
    violations: &mut Vec<String>,
) -> Result<()> {
    for folder in folders {
        let source = Path::new(folder).join("src");
        let mut paths_by_module: BTreeMap<ModulePath, Vec<ModulePath>> = BTreeMap::new();
        for (module, file) in files
            .iter()
            .filter_map(|file| Some((module_of_file(&source, file)?, file)))
        {
            let tokens = tokens(without_tests(&read(root, file)?))
                .with_context(|| file.display().to_string())?;
            let paths = paths_by_module.entry(module.clone()).or_default();
            collect_paths(tokens, &module, paths);
        }
        for (parent, uses) in uses_by_parent(&paths_by_module) {
            for cycle in cycles(&uses) {
                let parent: String = parent.iter().map(|part| format!("{part}::")).collect();
                let cycle = cycle.join(", ");
                violations.push(format!(
                    "{folder}: these modules use one another in a cycle: {parent}{{{cycle}}}"
                ));
            }
        }
    }
    Ok(())
}

/// `None` for the root module, programs, tests, and files of other crates.
fn module_of_file(source: &Path, file: &Path) -> Option<ModulePath> {
    let inside = file.strip_prefix(source).ok()?;
    if !is_production_file(inside) {
        return None;
    }
    let parts = inside.with_extension("");
    let parts: Option<ModulePath> = parts
        .iter()
        .map(|part| part.to_str().map(str::to_owned))
        .collect();
    parts.filter(|parts| !["lib", "main", "bin"].contains(&parts[0].as_str()))
}

/// Adds every path that begins with `crate`, `super` or `self`, as a path from the crate's root.
fn collect_paths(tokens: TokenStream, module: &ModulePath, paths: &mut Vec<ModulePath>) {
    let tokens = tokens.into_iter().collect_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(name)
                if ["crate", "super", "self"].iter().any(|root| name == root) =>
            {
                at = read_path(&tokens, at, module.clone(), paths);
                continue;
            }
            TokenTree::Group(group) => collect_paths(group.stream(), module, paths),
            _ => {}
        }
        at += 1;
    }
}

/// Follows the segments from token `at` on, starting in the module `path`, and adds the result to
/// `paths`: one path for `a::b`, two for `{a, b::c}`. Returns the position after the segments.
fn read_path(
    tokens: &[TokenTree],
    mut at: usize,
    mut path: ModulePath,
    paths: &mut Vec<ModulePath>,
) -> usize {
    let is_mark = |token: &TokenTree, wanted| matches!(token, TokenTree::Punct(mark) if mark.as_char() == wanted);
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) => match name.to_string().as_str() {
                "crate" => path.clear(),
                "super" => drop(path.pop()),
                "self" => {}
                segment => path.push(segment.to_owned()),
            },
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inside = group.stream().into_iter().collect_vec();
                let parts = inside.split(|token| is_mark(token, ','));
                for part in parts.filter(|part| !part.is_empty()) {
                    read_path(part, 0, path.clone(), paths);
                }
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        match tokens.get(at..at + 2) {
            Some([a, b]) if is_mark(a, ':') && is_mark(b, ':') => at += 2,
            _ => break,
        }
    }
    paths.push(path);
    at
}

/// A module uses its sibling if one of its files names the sibling or an item in it.
fn uses_by_parent(paths_by_module: &BTreeMap<ModulePath, Vec<ModulePath>>) -> Uses {
    let mut uses = Uses::new();
    for module in paths_by_module.keys() {
        let Some((last, parent)) = module.split_last() else {
            continue;
        };
        uses.entry(parent.to_vec())
            .or_default()
            .entry(last.clone())
            .or_default();
    }
    for (module, paths) in paths_by_module {
        for path in paths {
            let common = module.iter().zip(path).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(common), path.get(common)) else {
                continue;
            };
            let siblings = uses.get_mut(&module[..common]);
            if let Some(used) = siblings
                .filter(|siblings| siblings.contains_key(to))
                .and_then(|siblings| siblings.get_mut(from))
            {
                used.insert(to.clone());
            }
        }
    }
    uses
}

fn cycles(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<&str>> {
    let cycle_of = |module: &String| -> Vec<&str> {
        reachable_from(uses, module)
            .into_iter()
            .filter(|other| reachable_from(uses, other).contains(module.as_str()))
            .collect()
    };
    uses.keys()
        .map(cycle_of)
        .filter(|cycle| cycle.len() > 1)
        .collect()
}

/// The modules that `from` uses, also indirectly; with `from` itself if it is in a cycle.
fn reachable_from<'a>(
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    from: &str,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut unvisited = vec![from.to_owned()];
    while let Some(module) = unvisited.pop() {
        let next = uses.get(&module).into_iter().flatten().map(String::as_str);
        unvisited.extend(
            next.filter(|next| seen.insert(*next))
                .map(str::to_owned)
                .collect_vec(),
        );
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ModulePath {
        text.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn module_paths_are_found_anywhere_in_the_code() {
        let mut paths = Vec::new();
        let code = "use crate::{a::b, c, d::{e, f}}; fn g() { crate::h::i(super::j::k, super::super::l, self::m); use super::{super::n, o}; }";
        collect_paths(code.parse().unwrap(), &path("x::y"), &mut paths);
        let wanted = [
            "a::b", "c", "d::e", "d::f", "h::i", "x::j::k", "l", "x::y::m", "n", "x::o",
        ];
        assert_eq!(paths, wanted.map(path));
    }

    #[test]
    fn mutually_reachable_modules_are_a_cycle() {
        let of = |pairs: &[(&str, &str)]| {
            let mut paths_by_module: BTreeMap<ModulePath, Vec<ModulePath>> = BTreeMap::new();
            for (from, to) in pairs {
                paths_by_module
                    .entry(path(from))
                    .or_default()
                    .push(path(to));
            }
            let uses = uses_by_parent(&paths_by_module);
            uses.into_iter()
                .map(|(parent, uses)| {
                    (
                        parent,
                        cycles(&uses)
                            .into_iter()
                            .flatten()
                            .map(str::to_owned)
                            .collect(),
                    )
                })
                .filter(|(_, cycle): &(ModulePath, Vec<String>)| !cycle.is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[("a", "b"), ("b", "c"), ("b", "b::Type"), ("c", "d")]),
            []
        );
        assert_eq!(
            of(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]),
            [(path(""), path("a::b::c"))]
        );
        assert_eq!(
            of(&[
                ("m", ""),
                ("m::b", ""),
                ("m::a", "m::b::f"),
                ("m::b::c", "m::a")
            ]),
            [(path("m"), path("a::b"))]
        );
        assert_eq!(
            of(&[("m", "m::a"), ("m::a", "m::Type")]),
            [],
            "a parent and its modules may use one another"
        );
    }

    #[test]
    fn a_source_file_belongs_to_the_module_of_its_path() {
        let of = |file: &str| module_of_file(Path::new("daemon/http/src"), Path::new(file));
        assert_eq!(of("daemon/http/src/web/tls.rs"), Some(path("web::tls")));
        assert_eq!(of("daemon/http/src/web.rs"), Some(path("web")));
        let others = [
            "daemon/http/src/main.rs",
            "daemon/http/src/web/tests.rs",
            "lab/report/src/run.rs",
            "daemon/http/src/a.toml",
        ];
        assert_eq!(others.map(of), [None, None, None, None]);
    }
}
