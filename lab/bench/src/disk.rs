//! Measures a node's data folder by file type, SQLite table, and level of RocksDB, Pebble and
//! LevelDB.
//!
//! The measurement only reads, has a time limit, and does not follow links. It parses files
//! directly, because RocksDB, Pebble and LevelDB might lock or repair a database.

mod lsm;
mod show;
mod sqlite;

pub use show::{page, text};

use anyhow::{Context, Result, ensure};
use faultline_common::clock;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The size of a larger folder is unknown.
const MAX_ENTRIES: u64 = 4_000_000;
const MAX_DATABASES: usize = 100;
/// Results merge the smallest types beyond this number into one.
const MAX_FILE_TYPES: usize = 24;
const MAX_FILE_TYPES_IN_MEMORY: usize = 10_000;
/// A longer extension is not a file type.
const MAX_EXTENSION_CHARS: usize = 12;
const OTHER_FILE_TYPES: &str = "others";
/// The unit of `st_blocks` on every file system.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Space {
    files: u64,
    bytes: u64,
    /// Space on disk, which differs for sparse files and partly filled blocks.
    allocated: u64,
}

impl Space {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated = self.allocated.saturating_add(other.allocated);
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    fn display_name(&self) -> &str {
        if self.name.is_empty() {
            "all"
        } else {
            &self.name
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Database {
    path: String,
    engine: String,
    parts: Vec<DatabasePart>,
    problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderUsage {
    node: String,
    folder: String,
    /// `None` if some files could not be counted.
    total: Option<Space>,
    /// Not valid without `total`.
    #[serde(rename = "kinds")]
    file_types: Vec<(String, Space)>,
    databases: Vec<Database>,
    problems: Vec<String>,
}

#[derive(Default)]
struct FileTypes(BTreeMap<String, Space>);

impl FileTypes {
    fn add(&mut self, file_name: &str, space: Space) {
        let mut file_type = file_type(file_name);
        if self.0.len() >= MAX_FILE_TYPES_IN_MEMORY && !self.0.contains_key(&file_type) {
            file_type = OTHER_FILE_TYPES.to_owned();
        }
        self.0.entry(file_type).or_default().add(space);
    }

    fn largest_first(self) -> Vec<(String, Space)> {
        let mut file_types = Vec::from_iter(self.0);
        file_types.sort_by_key(|(_, space)| Reverse(space.bytes));
        if file_types.len() > MAX_FILE_TYPES {
            let mut others = Space::default();
            for (_, space) in file_types.split_off(MAX_FILE_TYPES - 1) {
                others.add(space);
            }
            file_types.push((OTHER_FILE_TYPES.to_owned(), others));
        }
        file_types
    }
}

fn file_type(file_name: &str) -> String {
    let prefixes = [
        "MANIFEST", "OPTIONS", "LOG", "CURRENT", "LOCK", "IDENTITY", "marker",
    ];
    let prefix = file_name.split(['-', '.']).next().unwrap_or_default();
    if prefixes.contains(&prefix) {
        return prefix.to_owned();
    }
    match file_name.rsplit_once('.') {
        // Agave names accounts files by slot and id, such as `17.204`.
        Some((_, extension)) if is_number(extension) => "numbered".to_owned(),
        Some((_, extension)) if extension.chars().count() <= MAX_EXTENSION_CHARS => {
            format!(".{}", faultline_text::clean(extension))
        }
        None if is_number(file_name) => "numbered".to_owned(),
        _ => "other names".to_owned(),
    }
}

/// The file's header decides.
fn may_be_sqlite(file_name: &str) -> bool {
    match file_name.rsplit_once('.') {
        Some((_, extension)) => ["sqlite", "sqlite3", "db", "db3"].contains(&extension),
        None => !is_number(file_name),
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

pub fn data_folder(path: &Path) -> Result<PathBuf> {
    let option_and_path = || format!("--data {}", path.display());
    let folder = path.canonicalize().with_context(option_and_path)?;
    ensure!(folder.is_dir(), "{}: is no folder", option_and_path());
    Ok(folder)
}

fn merge_smallest(parts: &mut Vec<DatabasePart>, max_parts: usize) {
    parts.sort_by_key(|part| Reverse(part.bytes));
    if parts.len() > max_parts {
        let others = parts.split_off(max_parts);
        parts.push(DatabasePart {
            name: format!("{} smaller ones", others.len()),
            level: None,
            files: others.iter().map(|part| part.files).sum(),
            bytes: (others.iter().map(|part| part.bytes)).fold(0, u64::saturating_add),
        });
    }
}

type IsOver<'a> = &'a dyn Fn() -> bool;

pub fn measure(
    node: &str,
    folder: &Path,
    time_limit: Duration,
    is_stop_requested: &dyn Fn() -> bool,
) -> FolderUsage {
    let deadline = clock::uptime() + time_limit;
    let is_over = || clock::uptime() > deadline || is_stop_requested();
    let mut walk = Walk::default();
    let is_complete = walk.walk(folder, &is_over);
    let mut databases = Vec::new();
    walk.databases.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, read) in walk.databases.iter().take(MAX_DATABASES) {
        let relative_path = path.strip_prefix(folder).unwrap_or(path).display();
        databases.push(read(path, relative_path.to_string(), &is_over));
    }
    if walk.databases.len() > MAX_DATABASES {
        let left_out = walk.databases.len() - MAX_DATABASES;
        walk.problems
            .push(format!("{left_out} more databases were not measured"));
    }
    FolderUsage {
        node: node.to_owned(),
        folder: folder.display().to_string(),
        total: is_complete.then_some(walk.total),
        file_types: if is_complete {
            walk.file_types.largest_first()
        } else {
            Vec::new()
        },
        databases,
        problems: walk.problems,
    }
}

/// The text is the path for results.
type DatabaseReader = fn(&Path, String, IsOver<'_>) -> Database;

#[derive(Default)]
struct Walk {
    total: Space,
    file_types: FileTypes,
    databases: Vec<(PathBuf, DatabaseReader)>,
    /// Device and inode, to count each file once.
    hard_linked: BTreeSet<(u64, u64)>,
    symbolic_links: u64,
    unreadable: u64,
    problems: Vec<String>,
}

impl Walk {
    /// Returns whether everything was counted.
    fn walk(&mut self, root: &Path, is_over: IsOver<'_>) -> bool {
        let mut pending = vec![root.to_owned()];
        let (mut count, mut early_end) = (0_u64, None);
        // A missing root is unreadable. A subfolder may vanish meanwhile.
        self.unreadable += u64::from(!root.is_dir());
        'folders: while let Some(folder) = pending.pop() {
            let Some(entries) = self.ok_or_count_unreadable(fs::read_dir(&folder)) else {
                continue;
            };
            let mut is_lsm = false;
            for entry in entries {
                count += 1;
                if count > MAX_ENTRIES {
                    early_end = Some(format!("it has more than {MAX_ENTRIES} files and folders"));
                    break 'folders;
                }
                if count.is_multiple_of(256) && is_over() {
                    let cause = "counting was stopped, or took longer than --data-time";
                    early_end = Some(cause.to_owned());
                    break 'folders;
                }
                let entry = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
                if let Some((path, metadata)) = self.ok_or_count_unreadable(entry) {
                    is_lsm |= self.add_entry(path, &metadata, &mut pending);
                }
            }
            if is_lsm {
                self.databases.push((folder, lsm::measure_database));
            }
        }
        let (links, unreadable) = (self.symbolic_links, self.unreadable);
        if links > 0 {
            self.problems
                .push(format!("{links} symbolic links were not followed"));
        }
        if unreadable > 0 {
            self.problems.push(format!(
                "the folder's size is not known: {unreadable} files and folders could not be read"
            ));
        }
        let is_complete = early_end.is_none() && unreadable == 0;
        self.problems
            .extend(early_end.map(|cause| format!("the folder's size is not known: {cause}")));
        is_complete
    }

    fn ok_or_count_unreadable<T>(&mut self, result: io::Result<T>) -> Option<T> {
        let is_unreadable = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        self.unreadable += u64::from(result.as_ref().is_err_and(is_unreadable));
        result.ok()
    }

    /// Returns whether the entry is a manifest, so that its folder is a database.
    fn add_entry(
        &mut self,
        path: PathBuf,
        metadata: &Metadata,
        pending: &mut Vec<PathBuf>,
    ) -> bool {
        if metadata.is_symlink() {
            self.symbolic_links += 1;
            return false;
        }
        if metadata.is_dir() {
            pending.push(path);
            return false;
        }
        if metadata.nlink() > 1 && !self.hard_linked.insert((metadata.dev(), metadata.ino())) {
            return false;
        }
        let space = Space {
            files: 1,
            bytes: metadata.len(),
            allocated: metadata.blocks().saturating_mul(BLOCK_BYTES),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.total.add(space);
        self.file_types.add(&name, space);
        let is_manifest = metadata.is_file() && name.starts_with("MANIFEST-");
        if metadata.is_file() && may_be_sqlite(&name) && sqlite::has_sqlite_magic(&path) {
            self.databases.push((path, sqlite::measure_database));
        }
        is_manifest
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

    fn of<'a>(usage: &'a FolderUsage, file_type: &str) -> &'a Space {
        &usage
            .file_types
            .iter()
            .find(|(name, _)| name == file_type)
            .unwrap_or_else(|| panic!("{file_type}: {usage:?}"))
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
        let usage = measure("a", folder.path(), PATIENCE, &|| false);
        let total = usage.total.unwrap();
        assert_eq!(
            (total.files, total.bytes),
            (5, 3000 + 4000 + 5000 + (1 << 30))
        );
        assert!(total.allocated < 1 << 20, "holes take nothing: {total:?}");
        assert_eq!(
            (of(&usage, ".sst").files, of(&usage, ".sst").bytes),
            (2, 7000)
        );
        assert_eq!(of(&usage, "numbered").bytes, 5000);
        assert_eq!(usage.file_types[0].0, ".bin");
        assert!(
            usage
                .problems
                .iter()
                .any(|message| message == "3 symbolic links were not followed"),
            "{usage:?}"
        );
    }

    #[test]
    fn a_damaged_level_of_a_results_file_is_not_drawn() {
        let part = |level| DatabasePart {
            name: String::new(),
            level: Some(level),
            files: Some(1),
            bytes: 1 << 20,
        };
        let usage = FolderUsage {
            node: "a".to_owned(),
            folder: "/data".to_owned(),
            total: None,
            file_types: Vec::new(),
            databases: vec![Database {
                path: "db".to_owned(),
                engine: "LevelDB".to_owned(),
                parts: vec![part(1), part(u64::MAX)],
                problems: Vec::new(),
            }],
            problems: Vec::new(),
        };
        assert_eq!(page(&[usage]).len(), 4);
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
        let usage = measure("a", folder.path(), Duration::ZERO, &|| false);
        assert_eq!((usage.total, usage.file_types.len()), (None, 0));
        let printed = text(std::slice::from_ref(&usage));
        assert!(
            printed.contains("a: by type of file\nnot known\n"),
            "{printed}"
        );
        assert!(usage.problems[0].contains("--data-time"), "{usage:?}");
        assert!(
            super::data_folder(&folder.path().join("7")).is_err(),
            "a file"
        );
        assert!(super::data_folder(&folder.path().join("none")).is_err());
    }

    #[test]
    fn files_deleted_during_a_walk_count_nothing_and_refused_ones_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let mut walk = Walk::default();
        assert!(
            walk.ok_or_count_unreadable(fs::read_dir(folder.path().join("gone")))
                .is_none()
        );
        assert!(
            walk.ok_or_count_unreadable(folder.path().join("gone").symlink_metadata())
                .is_none()
                && walk.walk(folder.path(), &|| false)
        );
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(
            walk.ok_or_count_unreadable::<Metadata>(Err(denied()))
                .is_none()
                && !walk.walk(folder.path(), &|| false)
        );
        let message = "the folder's size is not known: 1 files and folders could not be read";
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
        let usage = measure("a", folder.path(), PATIENCE, &|| false);
        assert_eq!(
            (names(), fs::metadata(&path).unwrap().modified().unwrap()),
            before,
            "only read"
        );
        let [database] = usage.databases.as_slice() else {
            panic!("{usage:?}")
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
            let usage = measure("a", folder.path(), PATIENCE, &|| {
                change();
                false
            });
            usage.databases[0].problems.join("; ")
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
        let usage = measure("a", folder.path(), PATIENCE, &|| false);
        assert_eq!(usage.databases.len(), 2, "{usage:?}");
        for database in &usage.databases {
            assert!(
                database.parts.is_empty() && database.problems.len() == 1,
                "{database:?}"
            );
        }
    }

    #[test]
    fn database_files_of_both_studied_nodes_are_classified() {
        let file_types = [
            "mainnet.sqlite",
            "mainnet.sqlite-wal",
            "999203.sst",
            "MANIFEST-4682254",
            "OPTIONS-4682255",
        ]
        .map(file_type);
        assert_eq!(
            file_types,
            [".sqlite", ".sqlite-wal", ".sst", "MANIFEST", "OPTIONS"]
        );
        let file_types = [
            "123",
            "7.12",
            "LOG.old.1",
            "CURRENT",
            "genesis",
            "x.",
            "a.\u{202e}b",
        ]
        .map(file_type);
        assert_eq!(
            file_types[..5],
            ["numbered", "numbered", "LOG", "CURRENT", "other names"]
        );
        assert!(!file_types[6].contains('\u{202e}'));
    }

    #[test]
    fn sums_of_sizes_do_not_overflow() {
        let largest = Space {
            files: 1,
            bytes: u64::MAX,
            allocated: u64::MAX,
        };
        let mut total = largest;
        total.add(largest);
        assert_eq!(
            (total.files, total.bytes, total.allocated),
            (2, u64::MAX, u64::MAX)
        );
        let part = DatabasePart {
            name: String::new(),
            level: Some(1),
            files: Some(1),
            bytes: u64::MAX,
        };
        let mut parts = vec![part; 3];
        let usage = FolderUsage {
            node: String::new(),
            folder: String::new(),
            total: None,
            file_types: Vec::new(),
            databases: vec![Database {
                path: String::new(),
                engine: String::new(),
                parts: parts.clone(),
                problems: Vec::new(),
            }],
            problems: Vec::new(),
        };
        assert!(!page(&[usage]).is_empty());
        merge_smallest(&mut parts, 1);
        assert_eq!((parts[1].files, parts[1].bytes), (Some(2), u64::MAX));
    }

    #[test]
    fn the_smallest_of_many_file_types_are_grouped() {
        let mut file_types = FileTypes::default();
        (1..100_u64).for_each(|n| {
            file_types.add(
                &format!("a.x{n}"),
                Space {
                    files: 1,
                    bytes: n,
                    allocated: 512,
                },
            )
        });
        let all = file_types.largest_first();
        assert_eq!(
            (
                all.len(),
                all[0].1.bytes,
                all[23].0.as_str(),
                all[23].1.files
            ),
            (24, 99, "others", 76)
        );
        assert_eq!(
            all.iter().map(|(_, space)| space.bytes).sum::<u64>(),
            99 * 50
        );
    }
}
