use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datapoints {
    pub allow: Vec<Allowed>,
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
pub struct Allowed {
    pub name: String,
    pub field: String,
    pub kind: AllowedKind,
    pub tags: Vec<String>,
}

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

/// Replaces each character that a label name cannot have with an underscore.
pub fn label_name(tag: &str) -> impl Iterator<Item = char> {
    let fits = |(i, c): (usize, char)| {
        c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit())
    };
    tag.char_indices()
        .map(move |(i, c)| if fits((i, c)) { c } else { '_' })
}
