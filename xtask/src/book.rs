//! Builds a site with mdBook from README, `docs` and all linked files, and checks the links of the
//! site.

use crate::{
    rules::files_with_extension,
    run::{files_below, has_extension, output, read},
};
use anyhow::{Context, Result, ensure};
use itertools::Itertools;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write,
    fs,
    path::{Component, Path, PathBuf},
};

/// The links of this page give the order of the site, which begins with `FIRST_PAGE`.
const CONTENTS_PAGE: &str = "docs/README.md";
const FIRST_PAGE: &str = "README.md";

/// `smart-punctuation` would change the `--` of options.
const SETTINGS: &str = r#"[output.html]
no-section-label = true
smart-punctuation = false
input-404 = ""
[output.html.print]
enable = false
"#;

/// Fails if mdBook fails, if no page links to a document, or if a link is broken.
pub fn make(root: &Path, mdbook: &str, version: &str) -> Result<()> {
    let mdbook_root = root.join("target/book-source");
    let site = root.join("target/book");
    for folder in [&mdbook_root, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
    }
    let mut book = Book {
        root,
        source: mdbook_root.join("src"),
        pages: Vec::new(),
        seen: BTreeSet::new(),
    };
    book.collect()?;
    book.check_all_linked()?;
    book.write_page(Path::new("SUMMARY.md"), &summary(&book.pages))?;
    let settings = format!(
        "[book]\ntitle = \"faultline {version}\"\n[build]\nbuild-dir = \"../book\"\n{SETTINGS}"
    );
    fs::write(mdbook_root.join("book.toml"), settings)?;
    output(root, mdbook, &["build", &mdbook_root.to_string_lossy()])?;
    let checked = check_site(&site)?;
    println!(
        "target/book/index.html: {} pages, {checked} working links",
        book.pages.len()
    );
    Ok(())
}

struct Page {
    /// Path in the site, with `index.md` for `README.md`.
    location: PathBuf,
    title: String,
    /// A folder without README.md whose entries this generated page lists.
    listed_folder: Option<PathBuf>,
}

struct Book<'a> {
    root: &'a Path,
    source: PathBuf,
    pages: Vec<Page>,
    seen: BTreeSet<PathBuf>,
}

impl Book<'_> {
    fn collect(&mut self) -> Result<()> {
        let mut queue = VecDeque::from([PathBuf::from(CONTENTS_PAGE), PathBuf::from(FIRST_PAGE)]);
        while let Some(path) = queue.pop_front() {
            if !self.seen.insert(path.clone()) {
                continue;
            }
            let full_path = self.root.join(&path);
            if has_extension(&path, "md") {
                queue.extend(self.add_page(&path)?);
            } else if full_path.join("README.md").is_file() {
                queue.push_back(path.join("README.md"));
            } else if full_path.is_dir() && !full_path.join("index.html").is_file() {
                for entry in self.add_list_page(&path)?.into_iter().rev() {
                    queue.push_front(entry);
                }
            } else {
                copy(&full_path, &self.source.join(&path))?;
            }
        }
        Ok(())
    }

    fn add_page(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        let text = read(self.root, path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut linked = Vec::new();
        let text = rewrite_links(&text, |target| {
            let (file, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
            let file = resolve_link(folder, file)?;
            let full_path = self.root.join(&file);
            if !full_path.exists() {
                return None;
            }
            linked.push(file.clone());
            let location = if full_path.is_dir() {
                let is_html = full_path.join("index.html").is_file();
                file.join(if is_html { "index.html" } else { "index.md" })
            } else {
                location(&file)
            };
            Some(format!("{}{anchor}", relative(folder, &location)))
        });
        let title = title(&text).unwrap_or_else(|| path.display().to_string());
        self.pages.push(Page {
            location: location(path),
            title,
            listed_folder: None,
        });
        self.write_page(&location(path), &text)?;
        Ok(linked)
    }

    fn add_list_page(&mut self, folder: &Path) -> Result<Vec<PathBuf>> {
        let entries =
            fs::read_dir(self.root.join(folder)).with_context(|| folder.display().to_string())?;
        let entries: BTreeSet<_> = entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<std::io::Result<_>>()?;
        let page_title = list_title(folder);
        let mut text = format!("# {page_title}\n\n");
        let mut linked = Vec::new();
        for entry in entries {
            let path = folder.join(&entry);
            let name = entry.to_string_lossy();
            if has_extension(&path, "md") {
                let title = title(&read(self.root, &path)?).unwrap_or_else(|| name.to_string());
                let _ = writeln!(text, "- [{title}]({name})");
            } else if self.root.join(&path).is_dir() {
                let _ = writeln!(text, "- [{name}]({name}/index.md)");
            } else {
                let _ = writeln!(text, "- [{name}]({name})");
            }
            linked.push(path);
        }
        self.pages.push(Page {
            location: folder.join("index.md"),
            title: page_title,
            listed_folder: Some(folder.to_path_buf()),
        });
        self.write_page(&folder.join("index.md"), &text)?;
        Ok(linked)
    }

    fn check_all_linked(&self) -> Result<()> {
        for page in files_with_extension(self.root, "docs", "md")? {
            ensure!(
                self.seen.contains(&page),
                "{}: no page links to it: link to it in {CONTENTS_PAGE}",
                page.display()
            );
        }
        Ok(())
    }

    fn write_page(&self, location: &Path, text: &str) -> Result<()> {
        let file = self.source.join(location);
        fs::create_dir_all(file.parent().unwrap_or(&file))?;
        fs::write(&file, text).with_context(|| file.display().to_string())
    }
}

/// Returns mdBook's table of contents. Pages of a folder are below the page that lists the folder.
fn summary(pages: &[Page]) -> String {
    let mut text = "# Summary\n\n".to_owned();
    let (first, others): (Vec<&Page>, Vec<&Page>) = pages
        .iter()
        .partition(|page| page.location == location(Path::new(FIRST_PAGE)));
    for page in first.into_iter().chain(others) {
        if list_page_of(page, pages).is_none() {
            summary_entry(page, pages, 0, &mut text);
        }
    }
    text
}

fn summary_entry(page: &Page, pages: &[Page], depth: usize, text: &mut String) {
    let _ = writeln!(
        text,
        "{}- [{}]({})",
        "  ".repeat(depth),
        page.title,
        page.location.display()
    );
    for child in pages
        .iter()
        .filter(|child| list_page_of(child, pages).is_some_and(|list| list == page.location))
    {
        summary_entry(child, pages, depth + 1, text);
    }
}

fn list_page_of<'a>(page: &Page, pages: &'a [Page]) -> Option<&'a Path> {
    let in_folder = page
        .listed_folder
        .as_deref()
        .unwrap_or(&page.location)
        .parent()?;
    pages
        .iter()
        .find(|list| list.listed_folder.as_deref() == Some(in_folder))
        .map(|list| list.location.as_path())
}

