//! RocksDB, Pebble and LevelDB folders.

use super::manifest::{LevelTable, Version, read};
use super::{Database, Limit, Part, merge_smallest};
use anyhow::{Context as _, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

const SMALL: u64 = 1 << 20;
/// The smallest of the others are merged.
const MOST_PARTS: usize = 120;

pub(super) fn database(path: &Path, within: String, limit: Limit<'_>) -> Database {
    let files = files(path, limit);
    // Unknown if only part of the files was listed.
    let engine = if limit.is_over() {
        "unknown engine".to_owned()
    } else {
        engine(path, &files)
    };
    let mut problems = Vec::new();
    // A node may start a new manifest between two reads.
    let again = |_| version(path, limit);
    let version = version(path, limit).or_else(again).or_else(again);
    let parts = match version {
        Ok(version) => {
            if version.torn {
                problems.push(
                    "its manifest was being written: the last change is not counted".to_owned(),
                );
            }
            parts(&version, &files)
        }
        Err(error) => {
            problems.push(format!("its levels are not known: {error:#}"));
            Vec::new()
        }
    };
    let path = if within.is_empty() {
        ".".to_owned()
    } else {
        within
    };
    Database {
        path,
        engine,
        parts,
        problems,
    }
}

fn files(path: &Path, limit: Limit<'_>) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().to_str()?.to_owned(), metadata.len()))
    };
    // Reading the manifest would also take too long.
    entries
        .take_while(|_| !limit.is_over())
        .filter_map(file)
        .collect()
}

/// From the options file; LevelDB has none.
fn engine(path: &Path, files: &BTreeMap<String, u64>) -> String {
    let newest = files
        .keys()
        .rfind(|name| name.starts_with("OPTIONS-") && !name.ends_with("dbtmp"));
    let options = newest
        .and_then(|name| small(&path.join(name)).ok())
        .unwrap_or_default();
    let of = |key: &str| {
        options
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.trim().strip_prefix('='))
    };
    match (of("rocksdb_version"), of("pebble_version")) {
        (_, Some(_)) => "Pebble".to_owned(),
        (Some(version), None) => format!("RocksDB {}", faultline_text::clean(version.trim())),
        _ if newest.is_some() => "unknown engine".to_owned(),
        _ => "LevelDB".to_owned(),
    }
}

fn small(path: &Path) -> anyhow::Result<String> {
    ensure!(
        path.symlink_metadata()?.is_file(),
        "{}: is no file",
        path.display()
    );
    let mut text = String::new();
    File::open(path)?.take(SMALL).read_to_string(&mut text)?;
    Ok(text)
}

fn version(path: &Path, limit: Limit<'_>) -> anyhow::Result<Version> {
    let manifest = manifest(path, limit)?;
    ensure!(
        manifest.symlink_metadata()?.is_file(),
        "its manifest is no file"
    );
    read(File::open(manifest)?, || !limit.is_over())
}

/// Pebble names it in the name of a marker file, the others in `CURRENT`.
fn manifest(path: &Path, limit: Limit<'_>) -> anyhow::Result<PathBuf> {
    let files = files(path, limit);
    let marked = files
        .keys()
        .filter_map(|name| name.strip_prefix("marker.manifest.")?.split_once('.'));
    let name = match marked.max().map(|(_, name)| name.to_owned()) {
        Some(name) => name,
        None => small(&path.join("CURRENT"))
            .context("CURRENT")?
            .trim()
            .to_owned(),
    };
    ensure!(
        name.starts_with("MANIFEST-") && files.contains_key(&name),
        "it does not name its manifest"
    );
    Ok(path.join(name))
}

fn parts(version: &Version, files: &BTreeMap<String, u64>) -> Vec<Part> {
    let family = |of: u64| match version.families.get(&of) {
        Some(name) => faultline_text::clean(name),
        None if version.families.is_empty() => String::new(),
        None => {
            if of == 0 {
                "default".to_owned()
            } else {
                format!("column family {of}")
            }
        }
    };
    let mut levels: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for ((of, _), placed) in &version.tables {
        let (tables, bytes) = levels.entry((*of, placed.level)).or_default();
        (*tables, *bytes) = (*tables + 1, *bytes + placed.bytes);
    }
    let part = |((of, level), (tables, bytes)): ((u64, u64), (u64, u64))| Part {
        name: family(of),
        level: Some(level),
        files: Some(tables),
        bytes,
    };
    let mut parts: Vec<Part> = levels.into_iter().map(part).collect();
    if parts.len() > MOST_PARTS {
        merge_smallest(&mut parts, MOST_PARTS);
    }
    parts.extend(in_no_level(version.tables.values(), files));
    parts
}

/// Pending deletion, or just written.
fn in_no_level<'a>(
    placed: impl Iterator<Item = &'a LevelTable>,
    files: &BTreeMap<String, u64>,
) -> Option<Part> {
    let known: BTreeSet<u64> = placed.map(|placed| placed.file).collect();
    let number = |name: &str| {
        let (number, _) = name
            .split_once('.')
            .filter(|(_, end)| ["sst", "ldb"].contains(end))?;
        number.parse::<u64>().ok()
    };
    let others = files
        .iter()
        .filter(|(name, _)| number(name).is_some_and(|number| !known.contains(&number)));
    let (tables, bytes) = others.fold((0, 0), |(tables, sum), (_, bytes)| {
        (tables + 1, sum + bytes)
    });
    (tables > 0).then(|| Part {
        name: "in no level".to_owned(),
        level: None,
        files: Some(tables),
        bytes,
    })
}
