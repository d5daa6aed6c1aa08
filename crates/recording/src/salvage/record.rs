//! The values of one row, as SQLite's file format keeps them.

use crate::reader::Cell;
use crate::schema::Kind;

/// A number of one to nine bytes, and how many they are; `None` if the bytes end within it.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

/// A row as it lies in the file.
pub(super) struct Row {
    pub(super) id: i64,
    /// Its values. Shorter than `size` if a page with more of them is missing.
    pub(super) record: Vec<u8>,
    pub(super) size: usize,
}

/// The values of a row; `None` if they contradict the row's length or their own. With `partial`, a last text that is not
/// there is empty.
pub(super) fn values(row: &Row, partial: bool) -> Option<Vec<Cell>> {
    let (header, mut at) = varint(&row.record)?;
    let header = usize::try_from(header).ok()?;
    let types = row.record.get(..header)?;
    let mut kinds = Vec::new();
    let mut size = header;
    while at < header {
        let (kind, bytes) = varint(types.get(at..)?)?;
        at += bytes;
        size = size.checked_add(width(kind)?)?;
        kinds.push(kind);
    }
    if size != row.size {
        return None;
    }
    let mut values = Vec::new();
    let mut begin = header;
    for (i, kind) in kinds.iter().enumerate() {
        let end = begin + width(*kind)?;
        values.push(match row.record.get(begin..end) {
            Some(bytes) => value(*kind, bytes)?,
            None if partial && i + 1 == kinds.len() => Cell::Text(String::new()),
            None => return None,
        });
        begin = end;
    }
    Some(values)
}

fn width(kind: u64) -> Option<usize> {
    Some(match kind {
        0 | 8 | 9 => 0,
        1..=4 => usize::try_from(kind).ok()?,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => usize::try_from((kind - 12) / 2).ok()?,
    })
}

fn value(kind: u64, bytes: &[u8]) -> Option<Cell> {
    Some(match kind {
        0 => Cell::Null,
        7 => Cell::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        8 => Cell::Integer(0),
        9 => Cell::Integer(1),
        1..=6 => {
            let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
            let sign = if negative { -1 } else { 0 };
            Cell::Integer(
                bytes
                    .iter()
                    .fold(sign, |value, byte| value << 8 | i64::from(*byte)),
            )
        }
        // No recording has bytes that are no text.
        _ if kind.is_multiple_of(2) => return None,
        _ => Cell::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
    })
}

/// The value as a column of this kind keeps it; `None` if it keeps no such value. In samples, a count beyond SQLite's whole
/// numbers is kept as a float.
pub(super) fn of_kind(value: &Cell, kind: Kind, sample: bool) -> Option<Cell> {
    match (kind, value) {
        (Kind::Integer, Cell::Real(_)) if sample => Some(value.clone()),
        (_, Cell::Null)
        | (Kind::Integer, Cell::Integer(_))
        | (Kind::Real, Cell::Real(_))
        | (Kind::Text, Cell::Text(_)) => Some(value.clone()),
        (Kind::Real, Cell::Integer(n)) => Some(Cell::Real(*n as f64)),
        _ => None,
    }
}
