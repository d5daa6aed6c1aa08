//! `results.db`: an SQLite database of versions and runs. docs/CAMPAIGN-KEYS.md describes it.

use crate::settings::{Program, RESULTS};
use anyhow::{Context as _, Result, anyhow, ensure};
use faultline_common::files::AtPath;
use faultline_pages::export::{Columns, Type, Values};
use faultline_recording::{DatabaseKind, Error, ForeignDatabase, OlderFormat};
use faultline_report::report::comparability::ClusterConditions;
use rusqlite::{Connection, Params, Row, params};
use rustix::fs::{FsWord, NFS_SUPER_MAGIC};
use std::path::Path;

const KIND: DatabaseKind = DatabaseKind {
    // `FLCn`.
    application_id: 0x464c_436e,
    format: 2,
};

macro_rules! run_table {
    ($($more:literal)?) => {
        concat!(
            "CREATE TABLE run (run INTEGER PRIMARY KEY, release TEXT NOT NULL, program_digest TEXT NOT NULL, baseline TEXT NOT NULL,
  baseline_digest TEXT NOT NULL, plan_digest TEXT NOT NULL, machine TEXT NOT NULL, kernel TEXT NOT NULL, round INTEGER NOT NULL,
  arm TEXT NOT NULL, replicate INTEGER NOT NULL, began_unix_ns INTEGER NOT NULL, outcome TEXT NOT NULL, validity TEXT NOT NULL,
  recording TEXT NOT NULL, recording_digest TEXT, report TEXT NOT NULL",
            $($more,)?
            ",
  UNIQUE (plan_digest, baseline_digest, release, round, arm, replicate))"
        )
    };
}

const PROGRAM: &str =
    "CREATE TABLE program (version TEXT PRIMARY KEY, name TEXT NOT NULL, path TEXT, source TEXT NOT NULL,
  added_unix_ns INTEGER NOT NULL, removed INTEGER NOT NULL, digest TEXT, trouble TEXT)";
const RUN: &str = run_table!(", consensus TEXT, slot_seconds REAL");
const RUN_OF_FORMAT_1: &str = run_table!();
const VALUE: &str = "CREATE TABLE value (run INTEGER NOT NULL REFERENCES run, metric TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (run, metric))";
const VERDICT: &str = "CREATE TABLE verdict (plan_digest TEXT NOT NULL, baseline_digest TEXT NOT NULL, machine TEXT NOT NULL, release TEXT NOT NULL,
  metric TEXT NOT NULL, pairs INTEGER NOT NULL, ratio REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, p REAL, holm_p REAL,
  verdict TEXT NOT NULL)";

/// The schema; a file must match it word for word.
const TABLES: [&str; 4] = [PROGRAM, RUN, VALUE, VERDICT];

const FORMAT_1: OlderFormat<'static> = OlderFormat {
    format: 1,
    table_statements: &[PROGRAM, RUN_OF_FORMAT_1, VALUE, VERDICT],
    // SQLite adds the columns before the constraint of the table, as in `RUN`.
    upgrade_sql: "ALTER TABLE run ADD COLUMN consensus TEXT;
              ALTER TABLE run ADD COLUMN slot_seconds REAL",
};

/// `LEFT JOIN`, because removed versions and metrics of fewer than two pairs have no verdict.
const EXPORT: &str = "SELECT release, arm, round, replicate, began_unix_ns, outcome, validity, machine, kernel, consensus, slot_seconds,
  plan_digest, baseline, baseline_digest, program_digest, recording, recording_digest, value.metric, value, verdict
  FROM run JOIN value USING (run) LEFT JOIN verdict USING (plan_digest, baseline_digest, machine, release, metric)
  ORDER BY run, value.rowid";

/// Paths that may lead out of their folder, or may be a script as a link of a page.
const UNSAFE_PATHS: &str = "SELECT path FROM (SELECT recording AS path FROM run UNION ALL SELECT report FROM run) WHERE path GLOB '*[^a-zA-Z0-9/+._-]*' OR path GLOB '/*' OR '/' || path || '/' GLOB '*/../*' OR instr(path, char(0))";

const REMEDY: &str = "restore a copy; without Slurm, you can move it away, and `faultline campaign run` reads the results of the current plan and the versions of campaign.toml again";

/// The longest text is an error with the last line of a program's output.
const MAX_VALUE_BYTES: i32 = 1 << 20;

const PROTOCOL_SEPARATOR: &str = ", ";

pub const FROM_FILE: &str = "campaign.toml";
pub const FROM_COMMAND: &str = "add";
pub const FROM_WATCH: &str = "watch";

/// Validity of a run whose result no longer counts: its recording, or that of its pair, is damaged.
pub const VOID: &str = "void";

pub struct Store(Connection);

