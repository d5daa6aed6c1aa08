//! House rules: sizes of files, dependencies, unwanted words.

use crate::{
    budget, members, metricsql, modules, pages, rules,
    run::{has_extension, output, production, read},
    words,
};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

const MAX_LINES: usize = 500;

/// Not allowed in any file of git.
const UNWANTED: [&str; 5] = ["/work/", "FIXME", "XXX", "todo!(", "unimplemented!("];

pub fn check(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    let mut broken = Vec::new();
    for file in &files {
        // Files that are not text, as pictures are, are skipped.
        let Ok(text) = read(root, file) else { continue };
        if has_extension(file, "rs") {
            sizes(file, &text, &mut broken);
        }
        unwanted(file, &text, &mut broken);
    }
    let members = members::read_table(root)?;
    members::check(root, &members, &mut broken)?;
    pages::check(root, &files, &mut broken)?;
    let folders: Vec<&str> = members
        .iter()
        .map(|member| member.folder.as_str())
        .collect();
    modules::check(root, &files, &folders, &mut broken)?;
    rules::check(root, &mut broken)?;
    metricsql::check(root)?;
    words::check(root, &files, &mut broken)?;
    budget::check(root, &files, &mut broken)?;
    if broken.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    bail!(
        "{} house rules are broken:\n  {}",
        broken.len(),
        broken.join("\n  ")
    );
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let names = output(
        root,
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    Ok(names
        .lines()
        .map(PathBuf::from)
        .filter(|file| root.join(file).is_file())
        .collect())
}

fn excuses_length(line: &str) -> bool {
    line.trim_start().starts_with("#[") && line.contains("clippy::too_many_lines")
}

fn sizes(file: &Path, text: &str, broken: &mut Vec<String>) {
    if text.lines().any(excuses_length) {
        broken.push(format!(
            "{}: a function may not have more lines than clippy allows: split it",
            file.display()
        ));
    }
    let is_test = |name: &&str| file.iter().any(|part| part == *name);
    if ["tests", "benches", "fuzz", "tests.rs"].iter().any(is_test) {
        return;
    }
    let lines = production(text).count();
    if lines > MAX_LINES {
        let name = file.display();
        broken.push(format!(
            "{name}: {lines} lines without tests; limit: {MAX_LINES}"
        ));
    }
}

fn unwanted(file: &Path, text: &str, broken: &mut Vec<String>) {
    // This list itself, and digests, which can contain anything.
    if file.starts_with("xtask/src/tidy.rs") || file.ends_with("package-lock.json") {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = UNWANTED.iter().find(|word| line.contains(**word)) {
            broken.push(format!(
                "{}:{}: {word:?} does not belong here",
                file.display(),
                number + 1
            ));
        }
    }
}
