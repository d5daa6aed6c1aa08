use crate::isolation::tree::{Folder, kind};
use anyhow::Result;
use rustix::fs::{FileType, Stat};
use std::ffi::CStr;

/// Larger than a keypair file with each of its 64 numbers on an indented line.
const MAX_KEYPAIR_BYTES: u64 = 4096;

const KEYPAIR_LENGTH: usize = 64;

/// Why a file is kept; `None` if it may be deleted. `stat` is of the entry itself. Fails if a small
/// file cannot be read, because it may be a keypair.
pub(super) fn reason(folder: &Folder, name: &CStr, stat: &Stat) -> Result<Option<&'static str>> {
    if let Some(why) = by_name(name.to_bytes()) {
        return Ok(Some(why));
    }
    let small =
        u64::try_from(stat.st_size).is_ok_and(|size| (1..=MAX_KEYPAIR_BYTES).contains(&size));
    if kind(stat) != FileType::RegularFile || !small {
        return Ok(None);
    }
    let text = folder.read(name, MAX_KEYPAIR_BYTES)?;
    Ok(text
        .is_some_and(|text| is_keypair(&text))
        .then_some("a keypair"))
}

fn by_name(name: &[u8]) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    if name.starts_with(b"tower") {
        Some("a tower file")
    } else if name.ends_with(b".json") && (has(b"keypair") || has(b"identity")) {
        Some("a keypair by its name")
    } else {
        None
    }
}

fn is_keypair(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
        && serde_json::from_slice::<Vec<u8>>(text)
            .is_ok_and(|numbers| numbers.len() == KEYPAIR_LENGTH)
}