pub struct ListedVersion {
    pub program: Program,
    /// [`FROM_FILE`], [`FROM_COMMAND`], [`FROM_WATCH`], or `baseline`.
    pub source: String,
    pub added_unix_ns: i64,
    pub removed: bool,
    pub has_runs: bool,
    pub digest: Option<String>,
    pub error: Option<String>,
}

pub fn find_version<'l>(listed: &'l [ListedVersion], version: &str) -> Option<&'l ListedVersion> {
    listed
        .iter()
        .find(|listed| listed.program.version == version)
}

/// Runs with equal conditions and machine are comparable.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions {
    pub plan_digest: String,
    pub baseline: String,
    pub baseline_digest: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRow {
    /// Column `release`. A baseline's run has the version that is compared with it.
    pub version: String,
    pub program_digest: String,
    pub conditions: Conditions,
    /// Processor, threads, memory.
    pub machine: String,
    pub kernel: String,
    /// 1 or 2.
    pub round: u32,
    pub is_baseline: bool,
    /// Counted from 1; the runs of one replicate are a pair.
    pub replicate: u32,
    pub began_unix_ns: i64,
    pub outcome: String,
    pub validity: String,
    /// Relative to the campaign's folder.
    pub recording: String,
    /// SHA-256; `None` without a recording.
    pub recording_digest: Option<String>,
    /// Relative to the page.
    pub report: String,
    pub cluster: ClusterConditions,
    /// By metric; values that were not recorded are absent.
    pub values: Vec<(String, f64)>,
}

impl RunRow {
    pub fn arm(&self) -> &'static str {
        if self.is_baseline {
            "baseline"
        } else {
            "release"
        }
    }

    /// Protocols in order, as in `tower, migrating, alpenglow`; `None` without evidence.
    pub fn consensus(&self) -> Option<String> {
        let protocols = &self.cluster.consensus;
        (!protocols.is_empty()).then(|| protocols.join(PROTOCOL_SEPARATOR))
    }

    pub fn slot_seconds(&self) -> Option<f64> {
        self.cluster.slot_seconds.map(|(seconds, _)| seconds)
    }

    pub fn is_usable(&self) -> bool {
        self.outcome == "completed" && self.validity != "invalid" && !self.is_void()
    }

    pub fn is_void(&self) -> bool {
        self.validity == VOID
    }

    pub fn is_in_same_pair(&self, other: &Self) -> bool {
        let [pair, other_pair] =
            [self, other].map(|row| (&row.version, row.round, row.replicate, &row.conditions));
        pair == other_pair
    }
}

#[derive(Debug, Clone, Default)]
pub struct VerdictRow {
    pub conditions: Conditions,
    pub machine: String,
    pub version: String,
    pub metric: String,
    pub pairs: usize,
    /// Ratio to the baseline, with its interval.
    pub ratio: [f64; 3],
    /// p of the test, and p adjusted by Holm.
    pub p: [Option<f64>; 2],
    pub verdict: String,
}

impl Store {
    /// Whether [`Store::open`] would change the format of the file. `false` if `open` would
    /// refuse the file.
    pub fn needs_upgrade(path: &Path) -> Result<bool> {
        match ForeignDatabase::is_older(path, &KIND) {
            Err(error) if error.foreign_database_message("", "").is_some() => Ok(false),
            is_older => Ok(is_older?),
        }
    }

    /// SQLite relies on locks that NFS may not keep.
    pub fn refuse_nfs(path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(path);
        refuse_file_system(path, rustix::fs::statfs(folder).at(folder)?.f_type)
    }

