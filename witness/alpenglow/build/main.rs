//! Takes what the release keeps private from the source files of its locked crates: macro calls, types, functions, whole
//! files. `src` compiles them with replacements for the clock and for the types of crates that are too large to build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

mod sources;

use serde_json::Value;
use sources::{Part, SOURCES, Source};

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let packages = packages();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut files: Vec<(&str, String)> = Vec::new();
    let mut origins = String::from("pub const ORIGINS: &[(&str, &str)] = &[\n");
    for source in &SOURCES {
        let (version, root) = package(&packages, source.package);
        let (text, line) = read(source, &root);
        origins.push_str(&format!(
            "    ({:?}, \"{} {version} {}:{line}\"),\n",
            source.name, source.package, source.file
        ));
        match files.iter_mut().find(|(name, _)| *name == source.name) {
            Some((_, joined)) => joined.push_str(&text),
            None => files.push((source.name, text)),
        }
    }
    origins.push_str("];\n");
    for (name, text) in files {
        fs::write(out.join(name).with_extension("rs"), text).expect("OUT_DIR is writable");
    }
    fs::write(out.join("origins.rs"), origins).expect("OUT_DIR is writable");
}

/// The locked packages, as `cargo metadata` lists them.
fn packages() -> Value {
    let output = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--offline",
            "--all-features",
        ])
        .args([
            "--filter-platform",
            &env::var("TARGET").expect("cargo sets TARGET"),
        ])
        .output()
        .expect("cargo runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "run `cargo fetch --locked` first: {error}"
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn package(packages: &Value, name: &str) -> (String, PathBuf) {
    let found = packages["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not locked"));
    let text = |field: &str| {
        found[field]
            .as_str()
            .expect("cargo metadata names it")
            .to_owned()
    };
    let manifest = PathBuf::from(text("manifest_path"));
    let root = manifest
        .parent()
        .expect("a manifest is in a folder")
        .to_owned();
    (text("version"), root)
}

fn read(source: &Source, root: &Path) -> (String, usize) {
    let path = root.join(source.file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (begin, end) = match source.part {
        Part::Call(call, content) => {
            let content = content.to_owned();
            let quoted = text
                .find(&format!("\"{content}\""))
                .or_else(|| text.find(&content));
            let content =
                quoted.unwrap_or_else(|| panic!("{content} is not in {}", path.display()));
            let begin = text[..content]
                .rfind(call)
                .expect("the call is before its content");
            (begin, end_of_brackets(&text, begin, &['(', '{']))
        }
        Part::Item(begins) => {
            let found = text.find(begins);
            let begin = found.unwrap_or_else(|| panic!("{begins} is not in {}", path.display()));
            (
                with_derives(&text, begin),
                end_of_brackets(&text, begin, &['{']),
            )
        }
        Part::File => (0, text.len()),
    };
    let line = text[..begin].matches('\n').count() + 1;
    let mut taken: String = text[begin..end]
        .lines()
        .filter(|line| !line.starts_with("//!"))
        .flat_map(|line| [line, "\n"])
        .collect();
    for (from, to) in source.replace {
        assert!(taken.contains(from), "{from} is not in {}", path.display());
        taken = taken.replace(from, to);
    }
    (taken, line)
}

/// The start of the `derive` and the `serde` attributes above an item.
fn with_derives(text: &str, item: usize) -> usize {
    let mut begin = item;
    while let Some(before) = text[..begin].strip_suffix('\n') {
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        if !before[start..].starts_with("#[derive(") {
            break;
        }
        begin = start;
    }
    begin
}

/// The end of the first bracket of these kinds from `begin` on, strings and comments left out.
fn end_of_brackets(text: &str, begin: usize, kinds: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut outer = None;
    let mut at = text[begin..]
        .char_indices()
        .map(|(i, c)| (begin + i, c))
        .peekable();
    while let Some((i, c)) = at.next() {
        match c {
            '"' => {
                while let Some((_, c)) = at.next() {
                    match c {
                        '\\' => drop(at.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if text[i..].starts_with("//") => {
                while at.next_if(|(_, c)| *c != '\n').is_some() {}
            }
            '(' | '{' | '[' => {
                if outer.is_none() && kinds.contains(&c) {
                    outer = Some(depth);
                }
                depth += 1;
            }
            ')' | '}' | ']' => {
                depth -= 1;
                if outer == Some(depth) {
                    return i + c.len_utf8();
                }
            }
            _ => {}
        }
    }
    panic!("the brackets after byte {begin} do not end")
}
