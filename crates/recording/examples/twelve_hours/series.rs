//! How the value of each column of a `PerTickTable` changes.

use super::random::Random;
use faultline_metrics::{
    Kind, LabelText, LabelValues, Metric, Reading, Source, Unit,
    metrics::{process as p, validator as v},
};
use faultline_recording::{PerTickTable, schema::Column};

const GIB: f64 = (1u64 << 30) as f64;

/// State of the run, which affects all series.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// 0 while the validator starts, 1 at the tip, more while it catches up.
    pub load: f64,
    /// 1 means enough memory.
    pub memory_scarcity: f64,
    /// Share of the run that has passed.
    pub progress: f64,
}

/// One series: a counter grows by `rate` per second, a gauge varies around `level`.
#[derive(Debug)]
pub struct Series {
    pub metric: &'static Metric,
    label_values: LabelValues,
    name: &'static str,
    level: f64,
    rate: f64,
    value: f64,
}

impl Series {
    pub fn of(table: &str, column: &'static Column) -> Self {
        let (level, rate) = level_and_rate(table, column);
        let label_values = column
            .label_values
            .iter()
            .map(|label| LabelText::Fixed(label))
            .collect();
        Self {
            metric: column.metric,
            label_values,
            name: column.name,
            level,
            rate,
            value: level,
        }
    }

    /// Begins a counter at zero, as in a new process.
    pub fn restart_counter(&mut self) {
        if self.metric.kind == Kind::Counter {
            self.value = 0.0;
        }
    }

    /// The reading one second later.
    pub fn step(&mut self, conditions: Conditions, random: &mut Random) -> Reading {
        let faulting = self.name.contains("major")
            || self.name.contains("refault")
            || self.name.contains("steal");
        let factor = if faulting {
            conditions.memory_scarcity * conditions.memory_scarcity
        } else {
            1.0
        };
        if self.metric.kind == Kind::Counter {
            self.value += self.rate * conditions.load * factor * random.about_one(1.0);
        } else if self.rate > 0.0 {
            // Grows towards its level, as memory does.
            self.value =
                self.level * (0.3 + 0.7 * conditions.progress.sqrt()) * random.about_one(self.rate);
        }
        let value = match self.metric.unit {
            Unit::Bytes => (self.value / 4096.0).floor() * 4096.0,
            Unit::Seconds if self.name.contains("cpu_") && !self.name.contains("pressure") => {
                (self.value * 100.0).floor() / 100.0
            }
            Unit::Seconds if self.name.contains("duration") => (self.value * 1e9).floor() / 1e9,
            Unit::Seconds => (self.value * 1e6).floor() / 1e6,
            _ => self.value.floor(),
        };
        let whole = self.metric.unit != Unit::Seconds;
        let value = if whole {
            faultline_metrics::Value::Integer(value as u64)
        } else {
            faultline_metrics::Value::Real(value)
        };
        Reading {
            metric: self.metric,
            label_values: self.label_values.clone(),
            tags: Box::default(),
            value,
        }
    }
}

/// Mean and variation of a gauge, or initial value of a counter and its growth per second.
fn level_and_rate(table: &str, column: &Column) -> (f64, f64) {
    let name = column.name;
    let counter = column.metric.kind == Kind::Counter;
    let exact = match (table, name) {
        ("process_sample", "resident_anon_bytes") => Some((90.0 * GIB, 0.004)),
        ("process_sample", "resident_file_bytes") => Some((300.0 * GIB, 0.01)),
        ("process_sample", "virtual_bytes") => Some((1400.0 * GIB, 0.001)),
        ("process_sample", "major_faults") => Some((120_000.0, 140.0)),
        ("process_sample" | "cgroup_sample", "minor_faults") => Some((9e7, 21_000.0)),
        ("process_sample", "cpu_user_seconds") => Some((40_000.0, 21.0)),
        ("process_sample", "cpu_system_seconds") => Some((9000.0, 5.0)),
        ("process_sample", "threads") => Some((1100.0, 0.002)),
        ("cgroup_sample", "major_faults") => Some((120_000.0, 141.0)),
        ("cgroup_sample", "usage_bytes") => Some((505.0 * GIB, 0.001)),
        ("cgroup_sample", "unreclaimable_bytes" | "anon_bytes") => Some((92.0 * GIB, 0.004)),
        ("cgroup_sample", "file_bytes") => Some((400.0 * GIB, 0.01)),
        (_, "effective_limit_bytes" | "limit_max_bytes" | "limit_high_bytes") => {
            Some((512.0 * GIB, 0.0))
        }
        (_, "limit_swap_max_bytes" | "swap_total_bytes") => Some((8.0 * GIB, 0.0)),
        (_, "memory_total_bytes") => Some((503.0 * GIB, 0.0)),
        (_, "max_maps" | "max_fds") => Some((1_000_000.0, 0.0)),
        (_, "healthy" | "kept_up") => Some((1.0, 0.0)),
        (_, "bank_transactions") => Some((4.1e11, 1e-9)),
        (_, "transactions" | "replayed_transactions" | "rooted_transactions") => {
            Some((0.0, 3700.0))
        }
        (_, "last_push_timestamp_seconds") => Some((1_790_000_000.0, 1e-9)),
        (_, "ticks") => Some((0.0, 1.0)),
        (_, "index_entries") => Some((9e8, 0.0001)),
        (_, "cache_hits") => Some((0.0, 9000.0)),
        _ => None,
    };
    if let Some(exact) = exact {
        return exact;
    }
    if name.starts_with("up_") {
        return (1.0, 0.0);
    }
    if name.starts_with("slot_") {
        return (312_000_000.0, 1e-7);
    }
    if name.starts_with("cache_capacity") || name.starts_with("cache_shrink") {
        return (512.0, 0.0);
    }
    match (column.metric.unit, counter) {
        (Unit::Seconds, true) => (200.0, 0.07),
        (Unit::Seconds, false) => (0.0004, 0.3),
        (Unit::Bytes, true) => (4e11, 90e6),
        (Unit::Bytes, false) => (12.0 * GIB, 0.005),
        (_, true) => (0.0, 37.0),
        (_, false) => (40.0, 0.3),
    }
}

/// The source that reads `metric` of `table`.
pub fn source_of(table: PerTickTable, metric: &'static Metric) -> Source {
    let is = |other: &'static Metric| std::ptr::eq(metric, other);
    match table {
        PerTickTable::Process if is(&p::BLOCK_IO_DELAY) || is(&p::CONTEXT_SWITCHES) => {
            Source::Threads
        }
        PerTickTable::Process => Source::Process,
        PerTickTable::Cgroup => Source::Cgroup,
        PerTickTable::Host => Source::Host,
        PerTickTable::Validator if is(&v::TRANSACTIONS) || is(&v::HEALTHY) => Source::Rpc,
        PerTickTable::Validator if is(&v::SLOT) || is(&v::SLOTS_BEHIND) => Source::Conclusions,
        PerTickTable::Validator => Source::Datapoints,
        PerTickTable::Daemon => Source::Daemon,
    }
}
