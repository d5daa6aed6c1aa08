use super::{length, opened_path, with_suffix};
use crate::error::{AttachPath, Error};
use rusqlite::Connection;
use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

pub const HEADER_BYTES: usize = 100;

const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Returns the bytes of the database. Fails if the file ends before its last page, unless the log
/// has the missing pages. SQLite would return such a page as zeros, and only on access.
pub fn check_whole(conn: &Connection, path: &Path) -> Result<u64, Error> {
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = match number("page_count") {
        Ok(pages) => u64::try_from(pages).unwrap_or(0),
        Err(error) => return Err(detect_truncation(path, Error::sqlite(path, error))),
    };
    let size = u64::try_from(number("page_size").at(path)?).unwrap_or(0);
    let file = opened_path(conn, path);
    let (have, want) = (length(&file), pages.saturating_mul(size));
    if have >= want || size == 0 {
        return Ok(want);
    }
    let logged = logged_pages(&with_suffix(&file, "-wal"), size).unwrap_or_default();
    let missing = (have / size + 1..=pages).any(|page| !logged.contains(&page));
    if missing {
        Err(truncated(path, have, want))
    } else {
        Ok(want)
    }
}

/// Converts [`Error::Damaged`] to [`Error::Truncated`] if the file is too short.
///
/// Opens the file beside SQLite, which drops this process's locks: use it only if nothing is locked
/// any more.
pub fn detect_truncation(path: &Path, error: Error) -> Error {
    let (Error::Damaged { .. }, Ok(want)) = (&error, declared_bytes(path)) else {
        return error;
    };
    let have = length(path);
    if have < want {
        truncated(path, have, want)
    } else {
        error
    }
}

fn truncated(path: &Path, have: u64, want: u64) -> Error {
    Error::Truncated {
        path: path.to_owned(),
        have,
        want,
    }
}

/// The size that the database's header declares.
fn declared_bytes(path: &Path) -> io::Result<u64> {
    let mut header = [0; 32];
    File::open(path)?.read_exact(&mut header)?;
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Ok(u64::from(pages).saturating_mul(page_size))
}

/// Pages in the log's frames of the current generation.
fn logged_pages(log: &Path, page_size: u64) -> io::Result<HashSet<u64>> {
    let mut log = BufReader::with_capacity(1 << 16, File::open(log)?);
    let mut header = [0; LOG_HEADER_BYTES];
    log.read_exact(&mut header)?;
    let mut pages = HashSet::new();
    let mut frame = [0; FRAME_HEADER_BYTES];
    while log.read_exact(&mut frame).is_ok() && frame[8..16] == header[16..24] {
        pages.insert(u64::from(u32::from_be_bytes([
            frame[0], frame[1], frame[2], frame[3],
        ])));
        let skipped = i64::try_from(page_size).unwrap_or(i64::MAX);
        log.seek_relative(skipped)?;
    }
    Ok(pages)
}
