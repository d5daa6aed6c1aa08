//! RocksDB, Pebble and LevelDB folders, and their manifests, which assign tables to levels.
//!
//! A manifest has blocks of 32 KiB with parts of records. A part has a checksum (4 bytes), a length
//! (2), a kind (1) and its content. Kind 1 is a whole record; 2 to 4 are the first, middle and last
//! part. A record is an edit: fields that are numbered as in `version_edit` of LevelDB, RocksDB and
//! Pebble. The last edit may be incomplete.

use super::{Database, DatabasePart, IsOver, merge_smallest};
use anyhow::{Context, Result, bail, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    path::Path,
};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
pub const MAX_LEVELS: u64 = 64;
const MAX_TABLES: usize = 5_000_000;
const MAX_EDIT_BYTES: usize = 256 << 20;
/// Fields with larger numbers are optional. Except 8194 to 8197, they have a length prefix.
const OPTIONAL_FIELDS_ABOVE: u64 = 1 << 13;
const MAX_SMALL_FILE_BYTES: u64 = 1 << 20;
const MAX_PARTS: usize = 120;

pub fn measure_database(path: &Path, relative_path: String, is_over: IsOver<'_>) -> Database {
    let files = list_files(path, is_over);
    // Unknown if only part of the files was listed.
    let engine = if is_over() {
        "unknown engine".to_owned()
    } else {
        engine_name(path, &files)
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
    // The node may start a new manifest while this one is read.
    let retry = |_| read_version(path, is_over);
    match read_version(path, is_over).or_else(retry).or_else(retry) {
        Ok(version) => {
            database.parts = list_parts(&version, &files);
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

fn list_files(path: &Path, is_over: IsOver<'_>) -> BTreeMap<String, u64> {
    fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .take_while(|_| !is_over())
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.file_name().into_string().ok()?, metadata.len()))
        })
        .collect()
}

/// Reads the options file, which LevelDB does not have.
fn engine_name(path: &Path, files: &BTreeMap<String, u64>) -> String {
    let newest = files
        .keys()
        .rfind(|name| name.starts_with("OPTIONS-") && !name.ends_with("dbtmp"));
    let Some(newest) = newest else {
        return "LevelDB".to_owned();
    };
    let options = read_small_file(&path.join(newest)).unwrap_or_default();
    let option = |key| {
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
        "{}: is not a regular file",
        path.display()
    );
    let mut text = String::new();
    File::open(path)?
        .take(MAX_SMALL_FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn read_version(path: &Path, is_over: IsOver<'_>) -> Result<Version> {
    let files = list_files(path, is_over);
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
        "no file in it names a manifest that exists"
    );
    let manifest = path.join(name);
    ensure!(
        manifest.symlink_metadata()?.is_file(),
        "its manifest is not a regular file"
    );
    read_manifest(File::open(manifest)?, || !is_over())
}

fn list_parts(version: &Version, files: &BTreeMap<String, u64>) -> Vec<DatabasePart> {
    let family_name = |family: u64| match version.families.get(&family) {
        Some(name) => faultline_text::clean(name),
        None if version.families.is_empty() => String::new(),
        None if family == 0 => "default".to_owned(),
        None => format!("column family {family}"),
    };
    // Tables and bytes by family and level.
    let mut levels: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for ((family, _), table) in &version.tables {
        let (tables, bytes) = levels.entry((*family, table.level)).or_default();
        *tables += 1;
        *bytes = bytes.saturating_add(table.bytes);
    }
    let part = |((family, level), (tables, bytes))| DatabasePart {
        name: family_name(family),
        level: Some(level),
        files: Some(tables),
        bytes,
    };
    let mut parts = Vec::from_iter(levels.into_iter().map(part));
    if parts.len() > MAX_PARTS {
        merge_smallest(&mut parts, MAX_PARTS);
    }
    parts.extend(unplaced_tables(version, files));
    parts
}

/// Table files that the manifest does not name, because they are new or will be deleted.
fn unplaced_tables(version: &Version, files: &BTreeMap<String, u64>) -> Option<DatabasePart> {
    let placed = BTreeSet::from_iter(version.tables.values().map(|table| table.file));
    let unplaced = files.iter().filter(|(name, _)| {
        name.split_once('.').is_some_and(|(number, extension)| {
            ["sst", "ldb"].contains(&extension)
                && number.parse().is_ok_and(|number| !placed.contains(&number))
        })
    });
    let (tables, bytes) = unplaced.fold((0, 0), |(tables, sum), (_, bytes)| {
        (tables + 1, bytes.saturating_add(sum))
    });
    (tables > 0).then(|| DatabasePart {
        name: "in no level".to_owned(),
        level: None,
        files: Some(tables),
        bytes,
    })
}

#[derive(Debug, PartialEq)]
struct LevelTable {
    level: u64,
    bytes: u64,
    /// A file may contain several tables.
    file: u64,
}

#[derive(Default)]
struct Version {
    /// By column family (0 without families) and table number.
    tables: BTreeMap<(u64, u64), LevelTable>,
    families: BTreeMap<u64, String>,
    /// The last edit is incomplete: its writer is active or was interrupted.
    has_incomplete_edit: bool,
}

/// Fails if `in_time` returns false, and on unknown fields.
fn read_manifest(mut from: impl Read, in_time: impl Fn() -> bool) -> Result<Version> {
    let mut version = Version::default();
    let (mut block, mut edit, mut edits) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        block.clear();
        from.by_ref()
            .take(BLOCK_BYTES as u64)
            .read_to_end(&mut block)?;
        let is_last = block.len() < BLOCK_BYTES;
        ensure!(
            in_time(),
            "reading its manifest was stopped, or took longer than --data-time"
        );
        let mut rest = block.as_slice();
        while let Some((header, content)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let (size, kind) = (u16::from_le_bytes([header[4], header[5]]), header[6]);
            if kind == 0 && size == 0 {
                rest = &[];
                break;
            }
            let Some((part, next)) = content.split_at_checked(size.into()) else {
                ensure!(is_last, "its manifest is damaged");
                break;
            };
            rest = next;
            ensure!(
                (1..=4).contains(&kind),
                "its manifest is damaged: a record of kind {kind}"
            );
            if kind <= 2 {
                edit.clear();
            }
            edit.extend_from_slice(part);
            ensure!(
                edit.len() <= MAX_EDIT_BYTES,
                "its manifest is damaged: an edit without end"
            );
            if kind == 1 || kind == 4 {
                version
                    .apply(&edit)
                    .with_context(|| format!("edit {edits} of its manifest"))?;
                edit.clear();
                edits += 1;
            }
        }
        if is_last {
            ensure!(edits > 0, "its manifest has no edit");
            version.has_incomplete_edit = !edit.is_empty() || !rest.is_empty();
            return Ok(version);
        }
    }
}

