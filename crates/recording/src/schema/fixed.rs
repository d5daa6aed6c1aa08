//! Tables other than samples, and the first columns of sample tables.

use super::Kind::{self, Integer, Real, Text};
use Role::{Device, Event, Plain, Pool, Process, Series, Session, Tick};

/// The id that a column refers to, for renumbering in a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Plain,
    Session,
    Process,
    Tick,
    Pool,
    Device,
    Series,
    Event,
}

/// Name, kind, role, text after the type in CREATE TABLE, description.
pub(super) type ColumnDeclaration = (&'static str, Kind, Role, &'static str, &'static str);

/// Name, order column, description, columns.
pub(super) type TableDeclaration = (
    &'static str,
    &'static str,
    &'static str,
    &'static [ColumnDeclaration],
);

const KEY: &str = "PRIMARY KEY";
const NOT_NULL: &str = "NOT NULL";

/// Small tables, and the ticks.
pub(super) static MAIN_TABLES: &[TableDeclaration] = &[
    (
        "meta",
        "key",
        "Remarks about the file: one row each.",
        &[
            (
                "key",
                Text,
                Plain,
                KEY,
                "`rows`: rows by table at the last checkpoint, a JSON object; `merged_from`: file names; `salvaged_from`: the damaged file that this one was made from; a flight recording says why it was saved",
            ),
            ("value", Text, Plain, NOT_NULL, ""),
        ],
    ),
    (
        "label",
        "key",
        "What the run is called: `--label KEY=VALUE`.",
        &[
            ("key", Text, Plain, KEY, ""),
            ("value", Text, Plain, NOT_NULL, ""),
        ],
    ),
    (
        "session",
        "id",
        "One life of the daemon: a restart appends one.",
        &[
            ("id", Integer, Session, KEY, ""),
            (
                "started_unix_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when it began, in ns since 1970",
            ),
            (
                "ended_unix_ns",
                Integer,
                Plain,
                "",
                "when it ended in order; NULL while it lasts, and for ever if it was killed: then the last tick is the end. In a copy, the last tick",
            ),
            ("interval_ns", Integer, Plain, NOT_NULL, "from tick to tick"),
            ("version", Text, Plain, NOT_NULL, "of the daemon"),
            (
                "manifest",
                Text,
                Plain,
                NOT_NULL,
                "host, CPU, memory, disks, kernel, configuration: a JSON object",
            ),
        ],
    ),
    (
        "process",
        "id",
        "A process that was followed.",
        &[
            ("id", Integer, Process, KEY, ""),
            ("session", Integer, Session, NOT_NULL, "by which session"),
            ("pid", Integer, Plain, NOT_NULL, ""),
            (
                "started_unix_ns",
                Integer,
                Plain,
                "",
                "when it started, in ns since 1970; NULL if unknown",
            ),
            (
                "seen_unix_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when the daemon found it, in ns since 1970",
            ),
            (
                "manifest",
                Text,
                Plain,
                NOT_NULL,
                "version, binary and its hash, arguments without secrets, limits: a JSON object",
            ),
        ],
    ),
    (
        "event",
        "id",
        "What happened at one moment. Read in the order of `session, uptime_ns, id`.",
        &[
            ("id", Integer, Event, KEY, ""),
            ("session", Integer, Session, NOT_NULL, ""),
            (
                "unix_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when, in ns since 1970",
            ),
            (
                "uptime_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when, in ns since the daemon started",
            ),
            (
                "kind",
                Text,
                Plain,
                NOT_NULL,
                "`daemon_start`, `daemon_stop`, `start` (a process is followed), `exit`, `oom_kill`, `restart`, `phase` (detail: from, to; null: not known), `at_tip`, `behind`, `stall` (at the tip, and no slot advanced for 15 s), `clock_step` (the wall clock was set; detail: seconds), `gap` (nothing was recorded), `mark` (set by hand)",
            ),
            (
                "process",
                Integer,
                Process,
                "",
                "NULL while no process was followed",
            ),
            ("detail", Text, Plain, NOT_NULL, "a JSON object, or empty"),
        ],
    ),
    (
        "tick",
        "id",
        "One tick of the daemon.",
        &[
            (
                "id",
                Integer,
                Tick,
                KEY,
                "ascending over all sessions; what samples point at",
            ),
            ("session", Integer, Session, NOT_NULL, ""),
            (
                "number",
                Integer,
                Plain,
                NOT_NULL,
                "counted by the daemon from 1; a gap is a missed tick or one that was not written",
            ),
            (
                "unix_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when, in ns since 1970, on a clock that may be set",
            ),
            (
                "uptime_ns",
                Integer,
                Plain,
                NOT_NULL,
                "when, in ns since the daemon started, on a clock that never jumps: for rates",
            ),
            (
                "process",
                Integer,
                Process,
                "",
                "the followed process; NULL if none",
            ),
            (
                "phase",
                Text,
                Plain,
                "",
                "the validator's phase; NULL if unknown",
            ),
        ],
    ),
    (
        "problem",
        "rowid",
        "What a source could not read, written when it changes: all rows of a source at one tick replace those of its tick before.",
        &[
            ("tick", Integer, Tick, NOT_NULL, ""),
            ("source", Text, Plain, NOT_NULL, ""),
            (
                "status",
                Text,
                Plain,
                "",
                "`absent`, `forbidden`, `gone` or `broken`; NULL when nothing is wrong any more",
            ),
            ("what", Text, Plain, "", "in words"),
        ],
    ),
];

pub(super) static SERIES: &[TableDeclaration] = &[
    (
        "series",
        "id",
        "The names of series that have no column.",
        &[
            ("id", Integer, Series, KEY, ""),
            (
                "metric",
                Text,
                Plain,
                NOT_NULL,
                "its name in METRICS.md; with `_count` or `_sum` of a histogram",
            ),
            ("labels", Text, Plain, NOT_NULL, "a JSON object"),
        ],
    ),
    (
        "series_sample",
        "rowid",
        "Their values, where they changed. Carries forward.",
        &[
            ("tick", Integer, Tick, NOT_NULL, ""),
            ("series", Integer, Series, NOT_NULL, ""),
            ("value", Real, Plain, "", "NULL when it is gone"),
        ],
    ),
];

pub(super) const TICK: ColumnDeclaration = ("tick", Integer, Tick, KEY, "`tick.id`");

pub(super) const POOL: [ColumnDeclaration; 2] = [
    ("tick", Integer, Tick, NOT_NULL, ""),
    ("pool", Integer, Pool, NOT_NULL, ""),
];
pub(super) const DEVICE: [ColumnDeclaration; 2] = [
    ("tick", Integer, Tick, NOT_NULL, ""),
    ("device", Integer, Device, NOT_NULL, ""),
];

pub(super) const POOL_NAME: [ColumnDeclaration; 2] = [
    ("id", Integer, Pool, KEY, ""),
    ("name", Text, Plain, "NOT NULL UNIQUE", ""),
];
pub(super) const DEVICE_NAME: [ColumnDeclaration; 2] = [
    ("id", Integer, Device, KEY, ""),
    ("name", Text, Plain, "NOT NULL UNIQUE", ""),
];

pub(super) const POINT: [ColumnDeclaration; 4] = [
    ("session", Integer, Session, NOT_NULL, ""),
    (
        "tick",
        Integer,
        Tick,
        "",
        "the last tick before it was written; NULL before the first",
    ),
    (
        "unix_ns",
        Integer,
        Plain,
        NOT_NULL,
        "the validator's own time, in ns since 1970",
    ),
    (
        "received_unix_ns",
        Integer,
        Plain,
        NOT_NULL,
        "when the daemon received it, in ns since 1970",
    ),
];
