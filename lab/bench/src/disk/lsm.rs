//! RocksDB, Pebble and LevelDB folders.

use super::{
    Database, DatabasePart, Limit,
    manifest::{LevelTable, Version, read},
    merge_smallest,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

const MAX_SMALL_FILE: u64 = 1 << 20;
/// The smallest of the others are merged.
const MAX_PARTS: usize = 120;

pub fn database(path: &Path, relative_path: String, limit: Limit<'_>) -> Database {
    let files = files(path, limit);
    // Unknown if only part of the files was listed.
    let engine = if limit.is_over() {
        "unknown engine".to_owned()
    } else {
        engine(path, &files)
    };
    let mut problems = Vec::new();
    // A node may start a new manifest between two reads.
    let retry = |_| version(path, limit);
    let version = version(path, limit).or_else(retry).or_else(retry);
    let parts = match version {
        Ok(version) => {
            if version.has_incomplete_edit {
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
    let path = if relative_path.is_empty() {
        ".".to_owned()
    } else {
        relative_path
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
    // After the time limit the manifest is not read either.
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
        .and_then(|name| read_small_file(&path.join(name)).ok())
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

fn read_small_file(path: &Path) -> Result<String> {
    ensure!(
        path.symlink_metadata()?.is_file(),
        "{}: is no file",
        path.display()
    );
    let mut text = String::new();
    File::open(path)?
        .take(MAX_SMALL_FILE)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn version(path: &Path, limit: Limit<'_>) -> Result<Version> {
    let manifest = manifest(path, limit)?;
    ensure!(
        manifest.symlink_metadata()?.is_file(),
        "its manifest is no file"
    );
    read(File::open(manifest)?, || !limit.is_over())
}

/// Pebble names the manifest in the name of a marker file, the other engines in `CURRENT`.
fn manifest(path: &Path, limit: Limit<'_>) -> Result<PathBuf> {
    let files = files(path, limit);
    let marked = files
        .keys()
        .filter_map(|name| name.strip_prefix("marker.manifest.")?.split_once('.'));
    let name = match marked.max().map(|(_, name)| name.to_owned()) {
        Some(name) => name,
        None => read_small_file(&path.join("CURRENT"))
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

fn parts(version: &Version, files: &BTreeMap<String, u64>) -> Vec<DatabasePart> {
    let family = |of: u64| match version.families.get(&of) {
        Some(name) => faultline_text::clean(name),
        None if version.families.is_empty() => String::new(),
        None if of == 0 => "default".to_owned(),
        None => format!("column family {of}"),
    };
    let mut levels: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for ((of, _), level_table) in &version.tables {
        let (tables, bytes) = levels.entry((*of, level_table.level)).or_default();
        (*tables, *bytes) = (*tables + 1, *bytes + level_table.bytes);
    }
    let part = |((of, level), (tables, bytes)): ((u64, u64), (u64, u64))| DatabasePart {
        name: family(of),
        level: Some(level),
        files: Some(tables),
        bytes,
    };
    let mut parts: Vec<DatabasePart> = levels.into_iter().map(part).collect();
    if parts.len() > MAX_PARTS {
        merge_smallest(&mut parts, MAX_PARTS);
    }
    parts.extend(unplaced_tables(version.tables.values(), files));
    parts
}

/// Table files that the manifest does not name: to be deleted, or just written.
fn unplaced_tables<'a>(
    level_table: impl Iterator<Item = &'a LevelTable>,
    files: &BTreeMap<String, u64>,
) -> Option<DatabasePart> {
    let known: BTreeSet<u64> = level_table.map(|level_table| level_table.file).collect();
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
    (tables > 0).then(|| DatabasePart {
        name: "in no level".to_owned(),
        level: None,
        files: Some(tables),
        bytes,
    })
}
