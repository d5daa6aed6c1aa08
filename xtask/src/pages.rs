//! Checks the documents: names of tests, and text that two files must have in common. `book` checks
//! the links of the site.

use crate::run::{has_extension, read};
use anyhow::Result;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Two pages contain the same quick start, each under its heading. `scripts/guest/readme` runs the
/// lines of the first page in a virtual machine.
const QUICK_START_PAGES: [(&str, &str); 2] = [
    (
        "README.md",
        "### Or Prometheus and Grafana on the same host\n",
    ),
    (
        "docs/INSTALL.md",
        "## From an empty Debian host to dashboards\n",
    ),
];
const QUICK_START_LINES: usize = 10;

const MAX_README_LINES: usize = 150;

const CONFIG_PAGE: &str = "docs/CONFIGURATION.md";
const DEFAULT_CONFIG: &str = "daemon/core/src/config/default.toml";

pub fn check(root: &Path, files: &[PathBuf], violations: &mut Vec<String>) -> Result<()> {
    for file in files.iter().filter(|file| has_extension(file, "md")) {
        check_page(root, file, violations)?;
    }
    let lines = read(root, Path::new("README.md"))?.lines().count();
    if lines > MAX_README_LINES {
        violations.push(format!(
            "README.md: {lines} lines, at most {MAX_README_LINES}: move text to docs/"
        ));
    }
    if !read(root, Path::new(CONFIG_PAGE))?.contains(&read(root, Path::new(DEFAULT_CONFIG))?) {
        violations.push(format!(
            "{CONFIG_PAGE} does not contain the text of {DEFAULT_CONFIG}: copy it"
        ));
    }
    check_quick_start(root, violations)
}

fn check_page(root: &Path, file: &Path, violations: &mut Vec<String>) -> Result<()> {
    let text = read(root, file)?;
    for (source, test) in named_tests(&text) {
        if !read(root, Path::new(source)).is_ok_and(|code| code.contains(&format!("fn {test}("))) {
            violations.push(format!(
                "{}: there is no test {source}::{test}",
                file.display()
            ));
        }
    }
    Ok(())
}

fn check_quick_start(root: &Path, violations: &mut Vec<String>) -> Result<()> {
    let mut blocks = BTreeSet::new();
    for (file, heading) in QUICK_START_PAGES {
        let text = read(root, Path::new(file))?;
        blocks.insert(block_under(&text, heading).unwrap_or_default().to_owned());
    }
    if blocks.len() > 1
        || blocks
            .iter()
            .any(|block| block.lines().count() != QUICK_START_LINES)
    {
        violations.push(format!(
            "these headings need the same {QUICK_START_LINES} lines of shell: {QUICK_START_PAGES:?}"
        ));
    }
    Ok(())
}

fn block_under<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, below) = text.split_once(heading)?;
    let (_, block) = below.split_once("```sh\n")?;
    block.split_once("```").map(|(block, _)| block)
}

fn named_tests(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|name| name.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_by_file_and_function() {
        let text = "held by `daemon/core/src/publish.rs::a_test` and `kernel::Error`";
        assert_eq!(
            named_tests(text).collect::<Vec<_>>(),
            [("daemon/core/src/publish.rs", "a_test")]
        );
    }

    #[test]
    fn only_the_first_code_block_below_a_heading_is_used() {
        let text = "# A\n```sh\nno\n```\n## B\nWords.\n\n```sh\none\ntwo\n```\n```sh\nthree\n```\n";
        assert_eq!(block_under(text, "## B\n"), Some("one\ntwo\n"));
        assert_eq!(block_under(text, "## C\n"), None);
    }
}