impl Version {
    fn apply(&mut self, edit: &[u8]) -> Result<()> {
        let mut fields = Fields(edit);
        let (mut family, mut name, mut is_dropped) = (0, None, false);
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        while !fields.0.is_empty() {
            match fields.number()? {
                // Comparator.
                1 => drop(fields.bytes()?),
                // Log, file and sequence numbers; largest family; edit groups. 105 and 106: new and
                // removed file with several tables (Pebble).
                2..=4 | 9 | 10 | 106 | 203 | 300 => drop(fields.number()?),
                105 => drop((fields.number()?, fields.number()?)),
                // Compaction cursor.
                5 => drop((fields.number()?, fields.bytes()?)),
                // Deleted table.
                6 => removed.push((fields.number()?, fields.number()?).1),
                // New table.
                field @ (7 | 100 | 102..=104) => added.push(fields.table(field)?),
                // Column family: its number, its name, its deletion.
                200 => family = fields.number()?,
                201 => name = Some(String::from_utf8_lossy(fields.bytes()?).into_owned()),
                202 => is_dropped = true,
                ignorable
                    if ignorable > OPTIONAL_FIELDS_ABOVE && !(8194..=8197).contains(&ignorable) =>
                {
                    fields.bytes()?;
                }
                other => bail!("field {other}, which is not known"),
            }
        }
        if is_dropped {
            self.tables
                .retain(|(table_family, _), _| *table_family != family);
            self.families.remove(&family);
            return Ok(());
        }
        self.families.extend(name.map(|name| (family, name)));
        for number in removed {
            self.tables.remove(&(family, number));
        }
        for (number, table) in added {
            self.tables.insert((family, number), table);
        }
        ensure!(
            self.tables.len() <= MAX_TABLES,
            "more than {MAX_TABLES} tables"
        );
        Ok(())
    }
}

