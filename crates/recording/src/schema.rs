//! The format. Writer, reader, merge and docs/RECORDING.md follow it.

mod columns;
mod fixed;
mod points;
mod sql;

pub use fixed::Role;
pub(crate) use points::PointTable;
pub use points::{
    CacheTimesPoint, CostTrackerPoint, Point, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
};
pub use sql::{TABLES, TableColumn, TableSpec};

use faultline_catalog::Metric;
use faultline_catalog::metrics::{
    daemon as d, memory as m, pools as q, process as p, resources as r, validator as v, votes as w,
};

/// "FLTL".
pub const APPLICATION_ID: i32 = 0x464C_544C;

/// SQLite's `user_version`: the version of the format.
pub const FORMAT: i32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Integer,
    Real,
    Text,
}

impl Kind {
    pub const fn sql(self) -> &'static str {
        match self {
            Kind::Integer => "INTEGER",
            Kind::Real => "REAL",
            Kind::Text => "TEXT",
        }
    }
}

/// A column of a wide sample table: one series of the catalog.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub metric: &'static Metric,
    /// Label values, in the metric's order.
    pub labels: &'static [&'static str],
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    Process,
    Cgroup,
    Host,
    Validator,
    Daemon,
}

impl Table {
    /// In the order of the file.
    pub const ALL: [Table; 5] = [
        Table::Process,
        Table::Cgroup,
        Table::Host,
        Table::Validator,
        Table::Daemon,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Table::Process => "process_sample",
            Table::Cgroup => "cgroup_sample",
            Table::Host => "host_sample",
            Table::Validator => "validator_sample",
            Table::Daemon => "daemon_sample",
        }
    }

    pub const fn about(self) -> &'static str {
        match self {
            Table::Process => "The followed process, from /proc.",
            Table::Cgroup => "Its cgroup.",
            Table::Host => "The machine around it.",
            Table::Validator => {
                "What the validator says of itself: sums and levels as the daemon exports them."
            }
            Table::Daemon => "The daemon itself: what it costs and what it could not see.",
        }
    }

    /// Without `tick`, in the order of the file.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Process => columns::PROCESS,
            Table::Cgroup => columns::CGROUP,
            Table::Host => columns::HOST,
            Table::Validator => columns::VALIDATOR,
            Table::Daemon => columns::DAEMON,
        }
    }

    pub fn column(self, name: &str) -> Option<&'static Column> {
        self.columns().iter().find(|column| column.name == name)
    }
}

/// `None` if the series is stored elsewhere or not at all.
pub fn column_of(metric: &Metric, labels: &[&str]) -> Option<(Table, &'static Column)> {
    let find = |table: Table| {
        let column = table
            .columns()
            .iter()
            .find(|c| c.metric.name == metric.name && c.labels == labels);
        column.map(|column| (table, column))
    };
    Table::ALL.into_iter().find_map(find)
}

/// Columns of `pool_sample`; label values without the pool's own.
pub(crate) static POOL: [Column; 7] = [
    Column {
        name: "threads",
        metric: &q::THREADS,
        labels: &[],
        kind: Kind::Integer,
    },
    Column {
        name: "major_faults",
        metric: &q::PAGE_FAULTS,
        labels: &["major"],
        kind: Kind::Integer,
    },
    Column {
        name: "minor_faults",
        metric: &q::PAGE_FAULTS,
        labels: &["minor"],
        kind: Kind::Integer,
    },
    Column {
        name: "cpu_user_seconds",
        metric: &q::CPU,
        labels: &["user"],
        kind: Kind::Real,
    },
    Column {
        name: "cpu_system_seconds",
        metric: &q::CPU,
        labels: &["system"],
        kind: Kind::Real,
    },
    Column {
        name: "run_queue_seconds",
        metric: &q::RUN_QUEUE,
        labels: &[],
        kind: Kind::Real,
    },
    Column {
        name: "block_io_delay_seconds",
        metric: &q::BLOCK_IO_DELAY,
        labels: &[],
        kind: Kind::Real,
    },
];

/// Columns of `device_sample`, likewise.
pub(crate) static DEVICE: [Column; 2] = [
    Column {
        name: "read_bytes",
        metric: &faultline_catalog::metrics::cgroup::IO_BYTES,
        labels: &["read"],
        kind: Kind::Integer,
    },
    Column {
        name: "write_bytes",
        metric: &faultline_catalog::metrics::cgroup::IO_BYTES,
        labels: &["write"],
        kind: Kind::Integer,
    },
];

/// Metrics stored in `series` on purpose, because they are rare or rarely change. Unknown metrics
/// go there too.
pub static SERIES: &[&Metric] = &[
    &p::RESTARTS,
    &p::ENDS,
    &p::STATE,
    &faultline_catalog::metrics::cgroup::FROZEN,
    &m::BINDING,
    &m::LEVEL_INFO,
    &m::LEVEL_LIMIT,
    &m::OOMD,
    &v::STALLED,
    &v::SLOT_SECONDS,
    &v::CONSENSUS,
    &v::CONSENSUS_SIGN,
    &v::ALPENGLOW_GENESIS_SLOT,
    &v::MIGRATION_SLOT,
    &v::CACHE_PRUNE,
    &w::VOTE_ACCOUNT,
    &w::DELINQUENT,
    &w::VOTE_SLOT,
    &w::VOTE_DISTANCE,
    &w::VOTE_CREDITS,
    &w::VOTE_RANK,
    &w::VOTE_SHARE,
    &w::VOTE_REWARD,
    &w::VOTE_REWARD_OF_BEST,
    &w::CERTIFICATE_DISTANCE,
    &w::COMMISSION,
    &w::STAKE,
    &w::BALANCE,
    &w::ADMITTED,
    &w::ADMISSION_SHORTFALL,
    &w::LEADER_SLOTS,
    &w::CLUSTER_LEADER_SLOTS,
    &w::EPOCH,
    &w::CLUSTER,
    &w::VERSION_STAKE,
    &w::FEATURE_SET_STAKE,
    &v::DATAPOINT,
    &v::DATAPOINT_SUM,
    &d::SOURCE_PROBLEMS,
    &d::INGEST_LINES_PENDING,
    &d::IDENTITY_REVISIONS,
    &d::INGEST_REQUESTS,
    &d::AUTH_FAILURES,
    &d::FORWARD_REQUESTS,
    &d::FLIGHT_SAVES,
    &d::FLIGHT_FAILURES,
];

