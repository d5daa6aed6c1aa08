//! A page cache that is cold, and the same for every run.
//!
//! Cache that another run left, or that the runner's own copying made, is charged to nobody or to somebody else: a run that
//! uses it has more memory than its limit says.

mod fincore;

use crate::Error;
use crate::folders::RetainedEntry;
use crate::tree::{Folder, Found, failed, files, on_disk};
use faultline_kernel::HostRoot;
use rustix::fs::Advice;
use std::io::Write;
use std::path::Path;

/// What a dropping went over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    pub files: u64,
    /// Their lengths together, in bytes.
    pub bytes: u64,
    /// What was not entered, with its reason.
    pub left: Vec<RetainedEntry>,
}

/// How much of some files is in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Regular files that could be looked at.
    pub files: u64,
    /// Those that had gone when it was their turn.
    pub gone: u64,
    /// Pages that the files have, holes not counted.
    pub pages: u64,
    /// Those of them in the page cache.
    pub resident: u64,
}

impl Residency {
    /// The share of pages that is in memory, 0 to 1; `None` without a page.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.resident as f64 / self.pages as f64)
    }

    /// What is in memory, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.resident
            .saturating_mul(rustix::param::page_size() as u64)
    }
}

/// Writes what is dirty to the disks of these folders, and asks the kernel to forget the pages of every regular file below
/// them. Links are followed at the top only; a folder that is not there yet has nothing to drop. Pages that a process has
/// mapped, or that become dirty meanwhile, stay: [`residency`] tells.
///
/// # Errors
/// A folder cannot be walked, or the file system refuses.
pub fn drop_files(folders: &[&Path]) -> Result<Dropped, Error> {
    let mut dropped = Dropped::default();
    for folder in folders {
        let Some(folder) = top(folder)? else { continue };
        rustix::fs::syncfs(folder.fd()).map_err(|errno| failed(folder.path(), errno))?;
        files(&folder, &mut |found| {
            match found {
                Found::File(file, stat, path) => {
                    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
                        .map_err(|errno| failed(&path, errno))?;
                    dropped.files += 1;
                    dropped.bytes = dropped
                        .bytes
                        .saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
                }
                Found::Left(path, why) => dropped.left.push(RetainedEntry { path, why }),
            }
            Ok(())
        })?;
    }
    Ok(dropped)
}

/// Brings one file into the page cache, such as a program that all runs shall find there alike: whoever reads it first is
/// charged for it, and nobody else. Its size, in bytes.
///
/// # Errors
/// It is not there or cannot be read.
pub fn warm_file(path: &Path) -> Result<u64, Error> {
    let read = || std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink());
    read().map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// Writes what is dirty, and asks the kernel to forget every page and every name of the whole host: other programs get
/// slower. For root only.
pub fn drop_all(root: &HostRoot) -> Result<(), Error> {
    rustix::fs::sync();
    let path = root.procfs.join("sys/vm/drop_caches");
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    file.and_then(|mut file| file.write_all(b"3\n"))
        .map_err(|source| Error::File { path, source })
}

/// Looks which pages of the regular files below these folders are in memory, and brings none in. Links are followed at the
/// top only; a folder that is not there yet has none.
///
/// # Errors
/// `fincore` is not installed, or a folder cannot be walked: then nobody knows.
pub fn residency(folders: &[&Path]) -> Result<Residency, Error> {
    let page = rustix::param::page_size() as u64;
    let (mut found, mut batch, mut total) = (Residency::default(), fincore::Batch::default(), 0);
    let count = |found: &mut Residency, batch: &mut fincore::Batch| {
        let (resident, files) = batch.count()?;
        found.resident = found.resident.saturating_add(resident);
        found.files += files;
        Ok::<(), Error>(())
    };
    for folder in folders {
        let Some(folder) = top(folder)? else { continue };
        files(&folder, &mut |seen| {
            let Found::File(_, stat, path) = seen else {
                return Ok(());
            };
            let length = u64::try_from(stat.st_size).unwrap_or(0).min(on_disk(stat));
            found.pages = found.pages.saturating_add(length.div_ceil(page));
            total += 1;
            if batch.add(path) {
                count(&mut found, &mut batch)
            } else {
                Ok(())
            }
        })?;
    }
    count(&mut found, &mut batch)?;
    found.gone = total - found.files.min(total);
    Ok(found)
}

/// `None` if it is not there.
fn top(folder: &Path) -> Result<Option<Folder>, Error> {
    match folder.canonicalize() {
        Ok(real) => Folder::open(&real).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File {
            path: folder.to_owned(),
            source,
        }),
    }
}
