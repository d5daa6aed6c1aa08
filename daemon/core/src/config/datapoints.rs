//! `[datapoints]`. Rejects entries that would make an exposition invalid.

use super::{Config, Labels};
use faultline_metrics::{metrics::validator::DATAPOINT, named_enum};
use faultline_settings::{Table, Unique, distinct, text, whole_number};
use toml::de::DeValue;

/// Labels of histograms and summaries. `promtool` rejects a page that has them on another metric.
const RESERVED_LABELS: [&str; 2] = ["le", "quantile"];

#[derive(Debug, Clone, PartialEq)]
pub struct Datapoints {
    pub allow: Vec<AllowedDatapoint>,
    pub max_series: u64,
}

impl Default for Datapoints {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_series: 200,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AllowedDatapoint {
    pub name: String,
    pub field: String,
    pub kind: DatapointKind,
    pub tags: Vec<String>,
}

named_enum! {
    pub enum DatapointKind {
        /// The last value is exported as `agave_datapoint`.
        Level = "level",
        /// The values are summed into `agave_datapoint_sum_total`.
        Delta = "delta",
    }
}

/// Replaces each character that a label name cannot have with an underscore.
pub fn label_name(tag: &str) -> impl Iterator<Item = char> {
    tag.char_indices().map(|(i, c)| match c {
        'a'..='z' | 'A'..='Z' => c,
        '0'..='9' if i > 0 => c,
        _ => '_',
    })
}

pub fn read(table: &mut Table<'_>, config: &mut Config) {
    table.read_into(
        "max_series",
        &mut config.datapoints.max_series,
        whole_number,
    );
    let has_constant_labels = config.metrics.constant_labels_everywhere;
    let mut entries = Unique::default();
    table.tables("allow", |table| {
        let Some(allowed) = read_allowed(table, has_constant_labels) else {
            return;
        };
        let AllowedDatapoint {
            name, field, kind, ..
        } = &allowed;
        // Without tags: entries that differ only in tags would count a point without tags twice.
        let key = (name.clone(), field.clone(), *kind);
        let what = format!(
            "datapoints.allow: the {} {field:?} of {name:?}",
            kind.name()
        );
        if entries.insert(key, table.first_key_line(), what, table.errors()) {
            config.datapoints.allow.push(allowed);
        }
    });
}

fn read_allowed(table: &mut Table<'_>, has_constant_labels: bool) -> Option<AllowedDatapoint> {
    let name = table.read("name", text);
    let field = table.read("field", text);
    let kind = table.read("kind", |v| {
        let name = text(v)?;
        let kind = DatapointKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            format!("{name:?} is neither \"level\" (the last value) nor \"delta\" (summed)")
        })
    });
    let tags = table.read("tags", |v| distinct(v, |v| tag(v, has_constant_labels)));
    let tags = tags.unwrap_or_default().into_iter().map(|tag| tag.key);
    if let (Some(name), Some(field), Some(kind)) = (name, field, kind) {
        return Some(AllowedDatapoint {
            name,
            field,
            kind,
            tags: tags.collect(),
        });
    }
    let missing = table.missing(&["name", "field", "kind"]);
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        table.report(format!(
            "name, field and kind are all needed: add {missing}"
        ));
    }
    None
}

struct Tag {
    key: String,
    label: String,
}

/// Two tags are equal if they map to the same label.
impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.label == other.label
    }
}

fn tag(value: &DeValue<'_>, has_constant_labels: bool) -> Result<Tag, String> {
    let key = text(value)?;
    let label: String = label_name(&key).collect();
    let conflict = if DATAPOINT.label_names.contains(&label.as_str()) {
        "every series of a datapoint has"
    } else if label.starts_with("__") || RESERVED_LABELS.contains(&label.as_str()) {
        "Prometheus reserves"
    } else if has_constant_labels && Labels::default().by_name(&label).is_some() {
        "metrics.constant_labels_everywhere sets"
    } else {
        return Ok(Tag { key, label });
    };
    Err(format!(
        "the tag {key:?} would become the label {label}, which {conflict}: leave it out"
    ))
}
