//! One JSON object per line. Each line is synced before the next step. Readers ignore an incomplete
//! last line.
//!
//! A turn is the runs that execute at the same time: one, or with `concurrent` one per lane. An
//! attempt is one execution of a turn.

mod state;

use super::{
    folder::{self, JOURNAL},
    outcome::Ending,
    plan::Plan,
    schedule::Turn,
    search,
};
use anyhow::{Context, Result};
use faultline_common::{
    files::{AtPath, open_regular},
    output::say,
};
use serde::{Deserialize, Serialize};
pub use state::{Attempt, CompletedRun, JournalState, NextAttempt, RunAttempt, SearchLog};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct JournalLine {
    pub unix_ns: i64,
    #[serde(flatten)]
    pub entry: Entry,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry", expecting = "a JSON object")]
pub enum Entry {
    /// The first line.
    Planned(Planned),
    /// A runner starts or resumes.
    Runner {
        pid: u32,
        /// For people who read the journal: a new value means that the host has restarted.
        boot: String,
        /// Empty in journals of older versions.
        #[serde(default)]
        host: String,
    },
    /// Later lines with a `run` of this turn and this `attempt` belong to the attempt.
    TurnBegun {
        turn: u32,
        /// From 1 on.
        attempt: u32,
    },
    Step {
        run: u32,
        attempt: u32,
        step: Step,
    },
    /// A search set a memory limit or ended a dwell, a period with one headroom: what a limit
    /// leaves above unreclaimable memory.
    Search {
        run: u32,
        /// A later attempt starts a new search.
        attempt: u32,
        #[serde(rename = "line")]
        event: search::SearchEvent,
    },
    /// The search is over. The runner then stops the run.
    SearchAnswer {
        run: u32,
        attempt: u32,
        answer: Box<search::SearchAnswer>,
    },
    /// The processes of the run and its recorder have ended.
    RunEnded {
        run: u32,
        attempt: u32,
        ending: Box<Ending>,
    },
    /// The result no longer counts. The next attempt repeats the whole turn of the run.
    Void {
        run: u32,
        attempt: u32,
        why: String,
    },
    Stopped {
        why: String,
    },
    Finished,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub name: String,
    /// SHA-256 of the plan's text.
    #[serde(rename = "plan")]
    pub plan_digest: String,
    /// Relative paths in the plan start at the folder of this file.
    #[serde(default)]
    pub file: PathBuf,
    pub seed: u64,
    /// [`faultline_runner::isolation::Launcher::name`]. Empty with host blocks: each has a runner
    /// and a journal on its host.
    pub launcher: String,
    pub turns: Vec<Turn>,
}

impl Planned {
    pub fn new(plan: &Plan, launcher: String, turns: Vec<Turn>) -> Self {
        Self {
            name: plan.name.clone(),
            plan_digest: folder::digest(&plan.text),
            file: plan.file.clone(),
            seed: plan.seed,
            launcher,
            turns,
        }
    }
}

/// Steps of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Host,
    Clear,
    Restore,
    /// Then measure how many pages of the folders are still in memory.
    #[serde(rename = "cool")]
    DropPageCache,
    /// Create the cgroup with a process that does not execute the program yet. Check the limits.
    Launch,
    Record,
    Begin,
    Watch,
    End,
    Judge,
}

