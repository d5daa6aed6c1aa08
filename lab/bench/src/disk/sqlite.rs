//! Measures SQLite tables by their pages (`dbstat`).
//!
//! Opens the database as immutable: no locks, no extra files, no WAL content. A change during the
//! read is reported.

use super::{Database, DatabasePart, IsOver, merge_smallest};
use anyhow::{Context, Result, ensure};
use faultline_kernel::FileVersion;
use faultline_recording::{open_immutable, with_suffix};
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::Path,
};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const MAX_PARTS: usize = 60;

pub fn has_sqlite_magic(path: &Path) -> bool {
    let mut head = [0; 16];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && head == *MAGIC
}

pub fn measure_database(path: &Path, relative_path: String, is_over: IsOver<'_>) -> Database {
    let before = FileVersion::of_path(path).ok();
    let mut problems = Vec::new();
    let parts = list_parts(path, is_over).unwrap_or_else(|error| {
        problems.push(format!("its tables are not known: {error:#}"));
        Vec::new()
    });
    if !parts.is_empty() && FileVersion::of_path(path).ok() != before {
        problems.push("it changed while it was read: sizes are approximate".to_owned());
    }
    let wal = fs::metadata(with_suffix(path, "-wal")).map_or(0, |wal| wal.len());
    if wal > 0 && !parts.is_empty() {
        problems.push(format!(
            "the content of its WAL ({}) is not counted in any table",
            faultline_text::bytes(wal)
        ));
    }
    Database {
        path: relative_path,
        engine: "SQLite".to_owned(),
        parts,
        problems,
    }
}

fn list_parts(path: &Path, is_over: IsOver<'_>) -> Result<Vec<DatabasePart>> {
    let database = open_immutable(path)?;
    let mut statement =
        database.prepare("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index'")?;
    let index_tables: BTreeMap<String, String> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let sizes = sum_page_sizes(&database, is_over)?;
    let pragma = |name| {
        database
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
    };
    let (page_bytes, free_pages) = (pragma("page_size")?, pragma("freelist_count")?);
    let part = |name: &str, bytes| DatabasePart {
        name: faultline_text::clean(name),
        level: None,
        files: None,
        bytes,
    };
    let mut parts = Vec::new();
    for (name, bytes) in sizes {
        parts.push(match index_tables.get(&name) {
            None => part(&name, bytes),
            Some(table) => part(&format!("{name} (index of {table})"), bytes),
        });
    }
    merge_smallest(&mut parts, MAX_PARTS);
    if free_pages > 0 {
        parts.push(part("free pages", free_pages * page_bytes));
    }
    Ok(parts)
}

fn sum_page_sizes(database: &Connection, is_over: IsOver<'_>) -> Result<BTreeMap<String, u64>> {
    let mut statement = database
        .prepare("SELECT name, pgsize FROM dbstat")
        .context("dbstat")?;
    let mut rows = statement.query([])?;
    let (mut sizes, mut pages) = (BTreeMap::new(), 0_u64);
    while let Some(row) = rows.next()? {
        pages += 1;
        ensure!(
            !pages.is_multiple_of(64) || !is_over(),
            "reading all of its pages was stopped, or took longer than --data-time"
        );
        let bytes: i64 = row.get(1)?;
        *sizes.entry(row.get(0)?).or_default() += bytes.unsigned_abs();
    }
    Ok(sizes)
}
