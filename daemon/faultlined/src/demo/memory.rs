//! Real memory and page faults: at most 300 MiB, and a few hundred small reads a second.

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{Advice as FileAdvice, fadvise};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};

const PAGE_BYTES: usize = 4096;
pub const BLOCK_BYTES: usize = 2 << 20;
pub const MAX_BLOCKS: usize = 150;
const MIN_BLOCKS: usize = 100;
const FILE_PAGES: usize = 4096;

/// Target number of blocks: grows by one a second to [`MAX_BLOCKS`], then again from
/// [`MIN_BLOCKS`].
pub fn heap_blocks(uptime: Duration) -> usize {
    let seconds = usize::try_from(uptime.as_secs()).unwrap_or(usize::MAX);
    if seconds <= MAX_BLOCKS {
        seconds
    } else {
        MIN_BLOCKS + (seconds - MIN_BLOCKS) % (MAX_BLOCKS - MIN_BLOCKS + 1)
    }
}

/// File pages to read per tenth of a second; a wave with a period of a minute.
pub fn pages_to_read(uptime: Duration) -> usize {
    let second = usize::try_from(uptime.as_secs() % 60).unwrap_or(0);
    5 + second.min(60 - second)
}

#[derive(Default)]
pub struct Heap(Vec<MmapMut>);

impl Heap {
    pub fn resize(&mut self, blocks: usize) -> io::Result<()> {
        self.0.truncate(blocks.min(MAX_BLOCKS));
        while self.0.len() < blocks.min(MAX_BLOCKS) {
            self.0.push(allocate_and_touch(BLOCK_BYTES)?);
        }
        Ok(())
    }
}

/// Causes one minor fault per page.
pub fn allocate_and_touch(bytes: usize) -> io::Result<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes)?;
    // A huge page causes one fault per 2 MiB. A kernel without huge pages returns a harmless error.
    drop(memory.advise(Advice::NoHugePage));
    memory
        .iter_mut()
        .step_by(PAGE_BYTES)
        .for_each(|byte| *byte = 1);
    Ok(memory)
}

/// A mapped file that is evicted from the page cache after each full pass, so that every page read
/// is a major fault. Needs Linux 5.14 and a file system on disk.
pub struct ColdFile {
    file: File,
    map: MmapRaw,
    next_page: usize,
}

impl ColdFile {
    /// Makes a file of 16 MiB and unlinks it at once, so that it ends with the process.
    pub fn make(path: &Path) -> io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        std::fs::remove_file(path)?;
        for page in 0..FILE_PAGES {
            file.write_all(&[u8::try_from(page % 251).unwrap_or(0); PAGE_BYTES])?;
        }
        // Dirty pages cannot be evicted.
        file.sync_all()?;
        let map = Self::map_cold(&file)?;
        Ok(Self {
            file,
            map,
            next_page: 0,
        })
    }

    fn map_cold(file: &File) -> io::Result<MmapRaw> {
        fadvise(file, 0, None, FileAdvice::DontNeed)?;
        let map = MmapOptions::new()
            .len(FILE_PAGES * PAGE_BYTES)
            .map_raw_read_only(file)?;
        // Readahead would avoid most of the faults.
        map.advise(Advice::Random)?;
        Ok(map)
    }

    /// # Errors
    /// The kernel is older than 5.14, or the file cannot be mapped again.
    pub fn read(&mut self, pages: usize) -> io::Result<()> {
        for _ in 0..pages {
            self.map.advise_range(
                Advice::PopulateRead,
                self.next_page * PAGE_BYTES,
                PAGE_BYTES,
            )?;
            self.next_page += 1;
            if self.next_page == FILE_PAGES {
                // Mapped pages cannot be evicted, so a map of one page takes the place of the old
                // map first.
                self.map = MmapOptions::new()
                    .len(PAGE_BYTES)
                    .map_raw_read_only(&self.file)?;
                self.map = Self::map_cold(&self.file)?;
                self.next_page = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
