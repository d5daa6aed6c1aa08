//! Reads results from an untrusted file.

use super::{APPLICATION_ID, FORMAT, TABLES};
use crate::plan::MAX_REQUESTS;
use crate::results::{CellHead, Header, PHASES, Results, Sample};
use anyhow::{Context as _, anyhow, bail, ensure};
use faultline_common::files::{self, AtPath};
use faultline_recording::{DatabaseKind, Error, ForeignDatabase, ReturnedValues};
use rusqlite::Row;
use serde::Deserialize;
use std::path::Path;

const MAX_CELLS: usize = 100_000;

const KIND: DatabaseKind = DatabaseKind {
    application_id: APPLICATION_ID,
    format: FORMAT,
};

/// Reads the results of a finished, unfinished or killed run.
pub(crate) fn read(path: &Path) -> anyhow::Result<Results> {
    let (database, header) = open_with_header(path)?;
    read_results(&database, &header).at(path)
}

pub(crate) fn header(path: &Path) -> anyhow::Result<(String, String)> {
    let (_, header) = open_with_header(path)?;
    let preset: Preset =
        serde_json::from_str(&header).with_context(|| format!("{}: its header", path.display()))?;
    Ok((preset.preset, header))
}

#[derive(Deserialize)]
struct Preset {
    preset: String,
}

fn open_with_header(path: &Path) -> anyhow::Result<(ForeignDatabase, String)> {
    let database =
        ForeignDatabase::open(path, &KIND, &TABLES).map_err(|error| describe_error(path, error))?;
    let mut header = None;
    let found = database.walk(
        ReturnedValues::Texts,
        "SELECT header FROM run LIMIT 1",
        [],
        |row| -> anyhow::Result<()> {
            header = Some(row.get(0)?);
            Ok(())
        },
    );
    found.at(path)?;
    let header = header.with_context(|| {
        let path = path.display();
        format!("{path}: no run began before its program was killed: remove it")
    })?;
    Ok((database, header))
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

fn read_results(database: &ForeignDatabase, header: &str) -> anyhow::Result<Results> {
    let preset: Preset = serde_json::from_str(header).context("its header")?;
    ensure!(
        preset.preset != "compression",
        "results of bench compression have no requests to compare"
    );
    let header: Header = serde_json::from_str(header).context("its header")?;
    let cells = cells(database)?;
    let mut samples = Vec::new();
    database.walk(
        ReturnedValues::Texts,
        "SELECT * FROM sample ORDER BY number",
        [],
        |row| {
            let sample = sample(row)?;
            if sample.cell >= cells.len()
                || u64::from(sample.round) >= MAX_REQUESTS
                || sample.number >= MAX_REQUESTS
            {
                bail!("request {} is damaged", sample.number);
            }
            samples.push(sample);
            Ok(())
        },
    )?;
    ensure!(
        header.verdicts.len() == header.arms.len(),
        "its header is damaged"
    );
    Ok(Results {
        header,
        cells,
        samples,
    })
}

fn cells(database: &ForeignDatabase) -> anyhow::Result<Vec<CellHead>> {
    let mut cells = Vec::new();
    let sql = "SELECT cell, arm, subject, size FROM cell ORDER BY cell";
    database.walk(
        ReturnedValues::Texts,
        sql,
        [],
        |row| -> anyhow::Result<()> {
            ensure!(
                row.get::<_, i64>(0)? == cells.len() as i64 && cells.len() < MAX_CELLS,
                "its table cell is damaged"
            );
            cells.push(CellHead {
                arm: row.get(1)?,
                subject: row.get(2)?,
                size: optional_u64(row, 3)?,
            });
            Ok(())
        },
    )?;
    Ok(cells)
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
