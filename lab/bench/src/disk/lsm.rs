//! RocksDB, Pebble and LevelDB folders.

use super::{
    Database, DatabasePart, Limit,
    manifest::{self, Version},
    merge_smallest,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read as _,
    path::Path,
};

const MAX_SMALL_FILE: u64 = 1 << 20;
const MAX_PARTS: usize = 120;

pub fn database(path: &Path, relative_path: String, limit: Limit<'_>) -> Database {
    let files = files(path, limit);
    // Unknown if only part of the files was listed.
    let engine = if limit.is_over() {
        "unknown engine".to_owned()
    } else {
        engine(path, &files)
    };
    let mut database = Database {
        path: relative_path,
        engine,
        parts: Vec::new(),
        problems: Vec::new(),
    };
    if database.path.is_empty() {
        database.path.push('.');
    }
    // A node may start a new manifest between two reads.
    let retry = |_| version(path, limit);
    match version(path, limit).or_else(retry).or_else(retry) {
        Ok(version) => {
            database.parts = parts(&version, &files);
            if version.has_incomplete_edit {
                database.problems.push(
                    "its manifest was being written: the last change is not counted".to_owned(),
                );
            }
        }
        Err(error) => database
            .problems
            .push(format!("its levels are not known: {error:#}")),
    }
    database
}

fn files(path: &Path, limit: Limit<'_>) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .take_while(|_| !limit.is_over())
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.file_name().into_string().ok()?, metadata.len()))
        })
        .collect()
}

/// From the options file; LevelDB has none.
fn engine(path: &Path, files: &BTreeMap<String, u64>) -> String {
    let newest = files
        .keys()
        .rfind(|name| name.starts_with("OPTIONS-") && !name.ends_with("dbtmp"));
    let Some(newest) = newest else {
        return "LevelDB".to_owned();
    };
    let options = read_small_file(&path.join(newest)).unwrap_or_default();
    let option = |key: &str| {
        options
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.trim().strip_prefix('='))
    };
    match (option("rocksdb_version"), option("pebble_version")) {
        (_, Some(_)) => "Pebble".to_owned(),
        (Some(version), None) => format!("RocksDB {}", faultline_text::clean(version.trim())),
        _ => "unknown engine".to_owned(),
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
    let files = files(path, limit);
    // Pebble names the manifest in the name of a marker file, the other engines in `CURRENT`.
    let marked = files
        .keys()
        .filter_map(|name| name.strip_prefix("marker.manifest.")?.split_once('.'));
    let name = match marked.max() {
        Some((_, name)) => name.to_owned(),
        None => read_small_file(&path.join("CURRENT"))
            .context("CURRENT")?
            .trim()
            .to_owned(),
    };
    ensure!(
        name.starts_with("MANIFEST-") && files.contains_key(&name),
        "it does not name its manifest"
    );
    let manifest = path.join(name);
    ensure!(
        manifest.symlink_metadata()?.is_file(),
        "its manifest is no file"
    );
    manifest::read(File::open(manifest)?, || !limit.is_over())
}

fn parts(version: &Version, files: &BTreeMap<String, u64>) -> Vec<DatabasePart> {
    let family_name = |family: u64| match version.families.get(&family) {
        Some(name) => faultline_text::clean(name),
        None if version.families.is_empty() => String::new(),
        None if family == 0 => "default".to_owned(),
        None => format!("column family {family}"),
    };
    // Tables and bytes by family and level.
    let mut levels: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for ((family, _), table) in &version.tables {
        let (tables, bytes) = levels.entry((*family, table.level)).or_default();
        *tables += 1;
        *bytes += table.bytes;
    }
    let mut parts = Vec::new();
    for ((family, level), (tables, bytes)) in levels {
        parts.push(DatabasePart {
            name: family_name(family),
            level: Some(level),
            files: Some(tables),
            bytes,
        });
    }
    if parts.len() > MAX_PARTS {
        merge_smallest(&mut parts, MAX_PARTS);
    }
    parts.extend(unplaced_tables(version, files));
    parts
}

/// Table files that the manifest does not name: to be deleted, or just written.
fn unplaced_tables(version: &Version, files: &BTreeMap<String, u64>) -> Option<DatabasePart> {
    let placed: BTreeSet<u64> = version.tables.values().map(|table| table.file).collect();
    let is_unplaced = |name: &str| {
        name.split_once('.').is_some_and(|(number, extension)| {
            ["sst", "ldb"].contains(&extension)
                && number
                    .parse::<u64>()
                    .is_ok_and(|number| !placed.contains(&number))
        })
    };
    let unplaced = files.iter().filter(|(name, _)| is_unplaced(name));
    let (tables, bytes) = unplaced.fold((0, 0), |(tables, sum), (_, bytes)| {
        (tables + 1, sum + bytes)
    });
    (tables > 0).then(|| DatabasePart {
        name: "in no level".to_owned(),
        level: None,
        files: Some(tables),
        bytes,
    })
}
