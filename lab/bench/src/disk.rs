//! Measures a node's data folder by file type, SQLite table, and level of RocksDB, Pebble and
//! LevelDB.
//!
//! Read-only, with a time limit, without following links. Databases that opening could lock or
//! repair are read as files.

mod kinds;
mod lsm;
mod manifest;
mod show;
mod sqlite;

pub use show::{blocks, text};

use anyhow::{Context as _, Result, ensure};
use faultline_common::clock;
use kinds::FileKinds;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// Maximum entries; the size of a larger folder is unknown.
const MAX_ENTRIES: u64 = 4_000_000;
const MAX_DATABASES: usize = 100;
/// The unit of `st_blocks` on every file system.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Space {
    files: u64,
    bytes: u64,
    /// Space on disk, which differs for sparse files and partly filled blocks.
    allocated: u64,
}

impl Space {
    fn add(&mut self, other: Space) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.allocated += other.allocated;
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DatabasePart {
    /// A table, an index or a column family; empty if there is only one.
    name: String,
    /// `None` without levels.
    level: Option<u64>,
    /// `None` in a single-file database.
    files: Option<u64>,
    bytes: u64,
}

impl DatabasePart {
    fn shown(&self) -> &str {
        if self.name.is_empty() {
            "all"
        } else {
            &self.name
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Database {
    path: String,
    engine: String,
    parts: Vec<DatabasePart>,
    problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    node: String,
    folder: String,
    /// `None` if not counted completely.
    total: Option<Space>,
    kinds: Vec<(String, Space)>,
    databases: Vec<Database>,
    problems: Vec<String>,
}

pub fn folder(path: &Path) -> Result<PathBuf> {
    let named = || format!("--data {}", path.display());
    let found = path.canonicalize().with_context(named)?;
    ensure!(found.is_dir(), "{}: is no folder", named());
    Ok(found)
}

/// Keeps the `most` largest parts and merges the others into one.
fn merge_smallest(parts: &mut Vec<DatabasePart>, most: usize) {
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    if parts.len() > most {
        let others = parts.split_off(most);
        parts.push(DatabasePart {
            name: format!("{} smaller ones", others.len()),
            level: None,
            files: others.iter().map(|part| part.files).sum(),
            bytes: others.iter().map(|part| part.bytes).sum(),
        });
    }
}

#[derive(Clone, Copy)]
struct Limit<'a> {
    until: Duration,
    stop: &'a dyn Fn() -> bool,
}

impl Limit<'_> {
    fn is_over(self) -> bool {
        clock::uptime() > self.until || (self.stop)()
    }
}

/// Stops after `time_limit`, or if `stop` returns true.
pub fn measure(
    node: &str,
    folder: &Path,
    time_limit: Duration,
    stop: &dyn Fn() -> bool,
) -> DiskUsage {
    let until = clock::uptime() + time_limit;
    let mut walk = Walk::new(folder, Limit { until, stop });
    let is_complete = walk.all();
    let mut databases: Vec<Database> = Vec::new();
    walk.found.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, read) in walk.found.iter().take(MAX_DATABASES) {
        let relative_path = path
            .strip_prefix(folder)
            .unwrap_or(path)
            .display()
            .to_string();
        databases.push(read(path, relative_path, walk.limit));
    }
    if walk.found.len() > MAX_DATABASES {
        let left_out = walk.found.len() - MAX_DATABASES;
        walk.problems
            .push(format!("{left_out} more databases were not looked into"));
    }
    DiskUsage {
        node: node.to_owned(),
        folder: folder.display().to_string(),
        total: is_complete.then(|| walk.kinds.total()),
        kinds: walk.kinds.largest_first(),
        databases,
        problems: walk.problems,
    }
}

/// Reads the database at the path. The text is the path to show.
type DatabaseReader = fn(&Path, String, Limit<'_>) -> Database;

struct Walk<'a> {
    root: &'a Path,
    limit: Limit<'a>,
    kinds: FileKinds,
    found: Vec<(PathBuf, DatabaseReader)>,
    /// Counts files with several hard links once.
    linked: BTreeSet<(u64, u64)>,
    entries: u64,
    symbolic: u64,
    unreadable: u64,
    problems: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, limit: Limit<'a>) -> Walk<'a> {
        Walk {
            root,
            limit,
            kinds: FileKinds::default(),
            found: Vec::new(),
            linked: BTreeSet::new(),
            entries: 0,
            symbolic: 0,
            unreadable: 0,
            problems: Vec::new(),
        }
    }

    fn all(&mut self) -> bool {
        let mut open = vec![self.root.to_owned()];
        let mut ended = None;
        // If the root is unreadable, the size is unknown.
        self.unreadable += u64::from(!self.root.is_dir());
        'folders: while let Some(folder) = open.pop() {
            let Some(entries) = self.readable_or_count(fs::read_dir(&folder)) else {
                continue;
            };
            let mut lsm = false;
            for entry in entries {
                self.entries += 1;
                if self.entries > MAX_ENTRIES {
                    ended = Some(format!("it has more than {MAX_ENTRIES} files"));
                } else if self.entries.is_multiple_of(256) && self.limit.is_over() {
                    ended = Some("it could not be counted in time (--data-time)".to_owned());
                }
                if ended.is_some() {
                    break 'folders;
                }
                let entry_result = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
                let Some((path, metadata)) = self.readable_or_count(entry_result) else {
                    continue;
                };
                lsm |= self.entry(path, &metadata, &mut open);
            }
            if lsm {
                self.found.push((folder, lsm::database));
            }
        }
        let mut add_problem = |count: u64, what: &str| {
            if count > 0 {
                self.problems.push(format!("{count} {what}"));
            }
        };
        add_problem(self.symbolic, "symbolic links were not followed");
        add_problem(
            self.unreadable,
            "files and folders could not be read, and are not counted",
        );
        let is_complete = ended.is_none() && self.unreadable == 0;
        self.problems
            .extend(ended.map(|why| format!("the folder's size is not known: {why}")));
        is_complete
    }

