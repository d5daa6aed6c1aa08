//! The journal has one JSON object per line. Each line is synced before the next step. Readers
//! ignore a partial last line.

mod file;
mod state;

use super::{folder, outcome::Ending, plan::Plan, schedule::Turn, search};
pub use file::{Journal, read};
use serde::{Deserialize, Serialize};
pub use state::{Attempt, CountedRun, JournalState, Next, RunAttempt, SearchLog};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub unix_ns: i64,
    #[serde(flatten)]
    pub entry: Entry,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// The first line.
    Planned(Planned),
    /// A runner starts or resumes the experiment.
    Runner {
        pid: u32,
        boot: String,
        /// Empty in journals of older versions.
        #[serde(default)]
        host: String,
    },
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
    /// A search set a limit or ended a dwell.
    Search {
        run: u32,
        /// A later attempt searches anew and ignores the lines of this one.
        attempt: u32,
        line: search::Line,
    },
    /// A search has finished; the run is ended next.
    SearchAnswer {
        run: u32,
        attempt: u32,
        answer: Box<search::Answer>,
    },
    /// A run has ended, and all its data is on disk.
    RunEnded {
        run: u32,
        attempt: u32,
        ending: Box<Ending>,
    },
    /// A result no longer counts, and its turn is repeated.
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
    /// SHA-256 of the plan's text, in hexadecimal.
    pub plan: String,
    /// The plan's file. Relative paths in the plan start at its folder.
    #[serde(default)]
    pub file: PathBuf,
    pub seed: u64,
    /// [`faultline_runner::isolation::Launcher::name`]; empty with runners per block.
    pub launcher: String,
    pub turns: Vec<Turn>,
}

impl Planned {
    pub fn new(plan: &Plan, launcher: String, turns: Vec<Turn>) -> Self {
        Planned {
            name: plan.name.clone(),
            plan: folder::digest(&plan.text),
            file: plan.file.clone(),
            seed: plan.seed,
            launcher,
            turns,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Host,
    Clear,
    Restore,
    /// Drop and check the page cache.
    Cool,
    /// Make the cgroup, hold back the program, read back the limits.
    Launch,
    Record,
    Begin,
    Watch,
    /// Stop the whole cgroup.
    End,
    Judge,
}

impl Step {
    pub fn in_words(self) -> &'static str {
        match self {
            Step::Host => "waiting for a fit host",
            Step::Clear => "clearing folders",
            Step::Restore => "restoring",
            Step::Cool => "dropping the page cache",
            Step::Launch => "making the group",
            Step::Record => "starting the recorder",
            Step::Begin => "letting it begin",
            Step::Watch => "runs",
            Step::End => "ending it",
            Step::Judge => "judging",
        }
    }
}
