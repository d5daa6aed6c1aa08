//! Gives every run the same cold page cache. A cgroup is not charged for pages that were cached
//! before, so a run with such pages would have more memory than its limit.

use crate::isolation::{
    file_tree::{Folder, WalkEntry, allocated_bytes, walk_files},
    folders::SkippedEntry,
    launch::WithPath,
};
use anyhow::{Result, anyhow};
use faultline_kernel::HostRoot;
use rustix::fs::{Advice, fadvise, syncfs};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const FINCORE: &str = "fincore";

/// Length of all paths in one command line. The kernel allows about 2 MiB with the environment.
const MAX_PATH_BYTES: usize = 256 << 10;

#[derive(Debug, Default, PartialEq)]
pub struct Dropped {
    pub files: u64,
    /// Length of the files, cached or not.
    pub bytes: u64,
    pub skipped: Vec<SkippedEntry>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Residency {
    pub files: u64,
    /// Pages of the files, without holes; too few if the file system compresses.
    pub pages: u64,
    pub resident_pages: u64,
}

impl Residency {
    pub fn share(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.resident_pages as f64 / self.pages as f64)
    }

    pub fn resident_bytes(&self) -> u64 {
        self.resident_pages
            .saturating_mul(rustix::param::page_size() as u64)
    }
}

/// Syncs these folders' disks, then asks the kernel to drop the pages of every regular file below
/// them. Follows links at the top only; skips missing folders. Mapped pages, and pages that become
/// dirty meanwhile, stay in the cache.
pub fn drop_files(folders: &[&Path]) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    for folder in folders {
        let Some(folder) = open_top(folder)? else {
            continue;
        };
        syncfs(&folder.fd).with_path(&folder.path)?;
        walk_files(&folder, &mut |entry| {
            match entry {
                WalkEntry::File(file, stat, path) => {
                    fadvise(file, 0, None, Advice::DontNeed).with_path(&path)?;
                    dropped.files += 1;
                    dropped.bytes = dropped
                        .bytes
                        .saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
                }
                WalkEntry::NotEntered(path, reason) => {
                    dropped.skipped.push(SkippedEntry { path, reason })
                }
            }
            Ok(())
        })?;
    }
    Ok(dropped)
}

/// Reads a file into the page cache, so that no run is charged for its pages. Returns its size.
pub fn warm_file(path: &Path) -> Result<u64> {
    let read = || io::copy(&mut fs::File::open(path)?, &mut io::sink());
    read().with_path(path)
}

/// Syncs, and drops the page cache, dentries and inodes of the whole host, which slows other
/// programs down. Needs root.
pub fn drop_all(root: &HostRoot) -> Result<()> {
    rustix::fs::sync();
    let path = root.procfs.join("sys/vm/drop_caches");
    let file = fs::OpenOptions::new().write(true).open(&path);
    file.and_then(|mut file| file.write_all(b"3\n"))
        .with_path(&path)
}

/// Counts the cached pages of the regular files below these folders without loading any. Follows
/// links at the top only; skips missing folders. Fails without `fincore`.
pub fn residency(folders: &[&Path]) -> Result<Residency> {
    let page = rustix::param::page_size() as u64;
    let mut residency = Residency::default();
    let mut batch = Batch::default();
    for folder in folders {
        let Some(folder) = open_top(folder)? else {
            continue;
        };
        walk_files(&folder, &mut |entry| {
            let WalkEntry::File(_, stat, path) = entry else {
                return Ok(());
            };
            let length = u64::try_from(stat.st_size)
                .unwrap_or(0)
                .min(allocated_bytes(stat));
            residency.pages = residency.pages.saturating_add(length.div_ceil(page));

            if batch.add(path) {
                batch.count(&mut residency)
            } else {
                Ok(())
            }
        })?;
    }
    batch.count(&mut residency)?;
    Ok(residency)
}

fn open_top(folder: &Path) -> Result<Option<Folder>> {
    match folder.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        real => Folder::open(&real.with_path(folder)?).map(Some),
    }
}

/// Files for one call of `fincore` (util-linux), which loads no pages (decision 14).
#[derive(Default)]
struct Batch {
    paths: Vec<PathBuf>,
    bytes: usize,
}

impl Batch {
    /// Returns whether the batch is full.
    fn add(&mut self, path: PathBuf) -> bool {
        // With the final NUL and the pointer in `argv`.
        self.bytes += path.as_os_str().len() + 9;
        self.paths.push(path);
        self.bytes >= MAX_PATH_BYTES
    }

    /// Adds the cached pages and the files that still exist, and empties the batch.
    fn count(&mut self, residency: &mut Residency) -> Result<()> {
        let paths = std::mem::take(self).paths;
        if paths.is_empty() {
            return Ok(());
        }
        let output = run_fincore(FINCORE, &paths).map_err(|error| {
            anyhow!(match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "{FINCORE} is not in PATH, and the page cache cannot be inspected without it: install util-linux-extra, \
                     on older systems util-linux"
                ),
                _ => format!("{FINCORE}: {error}"),
            })
        })?;
        let (resident_pages, files) = parse_fincore(&output)
            .map_err(|line| anyhow!("{FINCORE} printed {line:?} instead of a number of pages"))?;
        residency.resident_pages = residency.resident_pages.saturating_add(resident_pages);
        residency.files += files;
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "fincore is no program of a run, and ends at once"
)]
fn run_fincore(program: &str, paths: &[PathBuf]) -> io::Result<String> {
    let output = Command::new(program)
        .args(["--raw", "--noheadings", "--output", "PAGES", "--"])
        .args(paths)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()?;
    // `fincore` fails if one file is missing, but still reports the others.
    if output.stdout.is_empty() && paths.iter().any(|path| path.exists()) {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the sum of the lines and their number, or the first line that is no number.
fn parse_fincore(text: &str) -> Result<(u64, u64), String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .try_fold((0_u64, 0), |(pages, files), line| {
            match line.parse::<u64>() {
                Ok(number) => Ok((pages.saturating_add(number), files + 1)),
                Err(_) => Err(line.chars().take(80).collect()),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fincore_pages_are_summed_and_other_output_is_an_error() {
        assert_eq!(parse_fincore("12\n0\n 7 \n"), Ok((19, 3)));
        assert_eq!(parse_fincore(""), Ok((0, 0)));
        assert_eq!(parse_fincore("12\nPAGES\n"), Err("PAGES".to_owned()));
    }

    #[test]
    fn a_failed_fincore_is_an_error_unless_all_files_are_gone() {
        run_fincore("false", &["/".into()]).unwrap_err();
        let output = run_fincore("false", &["/nonexistent/file".into()]);
        assert_eq!(output.unwrap(), "");
    }

    #[test]
    fn a_batch_is_full_before_the_kernel_would_refuse_it() {
        let mut batch = Batch::default();
        let added = (0..100_000)
            .take_while(|number| !batch.add(format!("/mnt/ledger/{number:08}").into()))
            .count();
        assert!((5_000..50_000).contains(&added), "{added}");
    }
}
