use super::{AllowList, AllowedField, AllowedFields, FieldValue, TagGroup, tag_value};
use crate::validator::tally::MAX_DELTA;
use faultline_agave::line::Point;
use faultline_core::config::DatapointKind;
use faultline_metrics::{
    AddReadings, LabelText, Reading,
    metrics::{daemon, validator as v},
};
use itertools::Itertools;
use std::{collections::BTreeMap, mem, sync::Arc};

/// Identifies a series; gauges sort before sums.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    is_sum: bool,
    name: Arc<str>,
    field: Arc<str>,
    /// Names and values, sorted by name. Empty values are left out, because Prometheus treats an
    /// empty label as absent: so equal keys mean equal series.
    tags: Box<[(Arc<str>, Arc<str>)]>,
}

impl SeriesKey {
    fn new(
        name: &Arc<str>,
        group: &TagGroup,
        allowed_field: &AllowedField,
        tag_values: &[&str],
    ) -> Self {
        let tags = group
            .label_names
            .iter()
            .cloned()
            .zip(tag_values.iter().map(|value| Arc::<str>::from(*value)))
            .filter(|(_, value)| !value.is_empty())
            .sorted();
        Self {
            is_sum: allowed_field.kind == DatapointKind::Delta,
            name: Arc::clone(name),
            field: Arc::clone(&allowed_field.field),
            tags: tags.collect(),
        }
    }
}

#[derive(Clone)]
struct Series {
    key: SeriesKey,
    value: f64,
}

/// Series of the fields of `[[datapoints.allow]]`, including those of earlier lists.
#[derive(Default)]
pub struct AllowListSeries {
    series: SeriesTable,
    dropped_values: u64,
    /// Cached rows of each group of the list `list_id`, so that a line of known series needs no
    /// lookup by key.
    rows: Vec<Vec<CachedRow>>,
    list_id: u64,
    field_values: Vec<FieldValue>,
}

#[derive(Default)]
struct SeriesTable {
    series: Vec<Series>,
    by_key: BTreeMap<SeriesKey, usize>,
}

impl SeriesTable {
    /// Creates the series if necessary; `None` if the limit is reached.
    fn find_or_create(&mut self, max_series: usize, key: SeriesKey) -> Option<usize> {
        if let Some(index) = self.by_key.get(&key) {
            return Some(*index);
        }
        let index = self.series.len();
        if index >= max_series {
            return None;
        }
        self.by_key.insert(key.clone(), index);
        self.series.push(Series { key, value: 0.0 });
        Some(index)
    }
}

/// The series of a group's fields for one combination of tag values. Rows are sorted by it.
#[derive(Clone)]
struct CachedRow {
    tag_values: Box<[Arc<str>]>,
    series_indices: Vec<Option<usize>>,
}

impl AllowListSeries {
    /// True if the point has a number in an allowed field.
    pub fn add(
        &mut self,
        list: &AllowList,
        allowed_fields: &AllowedFields,
        point: &Point<'_>,
    ) -> bool {
        let mut field_values = mem::take(&mut self.field_values);
        let has_number = allowed_fields.read(point, &mut field_values);
        if has_number {
            if self.list_id != list.id {
                (self.list_id, self.rows) = (list.id, Vec::new());
            }
            self.rows.resize(list.group_count, Vec::new());
            for group in &allowed_fields.groups {
                self.add_group(
                    list.max_series,
                    &allowed_fields.name,
                    group,
                    point,
                    &field_values,
                );
            }
        }
        self.field_values = field_values;
        has_number
    }

    fn add_group(
        &mut self,
        max_series: usize,
        name: &Arc<str>,
        group: &TagGroup,
        point: &Point<'_>,
        field_values: &[FieldValue],
    ) {
        let tag_values = group
            .label_names
            .iter()
            .map(|label| tag_value(point, label))
            .collect_vec();
        let rows = &mut self.rows[group.index];
        let known = rows.binary_search_by(|row| {
            row.tag_values
                .iter()
                .map(|v| &**v)
                .cmp(tag_values.iter().copied())
        });
        let row = known.unwrap_or_else(|row| {
            let new_row = CachedRow {
                tag_values: tag_values.iter().map(|value| Arc::from(*value)).collect(),
                series_indices: vec![None; group.fields.len()],
            };
            rows.insert(row, new_row);
            row
        });
        let series_indices = &mut rows[row].series_indices;
        for (field, cell) in group.fields.iter().zip(&mut *series_indices) {
            let FieldValue::Number(value) = field_values[field.field_index] else {
                continue;
            };
            // A negative delta comes from a wrapped cast and would make the sum fall. A too large
            // delta could make it infinite.
            if field.kind == DatapointKind::Delta && !(0.0..=MAX_DELTA as f64).contains(&value) {
                continue;
            }
            if cell.is_none() {
                let key = SeriesKey::new(name, group, field, &tag_values);
                *cell = self.series.find_or_create(max_series, key);
            }
            match *cell {
                Some(index) => self.series.series[index].update(value),
                None => self.dropped_values += 1,
            }
        }
        // Nothing limits the number of rows without a series.
        if series_indices.iter().all(Option::is_none) {
            rows.remove(row);
        }
    }

    /// The gauges of `other` count only if it `is_newer` or they are missing here.
    pub fn merge(&mut self, max_series: usize, other: Self, is_newer: bool) {
        self.dropped_values += other.dropped_values;
        for series in other.series.series {
            if !is_newer && !series.key.is_sum && self.series.by_key.contains_key(&series.key) {
                continue;
            }
            match self.series.find_or_create(max_series, series.key) {
                Some(index) => self.series.series[index].update(series.value),
                None => self.dropped_values += 1,
            }
        }
    }

    pub fn forget_gauges(&mut self) {
        let SeriesTable { series, by_key } = &mut self.series;
        series.retain(|series| series.key.is_sum);
        let keys = series.iter().map(|series| series.key.clone());
        *by_key = keys.zip(0..).collect();
        self.rows.clear();
    }

    pub fn add_readings(&self, with_gauges: bool, out: &mut Vec<Reading>) {
        let SeriesTable { series, by_key } = &self.series;
        let series = by_key.values().map(|index| &series[*index]);
        out.extend(
            series
                .filter(|series| with_gauges || series.key.is_sum)
                .map(Series::reading),
        );
        out.integer(&daemon::DATAPOINT_OVERFLOW, [], self.dropped_values);
    }
}

impl Series {
    /// A gauge keeps the last received value, whatever its point's time: a time far ahead must not
    /// block later values.
    fn update(&mut self, value: f64) {
        self.value = if self.key.is_sum {
            self.value + value
        } else {
            value
        };
    }

    fn reading(&self) -> Reading {
        let SeriesKey {
            name, field, tags, ..
        } = &self.key;
        let text = |text: &Arc<str>| LabelText::Shared(Arc::clone(text));
        let tags = tags
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let metric = if self.key.is_sum {
            &v::DATAPOINT_SUM
        } else {
            &v::DATAPOINT
        };
        Reading::real(metric, [text(name), text(field)], self.value).with_tags(tags)
    }
}
