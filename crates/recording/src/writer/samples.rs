use std::{collections::HashMap, fmt::Write};

use faultline_metrics::{
    Batch, LabelText, Metric, Reading, Source, Stamp, Tick, Value, metrics::validator::PHASE,
};
use rusqlite::Connection;

use super::keyed_samples::{
    KeyedSamples, Number, RowCounts, SEPARATOR, SampledSources, insert_into,
};
use crate::schema::{
    Column, ColumnKind, DEVICE_COLUMNS, POOL_COLUMNS, PerTickTable, metrics_without_samples,
};

#[derive(Debug)]
struct PerTickRow {
    sql: &'static str,
    name: &'static str,
    values: Vec<Number>,
    has_values: bool,
}

/// State between ticks, so that only changes are written.
#[derive(Debug)]
pub struct Samples {
    destinations: Destinations,
    per_tick_rows: Vec<PerTickRow>,
    /// Samples of named things: pools, devices and series. In the order of [`KEYED_TABLES`].
    keyed_samples: [KeyedSamples; 3],
    /// Sample time of each source at the last written tick.
    sampled_at: [Option<Stamp>; Source::ALL.len()],
    series_name_buffer: String,
}

impl Samples {
    pub fn new() -> Self {
        let row = |table: PerTickTable| PerTickRow {
            sql: insert_into(table.name()),
            name: table.name(),
            values: vec![Number::None; table.columns().len()],
            has_values: false,
        };
        Self {
            destinations: Destinations::new(),
            per_tick_rows: PerTickTable::ALL.into_iter().map(row).collect(),
            keyed_samples: [
                KeyedSamples::new(KEYED_TABLES[POOL_TABLES], POOL_COLUMNS.len()),
                KeyedSamples::new(KEYED_TABLES[DEVICE_TABLES], DEVICE_COLUMNS.len()),
                KeyedSamples::new(KEYED_TABLES[SERIES_TABLES], 1),
            ],
            sampled_at: [None; Source::ALL.len()],
            series_name_buffer: String::new(),
        }
    }

    pub fn forget_keys(&mut self) {
        self.keyed_samples
            .iter_mut()
            .for_each(KeyedSamples::forget_keys);
    }

    pub fn invalidate(&mut self) {
        self.keyed_samples
            .iter_mut()
            .for_each(KeyedSamples::invalidate);
        for row in &mut self.per_tick_rows {
            row.values.fill(Number::None);
            row.has_values = false;
        }
        self.sampled_at = [None; Source::ALL.len()];
    }

    pub fn forget_gone_keys(&mut self) {
        self.keyed_samples
            .iter_mut()
            .for_each(KeyedSamples::forget_gone_keys);
    }

    pub fn forget_key_ids(&mut self) {
        self.keyed_samples
            .iter_mut()
            .for_each(KeyedSamples::forget_key_ids);
    }

    pub fn update_sampled(&mut self, tick: &Tick) -> SampledSources {
        let mut sampled = [false; Source::ALL.len()];
        for batch in &tick.batches {
            let index = batch.source as usize;
            // A source that never sampled has no time.
            let sampled_at = (batch.at != Stamp::default()).then_some(batch.at);
            sampled[index] |= sampled_at.is_some() && sampled_at != self.sampled_at[index];
            self.sampled_at[index] = sampled_at;
        }
        sampled
    }

    pub fn write(
        &mut self,
        conn: &Connection,
        tick_id: i64,
        tick: &Tick,
        sampled: &SampledSources,
        counts: &mut RowCounts,
    ) -> rusqlite::Result<()> {
        for batch in tick
            .batches
            .iter()
            .filter(|batch| sampled[batch.source as usize])
        {
            self.add_batch(batch);
        }
        for row in self.per_tick_rows.iter_mut().filter(|row| row.has_values) {
            let mut insert = conn.prepare_cached(row.sql)?;
            insert.raw_bind_parameter(1, tick_id)?;
            for (i, value) in row.values.iter_mut().enumerate() {
                insert.raw_bind_parameter(i + 2, std::mem::take(value))?;
            }
            row.has_values = false;
            insert.raw_execute()?;
            *counts.entry(row.name).or_default() += 1;
        }
        for samples in &mut self.keyed_samples {
            samples.write(conn, tick_id, sampled, counts)?;
        }
        Ok(())
    }

    fn add_batch(&mut self, batch: &Batch) {
        for reading in &batch.readings {
            match self.destinations.of(reading) {
                Destination::PerTick {
                    table_index,
                    column,
                    kind,
                } => {
                    let row = &mut self.per_tick_rows[table_index];
                    row.values[column] = Number::of(&reading.value, kind);
                    row.has_values = true;
                }
                Destination::Keyed {
                    table_index,
                    column,
                    kind,
                } => {
                    let value = Number::of(&reading.value, kind);
                    self.keyed_samples[table_index].put(
                        reading.first_label(),
                        batch.source,
                        column,
                        value,
                    );
                }
                Destination::WithoutSamples => {}
                Destination::Series => self.put_series(reading, batch.source),
            }
        }
    }

    /// Puts a reading that has no column. JSON of its metric and labels names the series. A
    /// histogram becomes two series, its count and its sum.
    fn put_series(&mut self, reading: &Reading, source: Source) {
        let mut put = |suffix, number| {
            write_series_name(reading, suffix, &mut self.series_name_buffer);
            self.keyed_samples[SERIES_TABLES].put(&self.series_name_buffer, source, 0, number);
        };
        match &reading.value {
            Value::Histogram(histogram) => {
                put("_count", Number::Real(histogram.count() as f64));
                put("_sum", Number::real_or_none(histogram.sum()));
            }
            value => put("", Number::of(value, ColumnKind::Real)),
        }
    }
}