    /// Creates the database if it is missing. Fails on a foreign, newer or damaged file.
    pub fn open(path: &Path) -> Result<Self> {
        let opened =
            ForeignDatabase::open_to_write(path, &KIND, &TABLES, &[FORMAT_1], MAX_VALUE_BYTES);
        let database = opened.map_err(|error| with_remedy(error, path))?;
        // A committed row survives a power cut.
        database.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self(database))
    }

    /// Adds the file and a remedy to an error of SQLite.
    fn access<T>(&self, access: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let path = Path::new(self.0.path().unwrap_or(RESULTS));
        access(&self.0).map_err(|error| with_remedy(Error::sqlite(path, error), path))
    }

    /// In a transaction, an error undoes it.
    fn write(&self, sql: &str, values: impl Params) -> Result<()> {
        self.access(|database| database.execute(sql, values))
            .context("a change was not made")
            .map(drop)
    }

    /// Without a baseline that was replaced before its program was known.
    pub fn listed_versions(&self) -> Result<Vec<ListedVersion>> {
        self.access(|database| {
            let mut select = database.prepare(
                "SELECT *, EXISTS (SELECT 1 FROM run WHERE program.version IN (release, baseline)) AS measured FROM program WHERE NOT removed OR source <> 'baseline' OR digest IS NOT NULL OR measured ORDER BY added_unix_ns, program.rowid",
            )?;
            select.query_map([], listed_version)?.collect()
        })
    }

    /// Adds a version, changes its source, or restores a removed one.
    pub fn add(&self, program: &Program, source: &str, unix_ns: i64) -> Result<()> {
        let path = program.path.as_ref().map(|path| path.display().to_string());
        self.write(
            "INSERT INTO program VALUES (?1, ?2, ?3, ?4, ?5, 0, NULL, NULL) ON CONFLICT (version) DO UPDATE SET name = ?2, path = ?3, source = ?4, removed = 0",
            params![program.version, program.name, path, source, unix_ns],
        )
    }

    /// Marks the version as removed; its row and its runs stay.
    pub fn remove(&self, version: &str) -> Result<()> {
        self.write(
            "UPDATE program SET removed = 1 WHERE version = ?",
            [version],
        )
    }

    pub fn set_digest(&self, version: &str, digest: &str) -> Result<()> {
        self.write(
            "UPDATE program SET digest = ? WHERE version = ?",
            [digest, version],
        )
    }

    /// Stores why a version has no result; `None` clears an earlier error.
    pub fn set_error(&self, version: &str, error: Option<&str>) -> Result<()> {
        self.write(
            "UPDATE program SET trouble = ? WHERE version = ?",
            (error, version),
        )
    }

    /// Sets the baseline's version in all runs whose baseline has this `digest`: `campaign.toml` may
    /// give the same program another version.
    pub fn set_baseline_version(&self, version: &str, digest: &str) -> Result<()> {
        self.write(
            "UPDATE run SET baseline = ?1 WHERE baseline_digest = ?2",
            [version, digest],
        )
    }

    /// Adds the runs of a round in one transaction. Only void runs are replaced. Fails if no run is
    /// new.
    pub fn add_runs(&mut self, runs: &[RunRow]) -> Result<()> {
        let _transaction = self.0.unchecked_transaction()?;
        let mut is_new = false;
        for row in runs {
            self.write(
                "DELETE FROM run WHERE validity = ?1 AND plan_digest = ?2 AND baseline_digest = ?3 AND release = ?4
                 AND round = ?5 AND arm = ?6 AND replicate = ?7",
                params![
                    VOID,
                    row.conditions.plan_digest,
                    row.conditions.baseline_digest,
                    row.version,
                    row.round,
                    row.arm(),
                    row.replicate,
                ],
            )?;
            self.write(
                "INSERT OR IGNORE INTO run VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    row.version,
                    row.program_digest,
                    row.conditions.baseline,
                    row.conditions.baseline_digest,
                    row.conditions.plan_digest,
                    row.machine,
                    row.kernel,
                    row.round,
                    row.arm(),
                    row.replicate,
                    row.began_unix_ns,
                    row.outcome,
                    row.validity,
                    row.recording,
                    row.recording_digest,
                    row.report,
                    row.consensus(),
                    row.slot_seconds(),
                ],
            )?;
            if self.0.changes() > 0 {
                is_new = true;
                let run = self.0.last_insert_rowid();
                for (metric, value) in &row.values {
                    self.write(
                        "INSERT INTO value VALUES (?, ?, ?)",
                        params![run, metric, value],
                    )?;
                }
            }
        }
        ensure!(
            is_new,
            "{RESULTS} already has all runs of this round: nothing was added"
        );
        self.write("COMMIT", [])
    }

    /// Voids the run with this recording and its pair. They lose their values, and the next
    /// `campaign run` repeats them.
    pub fn void(&mut self, recording: &str) -> Result<()> {
        let pair = "SELECT other.run FROM run JOIN run AS other USING (plan_digest, baseline_digest, release, round, replicate) WHERE run.recording = ?1";
        let _transaction = self.0.unchecked_transaction()?;
        self.write(
            &format!("UPDATE run SET validity = ?2 WHERE run IN ({pair})"),
            [recording, VOID],
        )?;
        self.write(
            "DELETE FROM value WHERE run IN (SELECT run FROM run WHERE validity = ?)",
            [VOID],
        )?;
        self.write("COMMIT", [])
    }

    /// Fails if `recording` or `report` of a run may lead out of its folder.
    pub fn runs(&self) -> Result<Vec<RunRow>> {
        let has_unsafe_path = self.access(|database| database.prepare(UNSAFE_PATHS)?.exists([]))?;
        ensure!(
            !has_unsafe_path,
            "{RESULTS}: not read: a path in column recording or report is not plain and relative; {REMEDY}"
        );
        self.access(|database| {
            let mut select = database.prepare("SELECT * FROM run ORDER BY run")?;
            let mut values =
                database.prepare("SELECT metric, value FROM value WHERE run = ? ORDER BY rowid")?;
            let runs = select.query_map([], |row| {
                let number: i64 = row.get("run")?;
                let values = values.query_map([number], |row| row.try_into())?;
                run_row(row, values.collect::<Result<_, _>>()?)
            })?;
            runs.collect()
        })
    }

    pub fn replace_verdicts(&mut self, verdicts: &[VerdictRow]) -> Result<()> {
        let _transaction = self.0.unchecked_transaction()?;
        self.write("DELETE FROM verdict", [])?;
        for row in verdicts {
            let [ratio, low, high] = row.ratio;
            self.write(
                "INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    row.conditions.plan_digest,
                    row.conditions.baseline_digest,
                    row.machine,
                    row.version,
                    row.metric,
                    row.pairs as i64,
                    ratio,
                    low,
                    high,
                    row.p[0],
                    row.p[1],
                    row.verdict,
                ],
            )?;
        }
        self.write("COMMIT", [])
    }

    /// Returns the number of rows and the columns; each run and metric has a row. `verdicts` replace
    /// the stored verdicts in a temporary table.
    pub fn export(mut self, verdicts: &[VerdictRow]) -> Result<(usize, Columns)> {
        self.write(&VERDICT.replace("CREATE TABLE", "CREATE TEMP TABLE"), [])?;
        self.replace_verdicts(verdicts)?;
        self.access(|database| {
            let mut select = database.prepare(EXPORT)?;
            let mut columns: Columns = select
                .column_names()
                .map(|name| {
                    let kind = match name {
                        "round" | "replicate" | "began_unix_ns" => Type::Integer,
                        "slot_seconds" | "value" => Type::Real,
                        _ => Type::Text,
                    };
                    (name.to_owned(), Values::of(kind))
                })
                .collect();
            let mut rows = select.query([])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                for (index, (_, values)) in columns.iter_mut().enumerate() {
                    match values {
                        Values::Integer(values) => values.push(row.get(index)?),
                        Values::Real(values) => values.push(row.get(index)?),
                        Values::Text(values) => values.push(row.get(index)?),
                    }
                }
            }
            Ok((count, columns))
        })
    }
}

