use crate::schema::{Column, DEVICE, Kind, POOL, Table, elsewhere};
use faultline_metrics::{Metric, Reading, metrics::validator::PHASE};
use std::collections::HashMap;

const POOLS: usize = 0;
const DEVICES: usize = 1;
pub const SERIES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Wide {
        table: usize,
        column: usize,
        kind: Kind,
    },
    /// The first label is the name of the pool or device.
    Named {
        rows: usize,
        column: usize,
        kind: Kind,
    },
    /// The reading is the tick's phase.
    Phase,
    /// Not stored, because other data in the recording contains it.
    Elsewhere,
    /// `series`, for all other readings.
    Series,
}

type Labels = &'static [&'static str];

/// By the metric's address, then labels: a lookup needs no allocation.
#[derive(Debug)]
pub struct Destinations(HashMap<usize, Vec<(Labels, Destination)>>);

impl Destinations {
    pub fn new() -> Self {
        let mut destinations: HashMap<usize, Vec<(Labels, Destination)>> = HashMap::new();
        let mut add = |column: &'static Column, destination: Destination| {
            destinations
                .entry(address(column.metric))
                .or_default()
                .push((column.labels, destination));
        };
        for (table, of) in Table::ALL.into_iter().enumerate() {
            for (index, column) in of.columns().iter().enumerate() {
                let kind = column.kind();
                add(
                    column,
                    Destination::Wide {
                        table,
                        column: index,
                        kind,
                    },
                );
            }
        }
        for (rows, columns) in [(POOLS, POOL), (DEVICES, DEVICE)] {
            for (index, column) in columns.iter().enumerate() {
                let kind = column.kind();
                add(
                    column,
                    Destination::Named {
                        rows,
                        column: index,
                        kind,
                    },
                );
            }
        }
        for (metric, _) in elsewhere() {
            let destination = if std::ptr::eq(metric, &PHASE) {
                Destination::Phase
            } else {
                Destination::Elsewhere
            };
            destinations.insert(address(metric), vec![(&[], destination)]);
        }
        Destinations(destinations)
    }

    pub fn of(&self, reading: &Reading) -> Destination {
        let Some(candidates) = self.0.get(&address(reading.metric)) else {
            return Destination::Series;
        };
        let fits = |(labels, destination): &&(Labels, Destination)| {
            let own = match destination {
                Destination::Phase | Destination::Elsewhere => return true,
                Destination::Named { .. } => reading.labels.get(1..).unwrap_or_default(),
                _ => &*reading.labels,
            };
            reading.tags.is_empty()
                && own
                    .iter()
                    .map(|text| text.as_str())
                    .eq(labels.iter().copied())
        };
        candidates
            .iter()
            .find(fits)
            .map_or(Destination::Series, |(_, destination)| *destination)
    }
}

fn address(metric: &'static Metric) -> usize {
    std::ptr::from_ref(metric).addr()
}
