//! House rules that no compiler knows: the sizes of files, who may depend on whom, words that do not belong in the tree.

use crate::modules;
use crate::pages;
use crate::rules;
use crate::run::{output, read};
use crate::words;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Lines of a file without its tests.
const LONGEST: usize = 400;

/// Package, folder, and on whom it may depend inside the workspace; `testkit` only for tests. In reading order.
const MEMBERS: [(&str, &str, &[&str]); 12] = [
    ("faultline-catalog", "crates/catalog", &[]),
    ("faultline-kernel", "crates/kernel", &[]),
    ("faultline-agave", "crates/agave", &[]),
    ("faultline-follow", "crates/follow", &["faultline-catalog", "faultline-agave"]),
    ("faultline-recording", "crates/recording", &["faultline-catalog"]),
    ("faultline-stats", "crates/stats", &[]),
    ("faultline-isolation", "crates/isolation", &["faultline-kernel"]),
    ("faultline-cli-docs", "crates/cli-docs", &[]),
    (
        "faultlined",
        "daemon",
        &[
            "faultline-catalog",
            "faultline-kernel",
            "faultline-agave",
            "faultline-follow",
            "faultline-recording",
            "faultline-cli-docs",
        ],
    ),
    (
        "faultline",
        "lab",
        &[
            "faultline-catalog",
            "faultline-kernel",
            "faultline-agave",
            "faultline-recording",
            "faultline-stats",
            "faultline-isolation",
            "faultline-cli-docs",
        ],
    ),
    ("faultline-testkit", "crates/testkit", &[]),
    ("xtask", "xtask", &["faultline-catalog"]),
];

/// Text that must not be in any file that git keeps.
const UNWANTED: [&str; 5] = ["/work/", "FIXME", "XXX", "todo!(", "unimplemented!("];

/// Fails with every rule that is broken.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let files = tracked(root)?;
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let text = read(root, file)?;
        sizes(file, &text, &mut broken);
    }
    for file in &files {
        if let Ok(text) = std::fs::read_to_string(root.join(file)) {
            unwanted(file, &text, &mut broken);
        }
    }
    dependencies(root, &mut broken)?;
    pages::check(root, &files, &MEMBERS, &mut broken)?;
    let folders: Vec<&str> = MEMBERS.iter().map(|(_, folder, _)| *folder).collect();
    modules::check(root, &files, &folders, &mut broken)?;
    rules::check(root, &mut broken)?;
    words::check(root, &files, &mut broken)?;
    if broken.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    bail!("{} house rules are broken:\n  {}", broken.len(), broken.join("\n  "));
}

fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let names = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    Ok(names.lines().map(PathBuf::from).filter(|file| root.join(file).is_file()).collect())
}

fn sizes(file: &Path, text: &str, broken: &mut Vec<String>) {
    let is_test = file.components().any(|part| ["tests", "benches", "fuzz"].iter().any(|t| part.as_os_str() == *t));
    if is_test || file.file_stem().is_some_and(|stem| stem == "tests") {
        return;
    }
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
    if lines > LONGEST {
        broken.push(format!("{}: {lines} lines without tests; at most {LONGEST}", file.display()));
    }
}

fn unwanted(file: &Path, text: &str, broken: &mut Vec<String>) {
    // This list, and digests, which spell anything.
    if file.starts_with("xtask/src/tidy.rs") || file.ends_with("package-lock.json") {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = UNWANTED.iter().find(|word| line.contains(**word)) {
            broken.push(format!("{}:{}: {word:?} does not belong here", file.display(), number + 1));
        }
    }
}

fn dependencies(root: &Path, broken: &mut Vec<String>) -> anyhow::Result<()> {
    let metadata = output(root, "cargo", &["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, _, allowed)) = MEMBERS.iter().find(|(member, ..)| *member == name) else {
            broken.push(format!("{name}: not in the table of members; see xtask/src/tidy.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let inside = MEMBERS.iter().any(|(member, ..)| *member == on);
            let for_tests = dependency["kind"] == "dev";
            if inside && !for_tests && !allowed.contains(&on) {
                broken.push(format!("{name} depends on {on}, which the table does not allow"));
            }
        }
    }
    Ok(())
}