impl Step {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Host => "waiting for a fit host",
            Self::Clear => "clearing folders",
            Self::Restore => "restoring",
            Self::DropPageCache => "dropping the page cache",
            Self::Launch => "creating the cgroup",
            Self::Record => "starting the recorder",
            Self::Begin => "starting the program",
            Self::Watch => "running",
            Self::End => "stopping its processes",
            Self::Judge => "checking the result",
        }
    }
}

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
        Ok(Self {
            file,
            path: path.to_owned(),
            length: 0,
        })
    }

    /// Removes an incomplete last line.
    pub fn open(path: &Path) -> Result<(Self, Vec<JournalLine>)> {
        let (lines, length) = read_lines(path)?;
        let mut file = OpenOptions::new().write(true).open(path).at(path)?;
        let removed = file.metadata().at(path)?.len().saturating_sub(length);
        file.set_len(length)
            .and_then(|()| file.sync_all())
            .at(path)?;
        if removed > 0 {
            say(&format!(
                "{}: removed the last line, which is incomplete (bytes: {removed})",
                path.display()
            ));
        }
        file.seek(SeekFrom::Start(length)).at(path)?;
        let path = path.to_owned();
        Ok((Self { file, path, length }, lines))
    }

    /// Durable on return. On failure, removes a partial line if possible.
    pub fn append(&mut self, line: &JournalLine) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("a line of the journal")?;
        text.push(b'\n');
        let written = self
            .file
            .write_all(&text)
            .and_then(|()| self.file.sync_data());
        if written.is_ok() {
            self.length += text.len() as u64;
        } else {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
        }
        written.at(&self.path)
    }
}

/// Ignores an incomplete last line. Fails on any other line that this version cannot read, with
/// [`serde_json::Error::is_data`] if a newer one can have written it.
pub fn read(path: &Path) -> Result<Vec<JournalLine>> {
    read_lines(path).map(|(lines, _)| lines)
}

/// Also returns the complete lines' length in bytes.
fn read_lines(path: &Path) -> Result<(Vec<JournalLine>, u64)> {
    let mut bytes = Vec::new();
    match open_regular(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            anyhow::bail!(
                "{}: no experiment was begun here (there is no {JOURNAL}): `faultline experiment run PLAN` begins it",
                folder.display()
            )
        }
        read => read.at(path)?,
    };
    let (mut lines, mut length) = (Vec::new(), 0);
    for (number, text) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let end = length + text.len();
        let (is_whole, is_last) = (text.ends_with(b"\n"), end == bytes.len());
        match serde_json::from_slice(text) {
            Ok(line) if is_whole => {
                lines.push(line);
                length = end;
            }
            Err(why) if !is_last || is_whole && why.is_data() => Err(why).with_context(|| {
                format!(
                    "{}:{number}: this is no line of a journal of this version; if a newer faultline wrote it, use that one",
                    path.display()
                )
            })?,
            // A power cut damages only the end.
            _ => {}
        }
    }
    Ok((lines, length as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNER: &str = "{\"unix_ns\":1,\"entry\":\"runner\",\"pid\":1,\"boot\":\"b\"}\n";

    #[test]
    fn an_entry_of_a_newer_version_is_refused_and_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        let newer = "{\"unix_ns\":2,\"entry\":\"void_newer\",\"run\":1}\n";
        for text in [
            format!("{RUNNER}{newer}"),
            format!("{RUNNER}{newer}{RUNNER}"),
        ] {
            std::fs::write(&path, &text).unwrap();
            for error in [read(&path).unwrap_err(), Journal::open(&path).unwrap_err()] {
                let error = format!("{error:#}");
                for words in [
                    "journal.jsonl:2: this is no line of a journal of this version; ",
                    "if a newer faultline wrote it, use that one: unknown variant `void_newer`",
                ] {
                    assert!(error.contains(words), "{words}: {error}");
                }
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn only_an_incomplete_last_line_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        for end in [&RUNNER[..RUNNER.len() - 1], "{\"unix_ns\":2,\n", "\0\0"] {
            std::fs::write(&path, format!("{RUNNER}{end}")).unwrap();
            assert_eq!(read(&path).unwrap().len(), 1);
            assert_eq!(Journal::open(&path).unwrap().1.len(), 1);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), RUNNER);
        }
        std::fs::write(&path, format!("{RUNNER}broken\nbroken\n")).unwrap();
        let error = Journal::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("journal.jsonl:2: this is no line of a journal"),
            "{error}"
        );
    }
}
