use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datapoints {
    pub allow: Vec<AllowedDatapoint>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDatapoint {
    pub name: String,
    pub field: String,
    pub kind: DatapointKind,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatapointKind {
    /// The last value is exported as `agave_datapoint`.
    Level,
    /// The values are summed into `agave_datapoint_sum_total`.
    Delta,
}

impl fmt::Display for DatapointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DatapointKind::Level => "level",
            DatapointKind::Delta => "delta",
        })
    }
}

/// Replaces each character that a label name cannot have with an underscore.
pub fn label_name(tag: &str) -> impl Iterator<Item = char> {
    let is_valid = |(i, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit())
    };
    tag.char_indices()
        .map(move |(i, c)| if is_valid((i, c)) { c } else { '_' })
}
