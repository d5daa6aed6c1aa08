//! Every link of the site must lead to a file and an anchor, and nothing is loaded from elsewhere.

use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
pub(super) fn site(site: &Path) -> anyhow::Result<usize> {
    let mut pages = BTreeMap::new();
    for file in files_below(site)? {
        let extension = file
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default()
            .to_owned();
        let text = match extension.as_str() {
            "html" | "css" => {
                fs::read_to_string(&file).with_context(|| file.display().to_string())?
            }
            _ => String::new(),
        };
        let name = file.strip_prefix(site).unwrap_or(&file).to_path_buf();
        pages.insert(name, text);
    }
    let anchors: BTreeMap<&Path, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, text)| {
            (
                name.as_path(),
                attributes(text, "id").map(|(_, id)| id).collect(),
            )
        })
        .collect();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (name, text) in &pages {
        if text.contains("url(http")
            || text.contains("url(\"http")
            || text.contains("@import \"http")
        {
            wrong.push(format!("{}: a style loads from elsewhere", name.display()));
        }
        for (tag, target) in attributes(text, "href").chain(attributes(text, "src")) {
            let target = target.replace("&#x2f;", "/").replace("&amp;", "&");
            if target.contains("://") {
                if tag != "a" {
                    wrong.push(format!(
                        "{}: <{tag}> loads {target} from elsewhere",
                        name.display()
                    ));
                }
                continue;
            }
            if target.starts_with("data:")
                || target.starts_with("mailto:")
                || target.starts_with("javascript:")
            {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = name.parent().unwrap_or(Path::new(""));
            let found = if file.is_empty() {
                Some(name.clone())
            } else {
                super::links::joined(folder, file)
            };
            let leads = found.and_then(|found| {
                let there = anchors.get(found.as_path())?;
                Some(anchor.is_empty() || there.contains(anchor))
            });
            if leads != Some(true) {
                wrong.push(format!("{}: {target} leads nowhere", name.display()));
            }
        }
    }
    if !wrong.is_empty() {
        bail!(
            "the site has links that are wrong:\n  {}",
            wrong.join("\n  ")
        );
    }
    Ok(checked)
}

/// Values of an attribute in double quotes, each with the name of its tag. Text between tags has its `<` escaped.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let start = format!(" {name}=\"");
    text.split('<').skip(1).flat_map(move |tag| {
        let called = tag
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        let inside = tag.split('>').next().unwrap_or_default();
        let value = inside
            .split_once(start.as_str())
            .and_then(|(_, value)| value.split('"').next());
        value
            .filter(|_| !called.is_empty())
            .map(|value| (called, value))
    })
}

fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?)
        } else {
            files.push(path)
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_with_their_tags() {
        let text =
            "<a class=\"x\" href=\"A.html#b\">A</a> href=\"no\" <img src=\"p.png\"></p id=\"q\">";
        assert_eq!(
            attributes(text, "href").collect::<Vec<_>>(),
            [("a", "A.html#b")]
        );
        assert_eq!(
            attributes(text, "src").collect::<Vec<_>>(),
            [("img", "p.png")]
        );
    }
}
