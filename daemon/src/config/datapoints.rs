//! Datapoints that the operator wants exported.

use std::fmt;

/// Further datapoints, by allow-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datapoints {
    pub allow: Vec<Allowed>,
    /// At most this many series of them.
    pub max_series: u64,
}

impl Default for Datapoints {
    fn default() -> Self {
        Datapoints {
            allow: Vec::new(),
            max_series: 200,
        }
    }
}

/// One field of a datapoint that the operator wants exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub name: String,
    pub field: String,
    /// What the field's values are.
    pub kind: AllowedKind,
    /// Tags to keep as labels.
    pub tags: Vec<String>,
}

/// Whether a field is a level or a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedKind {
    /// The last value is exported as `agave_datapoint`.
    Level,
    /// The values are summed into `agave_datapoint_sum_total`.
    Delta,
}

impl fmt::Display for AllowedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllowedKind::Level => "level",
            AllowedKind::Delta => "delta",
        })
    }
}

/// The label of a tag: what a label may not hold becomes an underscore.
pub(crate) fn label_name(tag: &str) -> impl Iterator<Item = char> {
    let fits = |(i, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit())
    };
    tag.char_indices()
        .map(move |(i, c)| if fits((i, c)) { c } else { '_' })
}
