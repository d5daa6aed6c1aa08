use super::Line;
use crate::folder::JOURNAL;
use anyhow::{Context, Result};
use faultline_common::files::AtPath;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Journal {
    /// Durable on return. Fails if the file exists.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).at(path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .at(folder)?;
        }
        Ok(Journal {
            file,
            path: path.to_owned(),
            length: 0,
        })
    }

    /// Removes an incomplete last line.
    pub fn open(path: &Path) -> Result<(Self, Vec<Line>)> {
        let (lines, length) = read_lines(path)?;
        let mut file = OpenOptions::new().write(true).open(path).at(path)?;
        file.set_len(length)
            .and_then(|()| file.sync_all())
            .at(path)?;
        file.seek(SeekFrom::Start(length)).at(path)?;
        Ok((
            Journal {
                file,
                path: path.to_owned(),
                length,
            },
            lines,
        ))
    }

    /// Durable on return. On failure, a partial line is removed if possible.
    pub fn append(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("a line of the journal")?;
        text.push(b'\n');
        let written = self
            .file
            .write_all(&text)
            .and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A partial line is only tolerated at the end.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
        } else {
            self.length += text.len() as u64;
        }
        written.at(&self.path)
    }
}

/// Fails on an invalid line in the middle.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    read_lines(path).map(|(lines, _)| lines)
}

fn read_lines(path: &Path) -> Result<(Vec<Line>, u64)> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            anyhow::bail!(
                "{}: no experiment was begun here (there is no {}): `faultline experiment run PLAN` begins it",
                folder.display(),
                JOURNAL
            )
        }
        read => read.at(path)?,
    };
    let mut lines = Vec::new();
    let (mut end, mut at) = (0, 0);
    let mut first_invalid: Option<(usize, String)> = None;
    for (number, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        at += text.len();
        match parse(text) {
            // A power cut damages only the end: a valid line behind an invalid one is an error.
            Ok(line) if first_invalid.is_none() => {
                lines.push(line);
                end = at;
            }
            Ok(_) => {
                let (number, why) = first_invalid.unwrap_or_default();
                anyhow::bail!(
                    "{}:{number}: this is no line of a journal: {why}",
                    path.display()
                );
            }
            Err(why) => first_invalid = first_invalid.or(Some((number + 1, why))),
        }
    }
    Ok((lines, end as u64))
}

fn parse(text: &[u8]) -> Result<Line, String> {
    let text = text.strip_suffix(b"\n").ok_or("it has no end")?;
    serde_json::from_slice(text).map_err(|error| error.to_string())
}
