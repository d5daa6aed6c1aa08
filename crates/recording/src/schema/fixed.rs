//! Tables with fixed columns, and the first columns of tables per tick, of points and of names.

use super::ColumnKind::{self, Integer, Real, Text};

/// Name, kind, text after the type in CREATE TABLE, description.
pub type ColumnDeclaration = (&'static str, ColumnKind, &'static str, &'static str);

/// Name, order column, description, columns.
pub type TableDeclaration = (
    &'static str,
    &'static str,
    &'static str,
    &'static [ColumnDeclaration],
);

pub const PRIMARY_KEY: &str = "PRIMARY KEY";
pub const NOT_NULL: &str = "NOT NULL";

macro_rules! tables {
    ($($table:ident by $order_column:ident $description:literal {
        $($column:ident $kind:ident $($constraint:ident)? $($column_description:literal)?;)*
    })*) => {
        &[$((
            stringify!($table),
            stringify!($order_column),
            $description,
            &[$((
                stringify!($column),
                $kind,
                constraint!($($constraint)?),
                concat!($($column_description)?),
            )),*],
        )),*]
    };
}

macro_rules! constraint {
    () => {
        ""
    };
    ($constraint:ident) => {
        $constraint
    };
}

/// Small tables, and the ticks.
pub static MAIN_TABLES: &[TableDeclaration] = tables! {
    meta by key "Remarks about the file: one row each." {
        key Text PRIMARY_KEY "`rows`: rows by table at the last checkpoint, a JSON object; \
            `merged_from`: file names; `salvaged_from`: the damaged file that this one was made \
            from; `saved_reason`, `saved_text`, `saved_unix_ns`: why and when the flight recorder \
            saved it";
        value Text NOT_NULL;
    }

    label by key "What the run is called: `--label KEY=VALUE`, and `labels` and `record.labels` \
        of the configuration." {
        key Text PRIMARY_KEY;
        value Text NOT_NULL;
    }

    session by id "One daemon from start to end: a restart appends a session." {
        id Integer PRIMARY_KEY;
        started_unix_ns Integer NOT_NULL "when it began, in ns since 1970";
        ended_unix_ns Integer "when it ended in order; NULL while it runs, or if it was killed: \
            its last tick is then the end. A copy has the time of the last tick";
        interval_ns Integer NOT_NULL "from tick to tick";
        version Text NOT_NULL "of the daemon";
        manifest Text NOT_NULL "host, CPU, memory, disks, kernel, configuration: a JSON object";
    }

    process by id "A process that was followed." {
        id Integer PRIMARY_KEY;
        session Integer NOT_NULL "the session that followed it";
        pid Integer NOT_NULL;
        started_unix_ns Integer "when it started, in ns since 1970; NULL if unknown";
        seen_unix_ns Integer NOT_NULL "when the daemon found it, in ns since 1970";
        manifest Text NOT_NULL "version, binary and its hash, arguments without secrets, limits: a \
            JSON object";
    }

    event by id "What happened at one moment. Read in the order of `session, uptime_ns, id`." {
        id Integer PRIMARY_KEY;
        session Integer NOT_NULL;
        unix_ns Integer NOT_NULL "when, in ns since 1970";
        uptime_ns Integer NOT_NULL "when, in ns since the daemon started";
        kind Text NOT_NULL "`daemon_start`, `daemon_stop`, `start` (a process is followed), \
            `exit`, `oom_kill`, `restart` (another process replaced it), `phase` (detail: from, \
            to; null: not known), `at_tip`, `behind`, `stall` (at the tip, and its slot stopped \
            advancing), `clock_step` (the wall clock was set; detail: seconds), `gap` (nothing was \
            recorded), `mark` (set on request; detail: name)";
        process Integer "NULL while no process was followed";
        detail Text NOT_NULL "a JSON object, or empty";
    }

    tick by id "One tick of the daemon." {
        id Integer PRIMARY_KEY "ascending over all sessions; rows of samples refer to it";
        session Integer NOT_NULL;
        number Integer NOT_NULL "counted by the daemon from 0; a skipped number is a tick that was \
            missed or not written";
        unix_ns Integer NOT_NULL "when, in ns since 1970, on a clock that may be set";
        uptime_ns Integer NOT_NULL "when, in ns since the daemon started, on a clock that never \
            jumps: for rates";
        process Integer "the followed process; NULL if none";
        phase Text "the validator's phase; NULL if unknown";
    }

    problem by rowid "What a source could not read, written when it changes: a source's rows of \
        one tick replace all its earlier rows. A new session begins without problems." {
        tick Integer NOT_NULL;
        source Text NOT_NULL;
        status Text "`absent`, `forbidden`, `gone` or `broken`; NULL when nothing is wrong any \
            more";
        what Text "in words";
    }
};

pub static SERIES: &[TableDeclaration] = tables! {
    series by id "The names of series that have no column." {
        id Integer PRIMARY_KEY;
        metric Text NOT_NULL "its name in METRICS.md; with `_count` or `_sum` of a histogram";
        labels Text NOT_NULL "a JSON object";
    }

    series_sample by rowid "A value of `series`, where it changed. It \
        [carries forward](#how-to-read-it)." {
        tick Integer NOT_NULL;
        series Integer NOT_NULL;
        value Real "NULL when it is gone";
    }
};

pub const TICK_COLUMN: ColumnDeclaration = ("tick", Integer, PRIMARY_KEY, "`tick.id`");

/// Columns of `pool` and `device`.
pub const NAME_COLUMNS: [ColumnDeclaration; 2] = [
    ("id", Integer, PRIMARY_KEY, ""),
    ("name", Text, "NOT NULL UNIQUE", ""),
];

pub const POINT_COLUMNS: [ColumnDeclaration; 4] = [
    ("session", Integer, NOT_NULL, ""),
    (
        "tick",
        Integer,
        "",
        "the last tick before the point was written; NULL before the first tick",
    ),
    (
        "unix_ns",
        Integer,
        NOT_NULL,
        "the validator's own time, in ns since 1970",
    ),
    (
        "received_unix_ns",
        Integer,
        NOT_NULL,
        "when the daemon received the point, in ns since 1970",
    ),
];
