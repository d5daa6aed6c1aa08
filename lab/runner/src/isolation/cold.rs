//! Gives every run the same cold page cache. A cgroup is not charged for pages that were cached
//! before, so with them a run would have more memory than its limit.

mod fincore;

use crate::isolation::folders::RetainedEntry;
use crate::isolation::launch::at;
use crate::isolation::tree::{Folder, WalkEntry, allocated_bytes, files};
use anyhow::Result;
use faultline_kernel::HostRoot;
use rustix::fs::Advice;
use std::io::Write;
use std::path::Path;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    pub files: u64,
    pub bytes: u64,
    pub left: Vec<RetainedEntry>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    pub files: u64,
    /// Pages of the files, without holes.
    pub pages: u64,
    pub resident: u64,
}

impl Residency {
    pub fn share(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.resident as f64 / self.pages as f64)
    }

    pub fn resident_bytes(&self) -> u64 {
        self.resident
            .saturating_mul(rustix::param::page_size() as u64)
    }
}

/// Syncs these folders' disks, then asks the kernel to drop the pages of every regular file below
/// them. Follows links at the top only; skips missing folders. Mapped pages, and pages that become
/// dirty meanwhile, stay: see [`residency`].
pub fn drop_files(folders: &[&Path]) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    for folder in folders {
        let Some(folder) = open_top(folder)? else {
            continue;
        };
        rustix::fs::syncfs(folder.fd()).map_err(at(folder.path()))?;
        files(&folder, &mut |found| {
            match found {
                WalkEntry::File(file, stat, path) => {
                    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).map_err(at(&path))?;
                    dropped.files += 1;
                    dropped.bytes = dropped
                        .bytes
                        .saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
                }
                WalkEntry::NotEntered(path, why) => dropped.left.push(RetainedEntry { path, why }),
            }
            Ok(())
        })?;
    }
    Ok(dropped)
}

/// Reads a file into the page cache, so that no run is charged for its pages. Returns its size in
/// bytes.
pub fn warm_file(path: &Path) -> Result<u64> {
    let read = || std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink());
    read().map_err(at(path))
}

/// Syncs, and drops the page cache, dentries and inodes of the whole host, which slows other
/// programs down. Needs root.
pub fn drop_all(root: &HostRoot) -> Result<()> {
    rustix::fs::sync();
    let path = root.procfs.join("sys/vm/drop_caches");
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    file.and_then(|mut file| file.write_all(b"3\n"))
        .map_err(at(&path))
}

/// Counts the cached pages of the regular files below these folders without loading any. Follows
/// links at the top only; skips missing folders.
///
/// # Errors
/// `fincore` is not installed, or a folder cannot be walked.
pub fn residency(folders: &[&Path]) -> Result<Residency> {
    let page = rustix::param::page_size() as u64;
    let (mut found, mut batch) = (Residency::default(), fincore::Batch::default());
    let count = |found: &mut Residency, batch: &mut fincore::Batch| {
        let (resident, files) = batch.count()?;
        found.resident = found.resident.saturating_add(resident);
        found.files += files;
        Ok(())
    };
    for folder in folders {
        let Some(folder) = open_top(folder)? else {
            continue;
        };
        files(&folder, &mut |entry| {
            let WalkEntry::File(_, stat, path) = entry else {
                return Ok(());
            };
            let length = u64::try_from(stat.st_size)
                .unwrap_or(0)
                .min(allocated_bytes(stat));
            found.pages = found.pages.saturating_add(length.div_ceil(page));

            if batch.add(path) {
                count(&mut found, &mut batch)
            } else {
                Ok(())
            }
        })?;
    }
    count(&mut found, &mut batch)?;
    Ok(found)
}

fn open_top(folder: &Path) -> Result<Option<Folder>> {
    match folder.canonicalize() {
        Ok(real) => Folder::open(&real).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(folder)(error)),
    }
}
