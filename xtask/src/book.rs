//! Builds a site with mdBook from README, `docs` and all that they link to, in the order of
//! `docs/README.md`, and checks its links.

mod check;
mod links;

use crate::{
    rules::files,
    run::{files_below, has_extension, output, read},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeSet, VecDeque},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The links of this page order the site, which begins with `FIRST_PAGE`.
const MAP_PAGE: &str = "docs/README.md";
const FIRST_PAGE: &str = "README.md";

/// Keeps hyphens as they are, because options have two. No print page, and no error page for
/// servers.
const SETTINGS: &str = r#"[output.html]
no-section-label = true
smart-punctuation = false
input-404 = ""
[output.html.print]
enable = false
"#;

/// Builds and checks `target/book`. Fails for a page without links to it, a broken link, and errors
/// of mdBook.
pub fn make(root: &Path, mdbook: &str, version: &str) -> Result<()> {
    let stage = root.join("target/book-source");
    let site = root.join("target/book");
    for folder in [&stage, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
    }
    let mut book = Book {
        root,
        source: stage.join("src"),
        pages: Vec::new(),
        seen: BTreeSet::new(),
    };
    book.collect()?;
    book.is_complete()?;
    book.put(Path::new("SUMMARY.md"), &summary(&book.pages))?;
    let title = format!(
        "[book]\ntitle = \"faultline {version}\"\n[build]\nbuild-dir = \"../book\"\n{SETTINGS}"
    );
    fs::write(stage.join("book.toml"), title)?;
    output(root, mdbook, &["build", &stage.to_string_lossy()])?;
    let checked = check::site(&site)?;
    println!(
        "target/book/index.html: {} pages, {checked} links lead somewhere",
        book.pages.len()
    );
    Ok(())
}

struct Page {
    /// Path in the site, with `index.md` for `README.md`.
    location: PathBuf,
    title: String,
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
        let mut waiting = VecDeque::from([PathBuf::from(MAP_PAGE), PathBuf::from(FIRST_PAGE)]);
        while let Some(path) = waiting.pop_front() {
            if !self.seen.insert(path.clone()) {
                continue;
            }
            let found = self.root.join(&path);
            if has_extension(&path, "md") {
                waiting.extend(self.page(&path)?);
            } else if found.join("README.md").is_file() {
                waiting.push_back(path.join("README.md"));
            } else if found.is_dir() && !found.join("index.html").is_file() {
                for entry in self.list(&path)?.into_iter().rev() {
                    waiting.push_front(entry);
                }
            } else {
                copy(&found, &self.source.join(&path))?;
            }
        }
        Ok(())
    }

    fn page(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        let text = read(self.root, path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut linked = Vec::new();
        let text = links::rewrite_links(&text, |target| {
            let (file, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
            let file = links::joined(folder, file)?;
            let found = self.root.join(&file);
            if !found.exists() {
                return None;
            }
            linked.push(file.clone());
            let location = if found.is_dir() {
                let is_html = found.join("index.html").is_file();
                file.join(if is_html { "index.html" } else { "index.md" })
            } else {
                location(&file)
            };
            Some(format!("{}{anchor}", links::relative(folder, &location)))
        });
        let title = title(&text).unwrap_or_else(|| path.display().to_string());
        self.pages.push(Page {
            location: location(path),
            title,
            listed_folder: None,
        });
        self.put(&location(path), &text)?;
        Ok(linked)
    }

    fn list(&mut self, folder: &Path) -> Result<Vec<PathBuf>> {
        let entries =
            fs::read_dir(self.root.join(folder)).with_context(|| folder.display().to_string())?;
        let entries: BTreeSet<_> = entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<std::io::Result<_>>()?;
        let name = list_title(folder);
        let mut text = format!("# {name}\n\n");
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
            title: name,
            listed_folder: Some(folder.to_path_buf()),
        });
        self.put(&folder.join("index.md"), &text)?;
        Ok(linked)
    }

    fn is_complete(&self) -> Result<()> {
        for page in files(self.root, "docs", "md")? {
            if !self.seen.contains(&page) {
                bail!(
                    "{}: no page links to it: put it into {MAP_PAGE}",
                    page.display()
                );
            }
        }
        Ok(())
    }

    fn put(&self, location: &Path, text: &str) -> Result<()> {
        let file = self.source.join(location);
        fs::create_dir_all(file.parent().unwrap_or(&file))?;
        fs::write(&file, text).with_context(|| file.display().to_string())
    }
}

/// mdBook's table of contents: pages of a listed folder are below its list.
fn summary(pages: &[Page]) -> String {
    let mut text = "# Summary\n\n".to_owned();
    let (first, others): (Vec<&Page>, Vec<&Page>) = pages
        .iter()
        .partition(|page| page.location == location(Path::new(FIRST_PAGE)));
    for page in first.into_iter().chain(others) {
        if list_of(page, pages).is_none() {
            entry(page, pages, 0, &mut text);
        }
    }
    text
}

fn entry(page: &Page, pages: &[Page], depth: usize, text: &mut String) {
    let _ = writeln!(
        text,
        "{}- [{}]({})",
        "  ".repeat(depth),
        page.title,
        page.location.display()
    );
    for below in pages
        .iter()
        .filter(|below| list_of(below, pages).is_some_and(|list| list == page.location))
    {
        entry(below, pages, depth + 1, text);
    }
}

fn list_of<'a>(page: &Page, pages: &'a [Page]) -> Option<&'a Path> {
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

/// Folders of documents are chapters; others keep their names.
fn list_title(folder: &Path) -> String {
    let Ok(name) = folder.strip_prefix("docs") else {
        return folder.display().to_string();
    };
    let name = name.display().to_string();
    let mut letters = name.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
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
}
