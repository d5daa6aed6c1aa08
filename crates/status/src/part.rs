//! Facts of a status line, each with its urgency.

use serde::{Deserialize, Serialize};

/// How urgent something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Good,
    Warn,
    Bad,
    /// Neutral; also stands for an unknown tone of a newer release.
    #[default]
    #[serde(other)]
    Plain,
}

/// One of several facts that are shown in one line. Its text may contain names from elsewhere: a page has to escape it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusItem {
    pub text: String,
    pub tone: Tone,
}

impl StatusItem {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        StatusItem {
            text: text.into(),
            tone,
        }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        StatusItem::new(text, Tone::Plain)
    }
}