pub fn validator_phase(tick: &Tick) -> Option<&str> {
    let is_on = |reading: &&Reading| {
        std::ptr::eq(reading.metric, &PHASE) && reading.value == Value::Integer(1)
    };
    tick.readings().find(is_on).map(Reading::first_label)
}

/// Metric name, then a JSON object of labels in the metric's order, then tags.
fn write_series_name(reading: &Reading, suffix: &str, out: &mut String) {
    out.clear();
    let _ = write!(out, "{}{suffix}{SEPARATOR}{{", reading.metric.name);
    let labels = reading
        .metric
        .label_names
        .iter()
        .copied()
        .zip(reading.label_values.iter().map(LabelText::as_str));
    let tags = reading
        .tags
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    for (i, (name, value)) in labels.chain(tags).enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        let _ = write!(
            out,
            "{}:{}",
            serde_json::Value::from(name),
            serde_json::Value::from(value)
        );
    }
    out.push('}');
}

pub const KEYED_TABLES: [[&str; 2]; 3] = [
    ["pool", "pool_sample"],
    ["device", "device_sample"],
    ["series", "series_sample"],
];
const POOL_TABLES: usize = 0;
const DEVICE_TABLES: usize = 1;
pub const SERIES_TABLES: usize = 2;

#[derive(Debug, Clone, Copy)]
pub enum Destination {
    PerTick {
        table_index: usize,
        column: usize,
        kind: ColumnKind,
    },
    /// The first label is the name of the pool or device.
    Keyed {
        table_index: usize,
        column: usize,
        kind: ColumnKind,
    },
    /// Not stored, for a reason in [`metrics_without_samples`].
    WithoutSamples,
    /// The table `series`, for all other readings.
    Series,
}

type LabelValues = &'static [&'static str];

/// By the metric's address, then labels: a lookup needs no allocation.
#[derive(Debug)]
pub struct Destinations(HashMap<usize, Vec<(LabelValues, Destination)>>);

impl Destinations {
    pub fn new() -> Self {
        let mut destinations: HashMap<usize, Vec<(LabelValues, Destination)>> = HashMap::new();
        let mut add = |column: &'static Column, destination: Destination| {
            destinations
                .entry(address(column.metric))
                .or_default()
                .push((column.label_values, destination));
        };
        for (table_index, table) in PerTickTable::ALL.into_iter().enumerate() {
            for (index, column) in table.columns().iter().enumerate() {
                add(
                    column,
                    Destination::PerTick {
                        table_index,
                        column: index,
                        kind: column.kind(),
                    },
                );
            }
        }
        for (table_index, columns) in [(POOL_TABLES, POOL_COLUMNS), (DEVICE_TABLES, DEVICE_COLUMNS)]
        {
            for (index, column) in columns.iter().enumerate() {
                add(
                    column,
                    Destination::Keyed {
                        table_index,
                        column: index,
                        kind: column.kind(),
                    },
                );
            }
        }
        for (metric, _) in metrics_without_samples() {
            destinations.insert(address(metric), vec![(&[], Destination::WithoutSamples)]);
        }
        Self(destinations)
    }

    pub fn of(&self, reading: &Reading) -> Destination {
        let Some(candidates) = self.0.get(&address(reading.metric)) else {
            return Destination::Series;
        };
        let matches = |(label_values, destination): &&(LabelValues, Destination)| {
            let values = match destination {
                Destination::WithoutSamples => return true,
                Destination::Keyed { .. } => reading.label_values.get(1..).unwrap_or_default(),
                _ => &*reading.label_values,
            };
            reading.tags.is_empty()
                && values
                    .iter()
                    .map(LabelText::as_str)
                    .eq(label_values.iter().copied())
        };
        candidates
            .iter()
            .find(matches)
            .map_or(Destination::Series, |(_, destination)| *destination)
    }
}

fn address(metric: &'static Metric) -> usize {
    std::ptr::from_ref(metric).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::make_tables;
    use faultline_metrics::metrics::{host, process};
    use std::sync::Arc;

    #[test]
    fn a_tick_that_failed_leaves_no_values_to_later_ticks() {
        let conn = Connection::open_in_memory().unwrap();
        make_tables(&conn, &[]).unwrap();
        let (mut samples, mut counts) = (Samples::new(), RowCounts::new());
        let threads = Reading::integer(&process::THREADS, [], 7);
        let kills = Reading::integer(&host::OOM_KILLS, [], 1);
        let mut write = |samples: &mut Samples, id, readings: &[&Reading]| {
            let batch = |reading: &&Reading| {
                let readings = vec![Reading::clone(reading)];
                let empty = Batch::empty(Source::Host, Stamp::default());
                Arc::new(Batch { readings, ..empty })
            };
            let tick = Tick {
                number: 1,
                at: Stamp::default(),
                batches: readings.iter().map(batch).collect(),
            };
            let sampled = [true; Source::ALL.len()];
            samples.write(&conn, id, &tick, &sampled, &mut counts)
        };
        write(&mut samples, 1, &[&threads]).unwrap();
        // The row of the process exists, so this fails before the row of the host.
        write(&mut samples, 1, &[&threads, &kills]).unwrap_err();
        samples.invalidate();
        write(&mut samples, 2, &[&threads]).unwrap();
        let sql = "SELECT count(*) FROM host_sample";
        let rows: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0);
    }
}