    /// `None` if the file was deleted meanwhile or is unreadable; only the latter is counted.
    fn readable_or_count<T>(&mut self, entry_result: io::Result<T>) -> Option<T> {
        let unreadable = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        self.unreadable += u64::from(entry_result.as_ref().is_err_and(unreadable));
        entry_result.ok()
    }

    /// Returns whether the entry marks its folder as a database.
    fn entry(&mut self, path: PathBuf, metadata: &Metadata, open: &mut Vec<PathBuf>) -> bool {
        if metadata.is_symlink() {
            self.symbolic += 1;
            return false;
        }
        if metadata.is_dir() {
            open.push(path);
            return false;
        }
        if metadata.nlink() > 1 && !self.linked.insert((metadata.dev(), metadata.ino())) {
            return false;
        }
        let space = Space {
            files: 1,
            bytes: metadata.len(),
            allocated: metadata.blocks() * BLOCK_BYTES,
        };
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        self.kinds.add(&name, space);
        if metadata.is_file() && kinds::may_be_sqlite(&name) && sqlite::has_sqlite_magic(&path) {
            self.found.push((path, sqlite::database));
        }
        metadata.is_file() && name.starts_with("MANIFEST-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::{
        fs::{File, hard_link},
        os::unix::fs::symlink,
    };

    const PATIENCE: Duration = Duration::from_secs(60);

    fn of<'a>(disk: &'a DiskUsage, kind: &str) -> &'a Space {
        &disk
            .kinds
            .iter()
            .find(|(name, _)| name == kind)
            .unwrap_or_else(|| panic!("{kind}: {disk:?}"))
            .1
    }

    #[test]
    fn files_are_counted_once_by_type_inside_the_folder() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large.sst"), vec![1; 1 << 20]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        for (name, size) in [
            ("000001.sst", 3000),
            ("deep/000002.sst", 4000),
            ("deep/17.204", 5000),
            ("LOCK", 0),
        ] {
            fs::write(at(name), vec![1; size]).unwrap();
        }
        hard_link(at("000001.sst"), at("again.sst")).unwrap();
        symlink(outside.path(), at("elsewhere")).unwrap();
        symlink(outside.path().join("large.sst"), at("000003.sst")).unwrap();
        symlink("..", at("deep/up")).unwrap();
        File::create(at("sparse.bin"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let disk = measure("a", folder.path(), PATIENCE, &|| false);
        let total = disk.total.unwrap();
        assert_eq!(
            (total.files, total.bytes),
            (5, 3000 + 4000 + 5000 + (1 << 30))
        );
        assert!(total.allocated < 1 << 20, "holes take nothing: {total:?}");
        assert_eq!(
            (of(&disk, ".sst").files, of(&disk, ".sst").bytes),
            (2, 7000)
        );
        assert_eq!(of(&disk, "numbered").bytes, 5000);
        assert_eq!(disk.kinds[0].0, ".bin");
        assert!(
            disk.problems
                .iter()
                .any(|message| message == "3 symbolic links were not followed"),
            "{disk:?}"
        );
    }

    #[test]
    fn uncountable_disk_usage_is_unknown_not_zero() {
        let folder = tempfile::tempdir().unwrap();
        (0..600).for_each(|n| fs::write(folder.path().join(n.to_string()), b"x").unwrap());
        assert_eq!(
            measure("a", folder.path(), PATIENCE, &|| true).total,
            None,
            "it was to stop"
        );
        let disk = measure("a", folder.path(), Duration::ZERO, &|| false);
        assert_eq!(disk.total, None);
        assert!(disk.problems[0].contains("--data-time"), "{disk:?}");
        assert!(super::folder(&folder.path().join("7")).is_err(), "a file");
        assert!(super::folder(&folder.path().join("none")).is_err());
    }

    #[test]
    fn files_deleted_during_a_walk_count_nothing_and_refused_ones_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let mut walk = Walk::new(
            folder.path(),
            Limit {
                until: clock::uptime() + PATIENCE,
                stop: &|| false,
            },
        );
        assert!(
            walk.readable_or_count(fs::read_dir(folder.path().join("gone")))
                .is_none()
        );
        assert!(
            walk.readable_or_count(folder.path().join("gone").symlink_metadata())
                .is_none()
                && walk.all()
        );
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(walk.readable_or_count::<Metadata>(Err(denied())).is_none() && !walk.all());
        let message = "1 files and folders could not be read, and are not counted";
        assert!(
            walk.problems.iter().any(|problem| problem == message),
            "{:?}",
            walk.problems
        );
    }

    #[test]
    fn sqlite_tables_are_sized_during_concurrent_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mainnet.sqlite");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer
            .execute_batch(
                "CREATE TABLE canonical_blocks (number INTEGER PRIMARY KEY, hash BLOB);
                 CREATE TABLE transactions (hash BLOB PRIMARY KEY, body BLOB) WITHOUT ROWID;
                 CREATE INDEX by_hash ON canonical_blocks(hash);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                 INSERT INTO canonical_blocks SELECT i, randomblob(32) FROM n;
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                 INSERT INTO transactions SELECT randomblob(32), randomblob(9000) FROM n;
                 PRAGMA wal_checkpoint(TRUNCATE);
                 BEGIN IMMEDIATE; INSERT INTO canonical_blocks VALUES (9999, x'00');",
            )
            .unwrap();
        let names = || {
            let names = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            names.collect::<BTreeSet<_>>()
        };
        let before = (names(), fs::metadata(&path).unwrap().modified().unwrap());
        let disk = measure("a", folder.path(), PATIENCE, &|| false);
        assert_eq!(
            (names(), fs::metadata(&path).unwrap().modified().unwrap()),
            before,
            "only read"
        );
        let [database] = disk.databases.as_slice() else {
            panic!("{disk:?}")
        };
        assert_eq!(
            (database.path.as_str(), database.engine.as_str()),
            ("mainnet.sqlite", "SQLite")
        );
        let bytes = |name: &str| {
            database
                .parts
                .iter()
                .find(|part| part.name == name)
                .unwrap()
                .bytes
        };
        // An independent count: pages of the file, which are those of its tables and free ones.
        let file: u64 = fs::metadata(&path).unwrap().len();
        assert_eq!(
            database.parts.iter().map(|part| part.bytes).sum::<u64>(),
            file,
            "{database:?}"
        );
        assert!(
            (1_800_000..2_600_000).contains(&bytes("transactions")),
            "{database:?}"
        );
        assert!(
            bytes("canonical_blocks") > 3000 * 34
                && bytes("by_hash (index of canonical_blocks)") > 3000 * 32
        );
        writer.execute_batch("COMMIT").unwrap();
    }

    #[test]
    fn a_database_changed_during_reading_is_reported_despite_unchanged_time_and_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain.sqlite");
        Connection::open(&path)
            .unwrap()
            .execute_batch(
                "CREATE TABLE blocks (body BLOB);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
                 INSERT INTO blocks SELECT randomblob(3000) FROM n;",
            )
            .unwrap();
        let text = fs::read(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let read = |change: &dyn Fn()| {
            let disk = measure("a", folder.path(), PATIENCE, &|| {
                change();
                false
            });
            disk.databases[0].problems.join("; ")
        };
        assert_eq!(read(&|| ()), "");
        let changed = read(&|| {
            fs::write(&path, &text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(modified).unwrap();
        });
        assert!(
            changed.contains("it changed while it was read"),
            "{changed}"
        );
    }

    #[test]
    fn a_non_database_file_named_like_one_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("a.sqlite"),
            [b"SQLite format 3\0".as_slice(), &[9; 5000]].concat(),
        )
        .unwrap();
        fs::write(folder.path().join("b.sqlite"), b"text").unwrap();
        fs::create_dir(folder.path().join("rocksdb")).unwrap();
        fs::write(
            folder.path().join("rocksdb/MANIFEST-000001"),
            vec![7; 70_000],
        )
        .unwrap();
        let disk = measure("a", folder.path(), PATIENCE, &|| false);
        assert_eq!(disk.databases.len(), 2, "{disk:?}");
        for database in &disk.databases {
            assert!(
                database.parts.is_empty() && database.problems.len() == 1,
                "{database:?}"
            );
        }
    }
}
