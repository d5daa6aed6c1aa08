//! Counts cached pages with `fincore` of util-linux, which uses `mmap` and `mincore` and loads
//! nothing. Decision 14 explains why non-blocking reads are not used.

use anyhow::{Result, anyhow};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(super) const PROGRAM: &str = "fincore";

/// Bytes of paths in one command line; the kernel allows about 2 MiB including the environment.
const MAX_PATH_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Batch {
    paths: Vec<PathBuf>,
    bytes: usize,
}

impl Batch {
    pub(super) fn add(&mut self, path: PathBuf) -> bool {
        self.bytes += path.as_os_str().len() + 9;
        self.paths.push(path);
        self.bytes >= MAX_PATH_BYTES
    }

    /// Counts the cached pages of the batch and empties it; also returns the number of files that
    /// still existed.
    pub(super) fn count(&mut self) -> Result<(u64, u64)> {
        let paths = std::mem::take(self).paths;
        if paths.is_empty() {
            return Ok((0, 0));
        }
        let printed = run(&paths).map_err(|error| {
            anyhow!(match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "{PROGRAM} is not in PATH, and the page cache cannot be inspected without it: install util-linux-extra, \
                     on older systems util-linux"
                ),
                _ => format!("{PROGRAM}: {error}"),
            })
        })?;
        parse(&printed)
            .map_err(|line| anyhow!("{PROGRAM} says {line:?} where a number of pages was expected"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it reads and ends at once; it is none of the programs of a run"
)]
fn run(paths: &[PathBuf]) -> io::Result<String> {
    let options = ["--raw", "--noheadings", "--output", "PAGES"].map(OsString::from);
    let arguments = options
        .iter()
        .map(OsString::as_os_str)
        .chain([OsStr::new("--")]);
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .args(paths)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    // `fincore` fails if one file is missing, but still reports the others.
    Ok(String::from_utf8_lossy(&command.output()?.stdout).into_owned())
}

fn parse(text: &str) -> Result<(u64, u64), String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.try_fold((0_u64, 0), |(pages, files), line| {
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
        assert_eq!(parse("12\n0\n 7 \n"), Ok((19, 3)));
        assert_eq!(parse(""), Ok((0, 0)));
        assert_eq!(parse("12\nPAGES\n"), Err("PAGES".to_owned()));
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
