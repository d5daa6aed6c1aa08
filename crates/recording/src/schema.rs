//! The format. Writer, reader, merge and docs/RECORDING.md follow it.

mod columns;
mod fixed;
mod points;
mod sql;

pub(crate) use columns::{DEVICE_COLUMNS, POOL_COLUMNS};
pub(crate) use fixed::PRIMARY_KEY;
pub use points::{
    CacheTimes as CacheTimesPoint, CostTracker as CostTrackerPoint, Point,
    ProgramCache as ProgramCachePoint, ReplaySlot as ReplaySlotPoint, SetRoot as SetRootPoint,
};
pub(crate) use points::{POINT_TABLES, PointRow, PointTable};
pub(crate) use sql::table_named;
pub use sql::{TABLES, TableColumn, TableSpec};

use faultline_metrics::{
    Metric, Unit,
    metrics::{
        daemon as d, memory as m, process as p, resources as r, validator as v,
        votes as vote_metrics,
    },
};

/// "FLTL".
pub const APPLICATION_ID: i32 = 0x464C_544C;

/// SQLite's `user_version`: the version of the format.
pub const FORMAT: i32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    Integer,
    Real,
    Text,
}

impl ColumnKind {
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// A column of a table of samples.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub metric: &'static Metric,
    /// In the order of [`Metric::label_names`].
    pub label_values: &'static [&'static str],
}

impl Column {
    pub fn kind(&self) -> ColumnKind {
        match self.metric.unit {
            Unit::Seconds | Unit::Ratio | Unit::Sol => ColumnKind::Real,
            Unit::Count | Unit::Hertz | Unit::Bytes | Unit::Flag | Unit::AsReported => {
                ColumnKind::Integer
            }
        }
    }
}

/// A table with a column for each series and at most one row for each tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PerTickTable {
    Process,
    Cgroup,
    Host,
    Validator,
    Daemon,
}

impl PerTickTable {
    /// In the order of the file.
    pub const ALL: [Self; 5] = [
        Self::Process,
        Self::Cgroup,
        Self::Host,
        Self::Validator,
        Self::Daemon,
    ];

    /// Name, description and columns.
    fn declaration(self) -> (&'static str, &'static str, &'static [Column]) {
        match self {
            Self::Process => (
                "process_sample",
                "The followed process, from /proc.",
                columns::PROCESS,
            ),
            Self::Cgroup => (
                "cgroup_sample",
                "The followed process's cgroup.",
                columns::CGROUP,
            ),
            Self::Host => ("host_sample", "The host.", columns::HOST),
            Self::Validator => (
                "validator_sample",
                "The validator's counters and gauges, as the daemon exports them.",
                columns::VALIDATOR,
            ),
            Self::Daemon => (
                "daemon_sample",
                "The daemon's own counters and gauges.",
                columns::DAEMON,
            ),
        }
    }

    pub fn name(self) -> &'static str {
        self.declaration().0
    }

    pub fn description(self) -> &'static str {
        self.declaration().1
    }

    /// Without `tick`, in the order of the file.
    pub fn columns(self) -> &'static [Column] {
        self.declaration().2
    }

    pub fn column(self, name: &str) -> Option<&'static Column> {
        self.columns().iter().find(|column| column.name == name)
    }
}

/// `None` if the series is stored elsewhere or not at all.
pub fn column_of(metric: &Metric, labels: &[&str]) -> Option<(PerTickTable, &'static Column)> {
    let find = |table: PerTickTable| {
        let mut columns = table.columns().iter();
        let column = columns.find(|c| c.metric.name == metric.name && c.label_values == labels)?;
        Some((table, column))
    };
    PerTickTable::ALL.into_iter().find_map(find)
}

/// Metrics without samples, each with what replaces them, or why nothing does. Any other metric
/// without a column goes into the table `series`.
static METRICS_WITHOUT_SAMPLES: &[(&[&Metric], &str)] = &[
    (
        &[&p::UP],
        "tick.process is NULL while no process is followed",
    ),
    (&[&p::TARGET_INFO], "in process.manifest"),
    (&[&p::START_TIME], "process.started_unix_ns"),
    (
        &[&m::HEADROOM, &m::LEVEL_UNRECLAIMABLE],
        "effective_limit_bytes and unreclaimable_bytes, only for the binding level",
    ),
    (
        &[&m::LEVEL_DIRTY],
        "memory_dirty_bytes of host_sample, only for the machine",
    ),
    (
        &[&m::HIGH_HEADROOM],
        "limit_high_bytes, only for the validator's own cgroup",
    ),
    (
        &[&m::COMMIT_HEADROOM],
        "nothing: it exists only while vm.overcommit_memory is 2",
    ),
    (&[&v::PHASE], "tick.phase"),
    (
        &[&v::PHASE_SECONDS],
        "tick.phase and the columns `evidence_*` of validator_sample",
    ),
    (
        &[&v::CACHE_EVICTION_PASSES],
        "evict_passes of every cache_times_point",
    ),
    (
        &[&v::CACHE_EVICTION_TIME],
        "evict_us of every cache_times_point",
    ),
    (
        &[&v::CACHE_EVICTION_EXAMINED],
        "evict_examined of every cache_times_point",
    ),
    (
        &[&v::CACHE_TIME],
        "program_cache_us of every replay_slot_point",
    ),
    (&[&v::REPLAY_TIME], "the times of every replay_slot_point"),
    (
        &[&d::SERIES_DROPPED],
        "nothing: it counts series that only /metrics leaves out",
    ),
    (
        &[&v::PROBE_TIME],
        "nothing: it times the RPC service for clients, not the workload",
    ),
    (
        &[&v::PROBE_FAILURES],
        "nothing, like agave_rpc_probe_seconds",
    ),
    (
        &[
            &vote_metrics::NEXT_LEADER_SLOT,
            &vote_metrics::RESTART_WINDOW,
            &vote_metrics::RESTART_WINDOW_BEGINS,
            &vote_metrics::EPOCH_PROGRESS,
            &vote_metrics::EPOCH_REMAINING,
        ],
        "nothing: it follows from agave_slot and the leader schedule, and changes with every tick",
    ),
    (
        r::SECTION.metrics,
        "nothing: it describes the host over days; the process's and \
            cgroup's own input and output is recorded",
    ),
    (&[&d::BUILD_INFO], "session.version"),
    (&[&d::DEMO], "in session.manifest"),
    (&[&d::MARKS], "events of kind mark, with their names"),
    (
        &[&d::SOURCE_LAST_SUCCESS],
        "the last tick at which the source was up: `up_*` of daemon_sample, or the table series",
    ),
    (
        &[&d::LATENESS],
        "tick.uptime_ns against tick.number times session.interval_ns",
    ),
    (&[&d::SELF_START_TIME], "session.started_unix_ns"),
    (&[&d::SELF_MAX_FDS], "in session.manifest"),
];

pub fn metrics_without_samples() -> impl Iterator<Item = (&'static Metric, &'static str)> {
    METRICS_WITHOUT_SAMPLES
        .iter()
        .flat_map(|(metrics, why)| metrics.iter().map(move |metric| (*metric, *why)))
}

#[cfg(test)]
mod tests;