fn with_remedy(error: Error, path: &Path) -> anyhow::Error {
    let mismatch = "this is not the database of a campaign (restore it, or move this file away)";
    match error.foreign_database_message(mismatch, REMEDY) {
        Some(text) => anyhow!("{}: {text}", path.display()),
        None if error.is_full() => anyhow!(
            "{}: not written: no space is left, a quota or a limit of file sizes is reached, or the disk is broken; free space",
            path.display()
        ),
        None => anyhow!("{error}"),
    }
}

fn refuse_file_system(path: &Path, kind: FsWord) -> Result<()> {
    ensure!(
        kind != NFS_SUPER_MAGIC,
        "{}: it would be on NFS, where SQLite can damage it: set `results` in campaign.toml to a file on a disk of this host, \
         and move an existing {RESULTS} there",
        path.display()
    );
    Ok(())
}

fn listed_version(row: &Row<'_>) -> rusqlite::Result<ListedVersion> {
    Ok(ListedVersion {
        program: Program {
            version: row.get("version")?,
            name: row.get("name")?,
            path: row.get::<_, Option<String>>("path")?.map(Into::into),
        },
        source: row.get("source")?,
        added_unix_ns: row.get("added_unix_ns")?,
        removed: row.get("removed")?,
        has_runs: row.get("measured")?,
        digest: row.get("digest")?,
        error: row.get("trouble")?,
    })
}

fn run_row(row: &Row<'_>, values: Vec<(String, f64)>) -> rusqlite::Result<RunRow> {
    let consensus: Option<String> = row.get("consensus")?;
    let protocols = consensus
        .iter()
        .flat_map(|names| names.split(PROTOCOL_SEPARATOR));
    let slot_seconds: Option<f64> = row.get("slot_seconds")?;
    Ok(RunRow {
        version: row.get("release")?,
        program_digest: row.get("program_digest")?,
        conditions: Conditions {
            plan_digest: row.get("plan_digest")?,
            baseline: row.get("baseline")?,
            baseline_digest: row.get("baseline_digest")?,
        },
        machine: row.get("machine")?,
        kernel: row.get("kernel")?,
        round: row.get("round")?,
        is_baseline: row.get::<_, String>("arm")? == "baseline",
        replicate: row.get("replicate")?,
        began_unix_ns: row.get("began_unix_ns")?,
        outcome: row.get("outcome")?,
        validity: row.get("validity")?,
        recording: row.get("recording")?,
        recording_digest: row.get("recording_digest")?,
        report: row.get("report")?,
        cluster: ClusterConditions {
            consensus: protocols.map(str::to_owned).collect(),
            slot_seconds: slot_seconds.map(|seconds| (seconds, seconds)),
        },
        values,
    })
}

#[cfg(test)]
pub mod tests;