const NOT_OF_A_RUN: &str =
    "not kept: agave_slot and the leader schedule say it, and it changes with every tick";

const OF_A_LEVEL: &str =
    "not kept: effective_limit_bytes and unreclaimable_bytes are those of the binding level";

const OF_THE_HOST: &str =
    "not kept: of the host over days, looked at every 15 s; a run's own input and output is kept";

/// Metrics that are not recorded as such, and why nothing is lost.
pub static ELSEWHERE: &[(&Metric, &str)] = &[
    (&p::UP, "tick.process is NULL while no process is followed"),
    (&p::TARGET_INFO, "in process.manifest"),
    (&p::START_TIME, "process.started_unix_ns"),
    (&m::HEADROOM, OF_A_LEVEL),
    (&m::LEVEL_UNRECLAIMABLE, OF_A_LEVEL),
    (&m::LEVEL_DIRTY, OF_A_LEVEL),
    (
        &m::HIGH_HEADROOM,
        "not kept: limit_high_bytes is the limit, and the rest is of a level",
    ),
    (
        &m::COMMIT_HEADROOM,
        "not kept: vm.overcommit_memory is in session.manifest",
    ),
    (&v::PHASE, "tick.phase"),
    (
        &v::PHASE_SECONDS,
        "the ticks' phases and their evidence (`evidence_*`) give it",
    ),
    (
        &v::CACHE_EVICTION_PASSES,
        "evict_passes of every cache_times_point",
    ),
    (
        &v::CACHE_EVICTION_TIME,
        "evict_us of every cache_times_point",
    ),
    (
        &v::CACHE_EVICTION_EXAMINED,
        "evict_examined of every cache_times_point",
    ),
    (
        &v::CACHE_TIME,
        "program_cache_us of every replay_slot_point",
    ),
    (&v::REPLAY_TIME, "the times of every replay_slot_point"),
    (
        &d::SERIES_DROPPED,
        "not kept: it is about the page, and a recording loses nothing by it",
    ),
    (
        &v::PROBE_TIME,
        "not kept: it is a probe of the node, not of the run",
    ),
    (&v::PROBE_FAILURES, "not kept, as agave_rpc_probe_seconds"),
    (&w::NEXT_LEADER_SLOT, NOT_OF_A_RUN),
    (&w::RESTART_WINDOW, NOT_OF_A_RUN),
    (&w::RESTART_WINDOW_BEGINS, NOT_OF_A_RUN),
    (&w::EPOCH_PROGRESS, NOT_OF_A_RUN),
    (&w::EPOCH_REMAINING, NOT_OF_A_RUN),
    (&r::FILESYSTEM, OF_THE_HOST),
    (&r::FILESYSTEM_SIZE, OF_THE_HOST),
    (&r::FILESYSTEM_AVAIL, OF_THE_HOST),
    (&r::FILESYSTEM_UNTIL_FULL, OF_THE_HOST),
    (&r::FILESYSTEM_INODES, OF_THE_HOST),
    (&r::FILESYSTEM_INODES_FREE, OF_THE_HOST),
    (&r::FILESYSTEM_READ_ONLY, OF_THE_HOST),
    (&r::FILESYSTEM_AGE, OF_THE_HOST),
    (&r::DISK, OF_THE_HOST),
    (&r::DISK_OPERATIONS, OF_THE_HOST),
    (&r::DISK_BYTES, OF_THE_HOST),
    (&r::DISK_TIME, OF_THE_HOST),
    (&r::DISK_BUSY, OF_THE_HOST),
    (&r::DISK_WEIGHTED, OF_THE_HOST),
    (&r::DISK_UTILISATION, OF_THE_HOST),
    (&r::DISK_WEAR, OF_THE_HOST),
    (&r::DISK_MISSING, OF_THE_HOST),
    (&r::UDP_SOCKETS, OF_THE_HOST),
    (&r::UDP_QUEUE, OF_THE_HOST),
    (&r::UDP_DROPS, OF_THE_HOST),
    (&r::UDP_DATAGRAMS, OF_THE_HOST),
    (&r::UDP_ERRORS, OF_THE_HOST),
    (&r::NETWORK_BYTES, OF_THE_HOST),
    (&r::NETWORK_DROPS, OF_THE_HOST),
    (&r::CPU_FREQUENCY, OF_THE_HOST),
    (&r::CPU_GOVERNOR, OF_THE_HOST),
    (&r::CPU_THROTTLES, OF_THE_HOST),
    (&d::BUILD_INFO, "session.version"),
    (&d::DEMO, "in session.manifest"),
    (&d::MARKS, "events of kind mark, with their names"),
    (
        &d::SOURCE_LAST_SUCCESS,
        "known from the ticks at which the source was up",
    ),
    (
        &d::LATENESS,
        "tick.uptime_ns against tick.number times session.interval_ns",
    ),
    (&d::SELF_START_TIME, "session.started_unix_ns"),
    (&d::SELF_MAX_FDS, "in session.manifest"),
];

#[cfg(test)]
mod tests;
