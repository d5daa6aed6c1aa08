//! What became of a run.

use faultline_isolation::Evidence;
use serde::{Deserialize, Serialize};

/// How a run ended. All but [`Outcome::Failed`] and [`Outcome::Interrupted`] are results: the run counts, and is not
/// repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Outcome {
    /// Its time was up, or its fixed work was done.
    Completed,
    /// The kernel killed it for lack of memory in its group.
    OutOfMemory,
    /// It ended by itself before its time.
    Exited {
        /// With this code.
        code: i32,
    },
    /// A signal ended it that this program did not send.
    Killed {
        /// Its number.
        signal: i32,
    },
    /// It executed nothing within [`super::plan::Stop::first_transaction_within`].
    NeverExecuted,
    /// No new slot for [`super::plan::Stop::no_progress_for`].
    NoProgress,
    /// Not at the tip within [`super::plan::Stop::at_tip_within`].
    NotAtTip,
    /// The run could not be made, or not as planned: a limit that does not hold, a recorder that ended, a host that is not
    /// fit.
    Failed {
        /// Why, and what to do.
        why: String,
    },
    /// The runner was stopped, killed, or had no room on its disk.
    Interrupted {
        /// Why.
        why: String,
    },
}

impl Outcome {
    /// Whether the run counts.
    pub fn is_result(&self) -> bool {
        !matches!(self, Outcome::Failed { .. } | Outcome::Interrupted { .. })
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Completed => f.write_str("completed"),
            Outcome::OutOfMemory => f.write_str("OOM-killed"),
            Outcome::Exited { code } => write!(f, "ended by itself with exit code {code}"),
            Outcome::Killed { signal } => {
                write!(f, "killed by signal {signal}, which did not come from here")
            }
            Outcome::NeverExecuted => f.write_str("never executed a transaction"),
            Outcome::NoProgress => f.write_str("made no progress any more"),
            Outcome::NotAtTip => f.write_str("was not at the tip in time"),
            Outcome::Failed { why } => write!(f, "failed: {why}"),
            Outcome::Interrupted { why } => write!(f, "interrupted: {why}"),
        }
    }
}

/// Whether a run tried what its arm says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Validity {
    /// What could be checked was as planned.
    #[default]
    Valid,
    /// It could not be seen whether it was: why.
    Unproven(String),
    /// It was not: why. The run is left out of comparisons.
    Invalid(String),
}

impl Validity {
    /// With one more reason, if there is one, why it cannot be said that the run was as planned. What it was not, it stays.
    #[must_use]
    pub fn doubted(self, why: Option<String>) -> Self {
        match (self, why) {
            (Validity::Valid, Some(why)) => Validity::Unproven(why),
            (Validity::Unproven(known), Some(why)) => Validity::Unproven(format!("{known}; {why}")),
            (validity, _) => validity,
        }
    }
}

/// All that is known of the end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Whether it counts as its arm.
    pub validity: Validity,
    /// What kernel and systemd say.
    pub evidence: Evidence,
    /// What was done and found on the way, in words: warnings, residency of the page cache, host.
    #[serde(default)]
    pub notes: Vec<String>,
    /// When the runner asked it to end, or saw that it had ended; `None` if it was never begun or an older version wrote this.
    #[serde(default)]
    pub stopped_unix_ns: Option<i64>,
}

impl Ending {
    /// Outcome and validity in a line.
    pub fn in_words(&self) -> String {
        match &self.validity {
            Validity::Valid => self.outcome.to_string(),
            Validity::Unproven(why) => format!("{} (unproven: {why})", self.outcome),
            Validity::Invalid(why) => format!("{} (invalid: {why})", self.outcome),
        }
    }
}
