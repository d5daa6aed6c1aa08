//! Memory that is really there, and a file that is really read.

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::Path,
};

const MIB: usize = 1 << 20;

/// Anonymous memory, every page of it written to.
#[derive(Debug, Default)]
pub struct Anonymous(Vec<Vec<u8>>);

impl Anonymous {
    /// Allocates until there are that many MiB.
    pub fn grow(&mut self, mib: usize) {
        while self.0.len() < mib {
            self.0.push(vec![1; MIB]);
        }
    }
}

/// A file that is mapped: reading a page of it that has left the page cache is a major fault.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapRaw,
    mib: usize,
    next: usize,
}

impl MappedFile {
    /// Reads the whole file once and maps it; makes it unless it is there with that length.
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
            // What is not on disk yet cannot leave the page cache.
            file.sync_all()?;
        }
        let mut file = File::open(path)?;
        io::copy(
            &mut BufReader::with_capacity(MIB, &mut file),
            &mut io::sink(),
        )?;
        let map = MmapOptions::new().map_raw_read_only(&file)?;
        // From now on without reading ahead.
        map.advise(Advice::Random)?;
        Ok(MappedFile { map, mib, next: 0 })
    }

    /// Reads the next MiB, and begins anew after the last one.
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
