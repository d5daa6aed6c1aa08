use faultline_runner::isolation::CgroupState;
use serde::{Deserialize, Serialize};

/// All except [`Outcome::Failed`] and [`Outcome::Interrupted`] are results: the run counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Outcome {
    Completed,
    OutOfMemory,
    Exited {
        code: i32,
    },
    Killed {
        signal: i32,
    },
    /// The validator executed no transaction.
    NeverExecuted,
    NoProgress,
    NotAtTip,
    /// The run shows nothing, for example because its limit had no effect.
    Failed {
        why: String,
    },
    /// The runner was stopped or killed, or its disk was full.
    Interrupted {
        why: String,
    },
}

impl Outcome {
    pub(crate) fn runner_killed() -> Self {
        let why = "its runner was killed, or the host went down".to_owned();
        Self::Interrupted { why }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { why } => Some(why),
            _ => None,
        }
    }

    pub fn is_result(&self) -> bool {
        !matches!(self, Self::Failed { .. } | Self::Interrupted { .. })
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::OutOfMemory => f.write_str("OOM-killed"),
            Self::Exited { code } => write!(f, "ended by itself with exit code {code}"),
            Self::Killed { signal } => {
                write!(
                    f,
                    "killed by signal {signal}, which the runner did not send"
                )
            }
            Self::NeverExecuted => f.write_str("never executed a transaction"),
            Self::NoProgress => f.write_str("made no progress any more"),
            Self::NotAtTip => f.write_str("was not at the tip in time"),
            Self::Failed { why } => write!(f, "failed: {why}"),
            Self::Interrupted { why } => write!(f, "interrupted: {why}"),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Validity {
    #[default]
    Valid,
    /// Could not be checked.
    Unproven(String),
    /// Excluded from comparisons.
    Invalid(String),
}

impl Validity {
    /// An invalid run stays invalid.
    #[must_use]
    pub fn with_doubt(self, why: Option<String>) -> Self {
        match (self, why) {
            (Self::Valid, Some(why)) => Self::Unproven(why),
            (Self::Unproven(known), Some(why)) => Self::Unproven(format!("{known}; {why}")),
            (validity, _) => validity,
        }
    }

    pub fn describe_outcome(&self, outcome: &Outcome) -> String {
        match self {
            Self::Valid => outcome.to_string(),
            Self::Unproven(why) => format!("{outcome} (unproven: {why})"),
            Self::Invalid(why) => format!("{outcome} (invalid: {why})"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub outcome: Outcome,
    pub validity: Validity,
    #[serde(rename = "evidence")]
    pub cgroup_state: CgroupState,
    /// Warnings and remarks on page cache and host.
    #[serde(default)]
    pub notes: Vec<String>,
    /// When the end was requested or seen. `None` if the run never began, or in older journals.
    #[serde(default)]
    pub stopped_unix_ns: Option<i64>,
}

impl Ending {
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            validity: Validity::Valid,
            cgroup_state: CgroupState::default(),
            notes: Vec::new(),
            stopped_unix_ns: None,
        }
    }

    pub fn in_words(&self) -> String {
        self.validity.describe_outcome(&self.outcome)
    }
}
