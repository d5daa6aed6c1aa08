//! Allocated memory, and a file that is read.

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::Path,
};

const MIB: usize = 1 << 20;

/// Resident anonymous memory in blocks of a MiB: every page is written.
#[derive(Debug, Default)]
pub struct Anonymous(Vec<Vec<u8>>);

impl Anonymous {
    /// Allocates up to `mib` MiB in total.
    pub fn grow(&mut self, mib: usize) {
        while self.0.len() < mib {
            self.0.push(vec![1; MIB]);
        }
    }
}

/// A mapped file: reading a page that is not in the page cache is a major fault.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapRaw,
    mib: usize,
    next: usize,
}

impl MappedFile {
    /// Reads the whole file once and maps it. Creates it if it is missing or has another length.
    ///
    /// # Errors
    /// The disk is full, or not writable.
    pub fn open(path: &Path, mib: usize) -> io::Result<Self> {
        let length = u64::try_from(mib * MIB).map_err(io::Error::other)?;
        if std::fs::metadata(path)
            .map(|found| found.len())
            .unwrap_or_default()
            != length
        {
            let mut file = File::create(path)?;
            for part in 0..mib {
                file.write_all(&vec![u8::try_from(part % 251).unwrap_or_default(); MIB])?;
            }
            // A dirty page cannot leave the page cache.
            file.sync_all()?;
        }
        let mut file = File::open(path)?;
        io::copy(
            &mut BufReader::with_capacity(MIB, &mut file),
            &mut io::sink(),
        )?;
        let map = MmapOptions::new().map_raw_read_only(&file)?;
        // No readahead from now on.
        map.advise(Advice::Random)?;
        Ok(Self { map, mib, next: 0 })
    }

    /// Reads the next MiB; the first one follows the last one.
    ///
    /// # Errors
    /// The kernel is older than 5.14, or the disk fails.
    pub fn fault_in_next(&mut self) -> io::Result<()> {
        self.map
            .advise_range(Advice::PopulateRead, self.next * MIB, MIB)?;
        self.next = (self.next + 1) % self.mib;
        Ok(())
    }
}
