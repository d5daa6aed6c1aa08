use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{RawDir, SeekFrom};
use rustix::io::Errno;

use crate::text::number;

/// Numeric names, ascending; replaces the contents of `numbers`.
pub(super) fn numbers(folder: &OwnedFd, numbers: &mut Vec<u32>) -> Result<(), Errno> {
    numbers.clear();
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    let mut free = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(folder, &mut free);
    while let Some(entry) = entries.next() {
        let name = number(entry?.file_name().to_bytes());
        numbers.extend(name.and_then(|name| u32::try_from(name).ok()));
    }
    numbers.sort_unstable();
    Ok(())
}