/// The rest of an edit.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Result<u8> {
        Ok(*self.0.split_off_first().context("it ends too early")?)
    }

    /// Varint: seven bits per byte, lowest first.
    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
            if byte < 128 {
                return Ok(number);
            }
        }
        bail!("a number has no end")
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.number()?)?;
        self.0.split_off(..length).context("it ends too early")
    }

    /// Level, number, size, smallest and largest key, and more, depending on the field.
    fn table(&mut self, field: u64) -> Result<(u64, LevelTable)> {
        let (level, number) = (self.number()?, self.number()?);
        ensure!(level < MAX_LEVELS, "level {level}, which no engine has");
        // The index of the folder.
        if field == 102 {
            self.number()?;
        }
        let bytes = self.number()?;
        // A Pebble table may have point keys, range keys, or both.
        let has_both = field == 104 && self.byte()? & 1 == 1;
        for _ in 0..if has_both { 4 } else { 2 } {
            self.bytes()?;
        }
        // Smallest and largest sequence number.
        if field != 7 {
            self.number()?;
            self.number()?;
        }
        let mut file = number;
        let mut has_more_fields = field >= 103;
        while has_more_fields {
            match self.number()? {
                1 => has_more_fields = false,
                // Pebble: a virtual table that is part of this file.
                66 => file = self.number()?,
                _ => drop(self.bytes()?),
            }
        }
        Ok((number, LevelTable { level, bytes, file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_table_sizes_do_not_overflow() {
        let table = |file| LevelTable {
            level: 1,
            bytes: u64::MAX,
            file,
        };
        let version = Version {
            tables: [((0, 1), table(1)), ((0, 2), table(2))].into(),
            ..Version::default()
        };
        let parts = list_parts(&version, &BTreeMap::new());
        assert_eq!((parts[0].files, parts[0].bytes), (Some(2), u64::MAX));
    }

    fn number(mut of: u64, out: &mut Vec<u8>) {
        while of > 127 {
            out.push((of & 127) as u8 | 128);
            of >>= 7;
        }
        out.push(of as u8);
    }

    fn edit(fields: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        fields.iter().for_each(|field| number(*field, &mut out));
        out
    }

    /// Records with their parts in blocks.
    fn log(edits: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for edit in edits {
            let (mut rest, mut first) = (edit.as_slice(), true);
            loop {
                let room = BLOCK_BYTES - out.len() % BLOCK_BYTES;
                if room < HEADER_BYTES {
                    out.resize(out.len() + room, 0);
                    continue;
                }
                let (part, after) = rest.split_at(rest.len().min(room - HEADER_BYTES));
                let kind = match (first, after.is_empty()) {
                    (true, true) => 1,
                    (true, false) => 2,
                    (false, false) => 3,
                    (false, true) => 4,
                };
                out.extend([0; 4]);
                out.extend((part.len() as u16).to_le_bytes());
                out.push(kind);
                out.extend(part);
                (rest, first) = (after, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        out
    }

    #[test]
    fn manifest_edits_add_and_remove_tables_by_level_and_family() {
        // Kind, level, number, size, two empty keys; the family comes last.
        let mut edits = vec![
            edit(&[7, 0, 4, 1000, 0, 0]),
            edit(&[201, 3]),
            edit(&[7, 1, 5, 70_000, 0, 0, 200, 2]),
        ];
        edits[1].extend(b"abc");
        edits[1].extend(edit(&[200, 2]));
        // Long keys, so that edits cross blocks.
        for table in 0..200_u64 {
            let mut long = edit(&[100, 6, 100 + table, 1, 700]);
            long.extend([9; 700]);
            long.extend(edit(&[0, 5, 6]));
            edits.push(long);
        }
        edits.push(edit(&[103, 2, 6, 500, 0, 0, 1, 2, 65, 1, 0, 1]));
        edits.push(edit(&[6, 0, 4, 7, 1, 4, 1000, 0, 0]));
        edits.push(edit(&[104, 3, 7, 50, 2, 0, 0, 1, 2, 66, 900, 1]));
        edits.push(edit(&[8199, 2, 8, 9, 300, 1]));
        let version = read_manifest(log(&edits).as_slice(), || true).unwrap();
        assert_eq!(
            version.tables[&(0, 4)],
            LevelTable {
                level: 1,
                bytes: 1000,
                file: 4
            }
        );
        assert_eq!(
            version.tables[&(2, 5)],
            LevelTable {
                level: 1,
                bytes: 70_000,
                file: 5
            }
        );
        assert_eq!(
            version.tables[&(0, 7)],
            LevelTable {
                level: 3,
                bytes: 50,
                file: 900
            }
        );
        assert_eq!(
            (
                version.tables.len(),
                version.families[&2].as_str(),
                version.has_incomplete_edit
            ),
            (204, "abc", false)
        );
        edits.push(edit(&[202, 200, 2]));
        assert_eq!(
            read_manifest(log(&edits).as_slice(), || true)
                .unwrap()
                .tables
                .len(),
            203
        );
    }

    #[test]
    fn a_manifest_being_written_is_read_up_to_its_last_complete_edit() {
        let edits = [edit(&[7, 0, 4, 1000, 0, 0]), edit(&[7, 0, 5, 1000, 0, 0])];
        let whole = log(&edits);
        for end in HEADER_BYTES + 7..whole.len() {
            let version = read_manifest(&whole[..end], || true).unwrap();
            assert_eq!(
                (version.tables.len(), version.has_incomplete_edit),
                (1, end > HEADER_BYTES + 7),
                "{end}"
            );
        }
        assert!(read_manifest(whole.as_slice(), || false).is_err());
        assert!(read_manifest(&whole[..5], || true).is_err());
    }

    #[test]
    fn an_unknown_manifest_record_is_an_error_not_a_wrong_size() {
        for fields in [
            &[999, 1][..],
            &[8, 1],
            &[7, 0, 4],
            &[7, 70, 4, 1, 0, 0],
            &[8195, 1],
            &[1, 9],
        ] {
            assert!(
                read_manifest(log(&[edit(fields)]).as_slice(), || true).is_err(),
                "{fields:?}"
            );
        }
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..2000 {
            let noise: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
            let _ = read_manifest(noise.as_slice(), || true);
            let _ = read_manifest(log(&[noise]).as_slice(), || true);
        }
    }
}
