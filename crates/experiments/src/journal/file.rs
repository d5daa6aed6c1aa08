//! The file: lines are added at its end and never changed.

use super::{Entry, Line};
use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A journal that is written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Journal {
    /// A new one; that it is there is on disk when this returns.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create_new(path).with_context(|| path.display().to_string())?;
        if let Some(folder) = path.parent() {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .with_context(|| folder.display().to_string())?;
        }
        Ok(Journal {
            file,
            path: path.to_owned(),
            length: 0,
        })
    }

    /// One that is there, and what is in it. A line that was cut off is removed.
    ///
    /// # Errors
    /// It cannot be read or written, or [`read`] refuses it.
    pub fn open(path: &Path) -> anyhow::Result<(Self, Vec<Line>)> {
        let (lines, length) = whole(path)?;
        let file_name = || path.display().to_string();
        let mut file = OpenOptions::new()
            .write(true)
            .open(path)
            .with_context(file_name)?;
        file.set_len(length)
            .and_then(|()| file.sync_all())
            .with_context(file_name)?;
        file.seek(SeekFrom::Start(length)).with_context(file_name)?;
        Ok((
            Journal {
                file,
                path: path.to_owned(),
                length,
            },
            lines,
        ))
    }

    /// Adds a line; it is on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written, as on a full disk; then nothing of it is left, as far as that can be done.
    pub fn append(&mut self, line: &Line) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line).context("a line of the journal")?;
        text.push(b'\n');
        let written = self
            .file
            .write_all(&text)
            .and_then(|()| self.file.sync_data());
        if written.is_err() {
            // Half a line is tolerated at the end only.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
        } else {
            self.length += text.len() as u64;
        }
        written.with_context(|| self.path.display().to_string())
    }
}

/// All lines. What was cut off at the end is left out.
///
/// # Errors
/// There is no such file, it cannot be read, or a line in the middle is no line of a journal.
pub fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    whole(path).map(|(lines, _)| lines)
}

/// The lines, and the bytes up to the end of the last one.
fn whole(path: &Path) -> anyhow::Result<(Vec<Line>, u64)> {
    let file_name = || path.display().to_string();
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            anyhow::bail!(
                "{}: no experiment was begun here (there is no {}): `faultline experiment run PLAN` begins it",
                folder.display(),
                super::FILE
            )
        }
        read => read.with_context(file_name)?,
    };
    let mut lines = Vec::new();
    let (mut end, mut at) = (0, 0);
    let mut bad: Option<(usize, String)> = None;
    for (number, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        at += text.len();
        match parse(text) {
            // A power cut leaves nothing good behind what is bad.
            Ok(line) if bad.is_none() => {
                lines.push(line);
                end = at;
            }
            Ok(_) => {
                let (number, why) = bad.unwrap_or_default();
                anyhow::bail!(
                    "{}:{number}: this is no line of a journal: {why}",
                    path.display()
                );
            }
            Err(why) => bad = bad.or(Some((number + 1, why))),
        }
    }
    Ok((lines, end as u64))
}

fn parse(text: &[u8]) -> Result<Line, String> {
    let text = text.strip_suffix(b"\n").ok_or("it has no end")?;
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Whether there was no room on the disk.
pub(crate) fn is_full(error: &anyhow::Error) -> bool {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
    let of_io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().map(|io| io.kind())
    };
    error
        .chain()
        .filter_map(of_io)
        .any(|kind| full.contains(&kind))
}

impl Line {
    /// What happened now.
    pub fn new(unix_ns: i64, entry: Entry) -> Self {
        Line { unix_ns, entry }
    }
}
