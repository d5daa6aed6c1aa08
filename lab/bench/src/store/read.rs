//! Reads results from an untrusted file.

use super::{APPLICATION_ID, FORMAT, TABLES};
use crate::compression::Outcome;
use crate::plan::MAX_REQUESTS;
use crate::results::{CellHead, Header, PHASES, Results, Sample};
use anyhow::{Context as _, anyhow, ensure};
use faultline_common::files::{self, AtPath};
use faultline_recording::{DatabaseKind, Error, ForeignDatabase, ReturnedValues};
use rusqlite::Row;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

const MAX_CELLS: usize = 100_000;

const KIND: DatabaseKind = DatabaseKind {
    application_id: APPLICATION_ID,
    format: FORMAT,
};

pub(crate) enum Stored {
    Compression(Outcome),
    Requests(Results),
}

/// Reads the results of a finished, unfinished or killed run.
pub(crate) fn read(path: &Path) -> anyhow::Result<Stored> {
    let database =
        ForeignDatabase::open(path, &KIND, &TABLES).map_err(|error| describe_error(path, error))?;
    let header = |_, row: &Row<'_>| Ok(row.get(0)?);
    let header: Option<String> = rows(&database, "SELECT header FROM run LIMIT 1", header)
        .at(path)?
        .pop();
    let header = header.with_context(|| {
        let path = path.display();
        format!("{path}: no run began before its program was killed: remove it")
    })?;
    let preset: Preset = parsed(&header).at(path)?;
    if preset.preset == "compression" {
        return Ok(Stored::Compression(parsed(&header).at(path)?));
    }
    let results = parsed(&header).and_then(|header| results(&database, header));
    Ok(Stored::Requests(results.at(path)?))
}

#[derive(Deserialize)]
struct Preset {
    preset: String,
}

fn parsed<T: DeserializeOwned>(header: &str) -> anyhow::Result<T> {
    serde_json::from_str(header).context("its header")
}

/// Each row with its number.
fn rows<T>(
    database: &ForeignDatabase,
    sql: &str,
    read: impl Fn(usize, &Row<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut rows = Vec::new();
    let walked = database.walk(ReturnedValues::Texts, sql, [], |row| {
        rows.push(read(rows.len(), row)?);
        anyhow::Ok(())
    });
    walked.map(|()| rows)
}

fn describe_error(path: &Path, error: Error) -> anyhow::Error {
    if matches!(error, Error::Missing { .. }) {
        return anyhow!(files::missing(path));
    }
    match error.of_foreign_database("these are no results of bench", "copy it again") {
        Some(what) => anyhow!("{}: {what}", path.display()),
        None => error.into(),
    }
}

fn results(database: &ForeignDatabase, header: Header) -> anyhow::Result<Results> {
    ensure!(
        header.verdicts.len() == header.arms.len(),
        "its header is damaged"
    );
    let cells = "SELECT cell, arm, subject, size FROM cell ORDER BY cell";
    let cells = rows(database, cells, |index, row| {
        ensure!(
            row.get::<_, i64>(0)? == index as i64 && index < MAX_CELLS,
            "its table cell is damaged"
        );
        Ok(CellHead {
            arm: row.get(1)?,
            subject: row.get(2)?,
            size: optional_u64(row, 3)?,
        })
    })?;
    let samples = "SELECT * FROM sample ORDER BY number";
    let samples = rows(database, samples, |_, row| {
        let sample = sample(row)?;
        ensure!(
            sample.cell < cells.len()
                && u64::from(sample.round) < MAX_REQUESTS
                && sample.number < MAX_REQUESTS,
            "request {} is damaged",
            sample.number
        );
        Ok(sample)
    })?;
    Ok(Results {
        header,
        cells,
        samples,
    })
}

fn optional_u64(row: &Row<'_>, index: usize) -> anyhow::Result<Option<u64>> {
    let number: Option<i64> = row.get(index)?;
    let number = number.map(u64::try_from).transpose();
    number.context("a number below 0")
}

fn sample(row: &Row<'_>) -> anyhow::Result<Sample> {
    let required_u64 =
        |index| optional_u64(row, index)?.context("a number is missing in its table sample");
    let mut phases = Some([0; PHASES.len()]);
    for index in 0..PHASES.len() {
        let value = optional_u64(row, 4 + index)?;
        // No real phase is longer, and below the limit sums cannot overflow.
        ensure!(
            value.is_none_or(|value| value < 1 << 60),
            "a time that cannot be"
        );
        phases = phases.zip(value).map(|(mut phases, value)| {
            phases[index] = value;
            phases
        });
    }
    let failed = phases.is_none();
    let of_good = |index| if failed { Ok(0) } else { required_u64(index) };
    Ok(Sample {
        number: required_u64(0)?,
        round: u32::try_from(required_u64(1)?)?,
        cell: usize::try_from(required_u64(2)?)?,
        at_ns: required_u64(3)?,
        phases,
        decode_cpu_ns: of_good(10)?,
        sent: of_good(11)?,
        received: of_good(12)?,
        failure: row.get(13)?,
        refused: u32::try_from(required_u64(14)?)?,
    })
}
