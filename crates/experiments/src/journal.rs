//! What has happened: one JSON object a line, appended and synced before the next step is taken. A line that was cut off
//! by a crash or a full disk never happened.

mod file;
mod state;

pub(crate) use file::is_full;
pub use file::{Journal, read};
pub use state::{Attempt, Begun, JournalState, Next, Searched, Tried};

use super::outcome::Ending;
use super::schedule::Turn;
use super::search;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Name of the file in the experiment's folder.
pub const FILE: &str = "journal.jsonl";

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, in nanoseconds since 1970.
    pub unix_ns: i64,
    /// What.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// The first line: what is going to be done.
    Planned {
        /// Of the experiment.
        name: String,
        /// SHA-256 of the plan's text, in hexadecimal.
        plan: String,
        /// Where the plan's file was: paths in it are relative to its folder.
        #[serde(default)]
        file: PathBuf,
        /// Of the random order.
        seed: u64,
        /// How groups are made: [`faultline_isolation::Launcher::name`].
        launcher: String,
        /// The schedule.
        turns: Vec<Turn>,
    },
    /// A runner takes over: at the beginning, and at each resume.
    Runner {
        /// Its process.
        pid: u32,
        /// The boot it runs in (`/proc/sys/kernel/random/boot_id`).
        boot: String,
    },
    /// A turn begins, for the first time or again.
    TurnBegun {
        /// [`Turn::number`].
        turn: u32,
        /// From 1 on.
        attempt: u32,
    },
    /// A step of a run is about to be taken.
    Step {
        /// [`super::schedule::Scheduled::run`].
        run: u32,
        /// Of its turn.
        attempt: u32,
        /// Which.
        step: Step,
    },
    /// A search is about to move its limit, or has come to a verdict. See [`search::Act::Line`].
    Search {
        /// [`super::schedule::Scheduled::run`].
        run: u32,
        /// Of its turn. An attempt that was cut off searches anew: lines of different attempts do not belong together.
        attempt: u32,
        /// What.
        line: search::Line,
    },
    /// A search has come to its end; the run is ended next.
    SearchAnswer {
        /// [`super::schedule::Scheduled::run`].
        run: u32,
        /// Of its turn.
        attempt: u32,
        /// What it came to.
        answer: Box<search::Answer>,
    },
    /// A run has ended, and everything of it is on disk.
    RunEnded {
        /// [`super::schedule::Scheduled::run`].
        run: u32,
        /// Of its turn.
        attempt: u32,
        /// How.
        ending: Box<Ending>,
    },
    /// The result of a run no longer counts, and its turn is begun again.
    Void {
        /// [`super::schedule::Scheduled::run`].
        run: u32,
        /// Of its turn.
        attempt: u32,
        /// Why, in words.
        why: String,
    },
    /// Somebody asked to stop.
    Stopped {
        /// Who or what.
        why: String,
    },
    /// No turn is left.
    Finished,
}

/// The steps of a run, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Cool-down and a look at the host.
    Host,
    /// Folders are cleared.
    Clear,
    /// The kept snapshot is copied.
    Restore,
    /// The page cache is dropped and looked at.
    Cool,
    /// The group is made, the program held back, the limits read back.
    Launch,
    /// The recorder is started.
    Record,
    /// The program begins.
    Begin,
    /// It runs.
    Watch,
    /// It is ended, with all of its group.
    End,
    /// What it leaves is looked at.
    Judge,
}

impl Step {
    /// What is done in it.
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
