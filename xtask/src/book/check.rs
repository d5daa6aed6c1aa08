//! Every link of the site must lead to a file and an anchor, and nothing is loaded from elsewhere.

use crate::run::{files_below, has_extension, read};
use anyhow::{Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub fn site(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    for name in files_below(site, Path::new(""))? {
        let text = if has_extension(&name, "html") || has_extension(&name, "css") {
            read(site, &name)?
        } else {
            String::new()
        };
        pages.insert(name, text);
    }
    let anchors: Anchors<'_> = pages
        .iter()
        .map(|(name, text)| {
            let ids = attributes(text, "id").map(|(_, id)| id);
            (name.as_path(), ids.collect())
        })
        .collect();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for (name, text) in &pages {
        let page = name.display();
        let elsewhere = ["url(http", "url(\"http", "@import \"http"];
        if elsewhere.iter().any(|start| text.contains(start)) {
            wrong.push(format!("{page}: a style loads from elsewhere"));
        }
        for (tag, target) in attributes(text, "href").chain(attributes(text, "src")) {
            let target = target.replace("&#x2f;", "/").replace("&amp;", "&");
            if target.contains("://") {
                if tag != "a" {
                    wrong.push(format!("{page}: <{tag}> loads {target} from elsewhere"));
                }
                continue;
            }
            let schemes = ["data:", "mailto:", "javascript:"];
            if schemes.iter().any(|scheme| target.starts_with(scheme)) {
                continue;
            }
            checked += 1;
            if !leads_somewhere(name, &target, &anchors) {
                wrong.push(format!("{page}: {target} leads nowhere"));
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

/// The anchors of each page.
type Anchors<'a> = BTreeMap<&'a Path, BTreeSet<&'a str>>;

fn leads_somewhere(page: &Path, target: &str, anchors: &Anchors<'_>) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let found = if file.is_empty() {
        Some(page.to_path_buf())
    } else {
        super::links::joined(page.parent().unwrap_or(Path::new("")), file)
    };
    found
        .and_then(|found| anchors.get(found.as_path()))
        .is_some_and(|there| anchor.is_empty() || there.contains(anchor))
}

/// Values of an attribute in double quotes, each with the name of its tag. Text between tags has its `<` escaped.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let start = format!(" {name}=\"");
    text.split('<').skip(1).filter_map(move |tag| {
        let tag_name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        let (_, value) = tag.split('>').next()?.split_once(start.as_str())?;
        let value = value.split('"').next()?;
        (!tag_name.is_empty()).then_some((tag_name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_attributes_are_found_with_their_tags() {
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
