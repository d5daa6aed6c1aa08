//! Real memory and real page faults, gently: at most 300 MiB, and a few hundred small reads a second.

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{Advice as FileAdvice, fadvise};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

const PAGE: usize = 4096;
/// What is allocated and freed at once.
pub(super) const BLOCK: usize = 2 << 20;
/// The most blocks.
pub(super) const MOST: usize = 150;
/// What is left when a tooth of the saw ends.
const LEAST: usize = 100;
/// Pages of the file whose reading makes major faults.
const FILE_PAGES: usize = 4096;

/// How many blocks there should be: one more every second, from [`MOST`] back to [`LEAST`].
pub(super) fn wanted(uptime: Duration) -> usize {
    let seconds = usize::try_from(uptime.as_secs()).unwrap_or(usize::MAX);
    if seconds <= MOST {
        seconds
    } else {
        LEAST + (seconds - LEAST) % (MOST - LEAST + 1)
    }
}

/// How many pages of the file to read in a tenth of a second: rises and falls within a minute.
pub(super) fn reads(uptime: Duration) -> usize {
    let second = usize::try_from(uptime.as_secs() % 60).unwrap_or(0);
    5 + second.min(60 - second)
}

/// Anonymous memory.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<MmapMut>);

impl Heap {
    /// Allocates or frees until there are `blocks`.
    ///
    /// # Errors
    /// There is no more memory.
    pub(super) fn resize(&mut self, blocks: usize) -> io::Result<()> {
        self.0.truncate(blocks.min(MOST));
        while self.0.len() < blocks.min(MOST) {
            self.0.push(touched(BLOCK)?);
        }
        Ok(())
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.iter().map(|block| block.len()).sum()
    }
}

/// Fresh memory with every page written to, each of which is a minor fault.
///
/// # Errors
/// There is no more memory.
pub(super) fn touched(bytes: usize) -> io::Result<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes)?;
    // One fault a page, not one per 2 MiB. A kernel without huge pages refuses, and needs no telling.
    drop(memory.advise(Advice::NoHugePage));
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    Ok(memory)
}

/// A file on disk that is mapped, and forgotten by the page cache once it was read to its end: every read of a page of
/// it is a major fault. Since Linux 5.14; in a file system in memory there are none.
#[derive(Debug)]
pub(super) struct ColdFile {
    file: File,
    map: MmapRaw,
    next: usize,
}

impl ColdFile {
    /// Makes the file (16 MiB). It has no name any more when this returns, and so goes with the process.
    ///
    /// # Errors
    /// The disk is full, or not writable.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        for page in 0..FILE_PAGES {
            file.write_all(&[u8::try_from(page % 251).unwrap_or(0); PAGE])?;
        }
        // What is not on disk yet cannot be forgotten.
        file.sync_all()?;
        let map = Self::map_cold(&file)?;
        Ok(ColdFile { file, map, next: 0 })
    }

    fn map_cold(file: &File) -> io::Result<MmapRaw> {
        fadvise(file, 0, None, FileAdvice::DontNeed)?;
        let map = MmapOptions::new()
            .len(FILE_PAGES * PAGE)
            .map_raw_read_only(file)?;
        // Without reading ahead, which would save most of the faults.
        map.advise(Advice::Random)?;
        Ok(map)
    }

    /// Reads the next `pages`.
    ///
    /// # Errors
    /// The kernel is older than 5.14.
    pub(super) fn read(&mut self, pages: usize) -> io::Result<()> {
        for _ in 0..pages {
            self.map
                .advise_range(Advice::PopulateRead, self.next * PAGE, PAGE)?;
            self.next += 1;
            if self.next == FILE_PAGES {
                self.forget()?;
            }
        }
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        // Pages that are mapped are not forgotten: the old mapping has to go first.
        self.map = MmapOptions::new().len(PAGE).map_raw_read_only(&self.file)?;
        self.map = Self::map_cold(&self.file)?;
        self.next = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
