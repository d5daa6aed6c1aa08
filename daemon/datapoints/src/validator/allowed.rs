//! Datapoints beyond the catalog, from the operator's allow-list.

mod values;

pub use values::AllowListSeries;

use super::field_index::FieldIndex;
use faultline_agave::line::{Point, Value};
use faultline_core::config::{AllowedDatapoint, DatapointKind, Datapoints, label_name};
use foldhash::HashMap;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[derive(Default)]
pub struct AllowList {
    by_name: HashMap<Box<[u8]>, AllowedFields>,
    pub max_series: usize,
    group_count: usize,
    /// Unique for each list; 0 for the default list.
    id: u64,
}

pub struct AllowedFields {
    name: Arc<str>,
    fields: FieldIndex,
    groups: Vec<TagGroup>,
}

/// Fields of one datapoint with the same allowed tags.
struct TagGroup {
    label_names: Arc<[Arc<str>]>,
    /// The index of its rows in [`AllowListSeries`].
    index: usize,
    fields: Vec<AllowedField>,
}

#[derive(Clone)]
struct AllowedField {
    field: Arc<str>,
    kind: DatapointKind,
    /// From [`AllowedFields::fields`].
    field_index: usize,
}

impl AllowList {
    pub fn new(config: &Datapoints) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut by_name: HashMap<Box<[u8]>, AllowedFields> = HashMap::default();
        let mut group_count = 0;
        for allowed in &config.allow {
            by_name
                .entry(allowed.name.as_bytes().into())
                .or_insert_with(|| AllowedFields {
                    name: allowed.name.as_str().into(),
                    fields: FieldIndex::default(),
                    groups: Vec::new(),
                })
                .add(allowed, &mut group_count);
        }
        let max_series = usize::try_from(config.max_series).unwrap_or(usize::MAX);
        Self {
            by_name,
            max_series,
            group_count,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub fn allowed_fields(&self, name: &[u8]) -> Option<&AllowedFields> {
        self.by_name.get(name)
    }
}

impl AllowedFields {
    fn add(&mut self, allowed: &AllowedDatapoint, group_count: &mut usize) {
        let label_names = allowed
            .tags
            .iter()
            .map(|tag| label_name(tag).collect::<String>().into())
            .collect();
        let allowed_field = AllowedField {
            field: allowed.field.as_str().into(),
            kind: allowed.kind,
            field_index: self.fields.insert(&allowed.field),
        };
        match self
            .groups
            .iter_mut()
            .find(|group| group.label_names == label_names)
        {
            Some(group) => group.fields.push(allowed_field),
            None => {
                self.groups.push(TagGroup {
                    label_names,
                    index: *group_count,
                    fields: vec![allowed_field],
                });
                *group_count += 1;
            }
        }
    }

    /// Reads the allowed fields in one pass, up to a malformed field. The first of repeated keys
    /// counts, so that the rest need not be read. True if a field is a number.
    fn read(&self, point: &Point<'_>, field_values: &mut Vec<FieldValue>) -> bool {
        field_values.clear();
        field_values.resize(self.fields.len(), FieldValue::Missing);
        let (mut missing, mut has_number) = (self.fields.len(), false);
        for field in point.fields().map_while(Result::ok) {
            let cell = self
                .fields
                .get(field.key)
                .and_then(|index| field_values.get_mut(index));
            let Some(cell) = cell.filter(|cell| matches!(cell, FieldValue::Missing)) else {
                continue;
            };
            *cell = field
                .value()
                .ok()
                .and_then(as_number)
                .map_or(FieldValue::NotANumber, FieldValue::Number);
            has_number |= matches!(cell, FieldValue::Number(_));
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
        has_number
    }
}

#[derive(Clone, Copy)]
enum FieldValue {
    Missing,
    NotANumber,
    Number(f64),
}

/// The value of the tag with this label; "" if the point lacks it.
fn tag_value<'p>(point: &Point<'p>, label: &str) -> &'p str {
    point
        .tags()
        .flatten()
        .find(|tag| label_name(tag.key).eq(label.chars()))
        .map_or("", |tag| tag.value)
}

fn as_number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int(n) => Some(n as f64),
        Value::Float(x) => Some(x).filter(|x| x.is_finite()),
        Value::Bool(b) => Some(f64::from(b)),
        Value::Str(_) => None,
    }
}

#[cfg(test)]
mod tests;
