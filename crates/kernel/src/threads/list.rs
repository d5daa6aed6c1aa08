use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
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

pub(super) struct Name {
    bytes: [u8; 32],
    prefix: usize,
}

impl Name {
    pub(super) fn new(tid: u32) -> Self {
        let mut bytes = [0; 32];
        let free = bytes.len();
        let mut rest = &mut bytes[..];
        // Ten digits and a slash always fit.
        let written = write!(rest, "{tid}/").map_or(0, |()| free - rest.len());
        Self {
            bytes,
            prefix: written,
        }
    }

    pub(super) fn open(&mut self, folder: &OwnedFd, file: &str) -> Result<OwnedFd, Errno> {
        let end = self.prefix + file.len();
        self.bytes
            .get_mut(self.prefix..end)
            .ok_or(Errno::NAMETOOLONG)?
            .copy_from_slice(file.as_bytes());
        let path = self.bytes.get(..end).ok_or(Errno::NAMETOOLONG)?;
        rustix::fs::openat(
            folder,
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    }
}