fn location(path: &Path) -> PathBuf {
    if path.file_name().is_some_and(|name| name == "README.md") {
        path.with_file_name("index.md")
    } else {
        path.to_path_buf()
    }
}

/// `docs/runbooks` gives `Runbooks`, and a folder outside `docs` its path.
fn list_title(folder: &Path) -> String {
    let Ok(name) = folder.strip_prefix("docs") else {
        return folder.display().to_string();
    };
    let name = name.display().to_string();
    let mut letters = name.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

fn title(text: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix("# "))
        .map(|title| title.trim().to_owned())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for name in files_below(from, Path::new(""))? {
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

/// Replaces the links for which `replace` returns a new target. Code blocks have no links.
fn rewrite_links(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut page = String::with_capacity(text.len());
    for (number, block) in text.split("```").enumerate() {
        if number > 0 {
            page.push_str("```");
        }
        let is_code = number % 2 == 1;
        let mut parts = block.split("](");
        page.push_str(parts.next().unwrap_or_default());
        for part in parts {
            page.push_str("](");
            let (target, after) = part.split_at(part.find(')').unwrap_or(0));
            let is_link = !is_code
                && !target.is_empty()
                && !target.starts_with('#')
                && !target.contains(['\n', ' ', ':']);
            match is_link.then(|| replace(target)).flatten() {
                Some(new) => page.push_str(&new),
                None => page.push_str(target),
            }
            page.push_str(after);
        }
    }
    page
}

/// Returns the path from the root of the tree, for a link of a page in `folder`. `None` if the
/// target is outside the tree.
fn resolve_link(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

fn relative(folder: &Path, file: &Path) -> String {
    let shared = folder
        .components()
        .zip(file.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = folder.components().skip(shared).map(|_| "..".to_owned());
    let down = file
        .components()
        .skip(shared)
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).join("/")
}

/// Counts the links. Fails if a file or anchor of a link is missing, or if a page loads from
/// another site.
fn check_site(site: &Path) -> Result<usize> {
    let mut files = BTreeMap::new();
    for name in files_below(site, Path::new(""))? {
        let text = if has_extension(&name, "html") || has_extension(&name, "css") {
            read(site, &name)?
        } else {
            String::new()
        };
        files.insert(name, text);
    }
    let anchors: Anchors<'_> = files
        .iter()
        .map(|(name, text)| {
            (
                name.as_path(),
                attributes(text, "id").map(|(_, id)| id).collect(),
            )
        })
        .collect();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (name, text) in &files {
        let page = name.display();
        if ["url(http", "url(\"http", "@import \"http"]
            .iter()
            .any(|start| text.contains(start))
        {
            wrong.push(format!("{page}: a style loads from another site"));
        }
        for (tag, target) in attributes(text, "href").chain(attributes(text, "src")) {
            let target = target.replace("&#x2f;", "/").replace("&amp;", "&");
            if target.contains("://") {
                if tag != "a" {
                    wrong.push(format!("{page}: <{tag}> loads {target} from another site"));
                }
                continue;
            }
            if ["data:", "mailto:", "javascript:"]
                .iter()
                .any(|scheme| target.starts_with(scheme))
            {
                continue;
            }
            checked += 1;
            if !target_exists(name, &target, &anchors) {
                wrong.push(format!("{page}: the link {target} is broken"));
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "the site has errors:\n  {}",
        wrong.join("\n  ")
    );
    Ok(checked)
}

type Anchors<'a> = BTreeMap<&'a Path, BTreeSet<&'a str>>;

fn target_exists(page: &Path, target: &str, anchors: &Anchors<'_>) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        Some(page.to_path_buf())
    } else {
        resolve_link(page.parent().unwrap_or(Path::new("")), file)
    };
    path.and_then(|path| anchors.get(path.as_path()))
        .is_some_and(|ids| anchor.is_empty() || ids.contains(anchor))
}

/// Pairs of a tag's name and the value of its attribute `name`. mdBook writes values in double
/// quotes and escapes each `<` between tags.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let start = format!(" {name}=\"");
    text.split('<').skip(1).filter_map(move |tag| {
        let tag_name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        let (_, value) = tag.split('>').next()?.split_once(start.as_str())?;
        (!tag_name.is_empty()).then_some((tag_name, value.split('"').next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(location: &str, listed_folder: Option<&str>) -> Page {
        Page {
            location: location.into(),
            title: location.to_uppercase(),
            listed_folder: listed_folder.map(PathBuf::from),
        }
    }

    #[test]
    fn a_folder_of_documents_becomes_a_chapter() {
        assert_eq!(list_title(Path::new("docs/runbooks")), "Runbooks");
        assert_eq!(
            list_title(Path::new("systemd/drop-ins")),
            "systemd/drop-ins"
        );
    }

    #[test]
    fn the_summary_starts_with_the_first_page_and_nests_folders() {
        let pages = [
            page("docs/A.md", None),
            page("index.md", None),
            page("docs/b/1.md", None),
            page("docs/b/index.md", Some("docs/b")),
        ];
        let expected = "# Summary\n\n- [INDEX.MD](index.md)\n- [DOCS/A.MD](docs/A.md)\n\
                        - [DOCS/B/INDEX.MD](docs/b/index.md)\n  - [DOCS/B/1.MD](docs/b/1.md)\n";
        assert_eq!(summary(&pages), expected);
    }

    #[test]
    fn links_into_the_source_tree_are_rewritten_except_in_code() {
        let text = "[a](A.md) ![p](p.png)\n```sh\n[b](B.md)\n```\n[c](https://x.org) [d](#here) [e](gone.md#part)";
        let replace = |target: &str| (target != "gone.md#part").then(|| format!("<{target}>"));
        let expected = "[a](<A.md>) ![p](<p.png>)\n```sh\n[b](B.md)\n```\n[c](https://x.org) [d](#here) [e](gone.md#part)";
        assert_eq!(rewrite_links(text, replace), expected);
    }

    #[test]
    fn link_targets_are_resolved_from_the_folder_of_their_page() {
        assert_eq!(
            resolve_link(Path::new("docs/runbooks"), "../A.md"),
            Some("docs/A.md".into())
        );
        assert_eq!(resolve_link(Path::new("docs"), "../../A.md"), None);
        assert_eq!(
            resolve_link(Path::new(""), "docs/decisions/"),
            Some("docs/decisions".into())
        );
    }

    #[test]
    fn a_relative_link_ascends_as_far_as_needed() {
        assert_eq!(
            relative(Path::new("docs/runbooks"), Path::new("docs/A.md")),
            "../A.md"
        );
        assert_eq!(relative(Path::new(""), Path::new("docs/A.md")), "docs/A.md");
        assert_eq!(
            relative(Path::new("docs"), Path::new("index.md")),
            "../index.md"
        );
    }

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
