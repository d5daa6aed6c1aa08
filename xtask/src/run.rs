//! Runs programs, reads and writes files, and removes tests from code.

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::TokenStream;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[expect(clippy::disallowed_methods, reason = "xtask runs programs directly")]
pub fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn packages(root: &Path, options: &[&str]) -> Result<Vec<Value>> {
    let mut metadata: Value = serde_json::from_str(&output(
        root,
        "cargo",
        &[&["metadata", "--format-version", "1"], options].concat(),
    )?)?;
    match metadata["packages"].take() {
        Value::Array(packages) if !packages.is_empty() => Ok(packages),
        _ => bail!("cargo metadata reports no packages"),
    }
}

pub fn read(root: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(root.join(file))
        .with_context(|| format!("{} cannot be read", file.display()))
}

pub fn write(root: &Path, file: &Path, text: &str) -> Result<()> {
    fs::write(root.join(file), text)
        .with_context(|| format!("{} cannot be written", file.display()))
}

pub fn files_below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("{} cannot be read", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(unreadable)? {
        let path = folder.join(entry.with_context(unreadable)?.file_name());
        if root.join(&path).is_dir() {
            files.extend(files_below(root, &path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|found| found == extension)
}

const NOT_PRODUCTION_FOLDERS: [&str; 7] = [
    "tests", "benches", "examples", "testkit", "fuzz", "witness", "scripts",
];

pub fn is_production_file(file: &Path) -> bool {
    has_extension(file, "rs")
        && !file.ends_with("tests.rs")
        && !NOT_PRODUCTION_FOLDERS
            .into_iter()
            .any(|folder| file.components().any(|part| part.as_os_str() == folder))
}

/// The lines of a Rust file without top-level items for tests. Ends at a test module with a body.
pub fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            if !line.starts_with("#[cfg(test)]") {
                return Some(line);
            }
            let item = lines.find(|line| !line.starts_with("#["))?;
            if item.starts_with("mod ") && item.ends_with('{') {
                lines = "".lines();
            } else if !item.ends_with([';', '}']) {
                lines.find(|line| !line.starts_with(' ') && line.ends_with([';', '}']))?;
            }
        }
    })
}

pub fn tokens<'a>(lines: impl Iterator<Item = &'a str>) -> Result<TokenStream> {
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    code.parse()
        .map_err(|error| anyhow::anyhow!("not valid Rust: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_items_for_tests_are_left_out_of_production() {
        let text = "#[cfg(test)]\nmod fake;\nmod a;\n#[cfg(test)]\n#[path = \"b.rs\"]\nmod b;\n#[cfg(test)]\nfn f() {\n    g();\n}\n\
                    fn h() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(
            without_tests(text).collect::<Vec<_>>(),
            ["mod a;", "fn h() {}"]
        );
    }
}
