#[cfg(test)]
mod tests;
mod write;

use crate::{
    plan::MAX_REQUESTS,
    results::{CaseInfo, Header, PHASES, Results, Sample, Timing},
};
use anyhow::{Context, Result, anyhow, ensure};
use faultline_common::files::{self, AtPath};
use faultline_recording::{DatabaseKind, Error, ForeignDatabase};
use rusqlite::Row;
use serde::{Deserialize, de::DeserializeOwned};
use std::path::Path;
pub use write::{ResultsFile, check_new, error_text, write_document};

/// SQLite's application id of a results file: `FLBn` in ASCII.
pub const APPLICATION_ID: i32 = 0x464c_426e;
const FORMAT: i32 = 1;

/// The schema of a results file. A file with another schema is refused. A `cell` is the index of a
/// case, `subject` a request label, `refused` a number of retries, `at_ns` [`Sample::at_ns`].
pub const TABLES: [&str; 4] = [
    "CREATE TABLE run (header TEXT NOT NULL)",
    "CREATE TABLE cell (cell INTEGER PRIMARY KEY, arm TEXT NOT NULL, subject TEXT NOT NULL, size INTEGER)",
    "CREATE TABLE sample (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, cell INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  queued_ns INTEGER, connect_ns INTEGER, tls_ns INTEGER, first_byte_ns INTEGER, transfer_ns INTEGER, decode_ns INTEGER,
  decode_cpu_ns INTEGER, sent INTEGER, received INTEGER, failure TEXT, refused INTEGER NOT NULL)",
    "CREATE TABLE histogram (cell INTEGER NOT NULL, from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, count INTEGER NOT NULL)",
];

const MAX_CASES: usize = 100_000;

const KIND: DatabaseKind = DatabaseKind {
    application_id: APPLICATION_ID,
    format: FORMAT,
};

/// `C` is the outcome of `bench compression`.
pub enum Stored<C> {
    Compression(C),
    Requests(Box<Results>),
}

/// Reads the results of a finished, unfinished or killed run. The file is not trusted.
pub fn read<C: DeserializeOwned>(path: &Path) -> Result<Stored<C>> {
    let database = ForeignDatabase::open(path, &KIND, &TABLES).map_err(|error| {
        if matches!(error, Error::Missing { .. }) {
            return anyhow!(files::missing_file_error(path));
        }
        let remedy = match error {
            Error::Refused { .. } => "copy it again, or measure again with this version",
            _ => "copy it again",
        };
        match error.foreign_database_message("these are no results of bench", remedy) {
            Some(message) => anyhow!("{}: {message}", path.display()),
            None => error.into(),
        }
    })?;
    let headers: Vec<String> = read_rows(&database, "SELECT header FROM run LIMIT 1", |_, row| {
        Ok(row.get(0)?)
    })
    .at(path)?;
    let header = headers.first().with_context(|| {
        let path = path.display();
        format!("{path}: no run began before the program was killed; remove this file")
    })?;
    let kind: HeaderKind = parse_header(header).at(path)?;
    if kind.subcommand == "compression" {
        return Ok(Stored::Compression(parse_header(header).at(path)?));
    }
    let results = parse_header(header).and_then(|header| read_results(&database, header));
    Ok(Stored::Requests(Box::new(results.at(path)?)))
}

#[derive(Deserialize)]
struct HeaderKind {
    #[serde(rename = "preset")]
    subcommand: String,
}

fn parse_header<T: DeserializeOwned>(header: &str) -> Result<T> {
    serde_json::from_str(header).context("its header is damaged")
}

/// `parse` gets the number of the row.
fn read_rows<T>(
    database: &ForeignDatabase,
    sql: &str,
    parse: impl Fn(usize, &Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    database.walk(sql, [], |row| {
        rows.push(parse(rows.len(), row)?);
        anyhow::Ok(())
    })?;
    Ok(rows)
}

fn read_results(database: &ForeignDatabase, header: Header) -> Result<Results> {
    ensure!(
        header.answer_comparisons.len() == header.arms.len(),
        "its header is damaged"
    );
    let cases = read_rows(
        database,
        "SELECT cell, arm, subject, size FROM cell ORDER BY cell",
        |index, row| {
            ensure!(
                row.get::<_, i64>(0)? == index as i64 && index < MAX_CASES,
                "its table cell is damaged"
            );
            Ok(CaseInfo {
                arm: row.get(1)?,
                request_label: row.get(2)?,
                answer_bytes: optional_u64(row, 3)?,
            })
        },
    )?;
    let samples = read_rows(
        database,
        "SELECT * FROM sample ORDER BY number",
        |_, row| {
            let sample = parse_sample(row)?;
            ensure!(
                sample.case_index < cases.len()
                    && u64::from(sample.round) < MAX_REQUESTS
                    && sample.number < MAX_REQUESTS,
                "request {} is damaged",
                sample.number
            );
            Ok(sample)
        },
    )?;
    Ok(Results {
        header,
        cases,
        samples,
    })
}

fn optional_u64(row: &Row<'_>, index: usize) -> Result<Option<u64>> {
    let number: Option<i64> = row.get(index)?;
    number
        .map(u64::try_from)
        .transpose()
        .context("a number in its tables is below 0")
}

fn parse_sample(row: &Row<'_>) -> Result<Sample> {
    let column =
        |index| optional_u64(row, index)?.context("a number is missing in its table sample");
    let timing = || {
        let mut phases = [0; PHASES.len()];
        for (phase, index) in phases.iter_mut().zip(4..) {
            *phase = column(index)?;
            // No real phase is longer, and below the limit sums cannot overflow.
            ensure!(*phase < 1 << 60, "a time in its table sample is too long");
        }
        Ok(Timing {
            phases,
            decode_cpu_ns: column(10)?,
            sent: column(11)?,
            received: column(12)?,
        })
    };
    let failure: Option<String> = row.get(13)?;
    Ok(Sample {
        number: column(0)?,
        round: u32::try_from(column(1)?)?,
        case_index: usize::try_from(column(2)?)?,
        at_ns: column(3)?,
        result: match failure {
            None => Ok(timing()?),
            Some(failure) => Err(failure),
        },
        retries: u32::try_from(column(14)?)?,
    })
}
