//! Results as a file: an SQLite database, like recordings.

use crate::plan::MOST_REQUESTS;
use crate::results::{CellHead, Header, PHASES, Results, Sample};
use anyhow::{Context as _, bail, ensure};
use rusqlite::{Connection, OpenFlags, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;

/// In the file's head, so that it is not taken for another database: `FLBn`.
const APPLICATION: i32 = 0x464c_426e;
/// What is in the tables.
const FORMAT: i64 = 1;
/// Cells that a file may have.
const MOST_CELLS: usize = 100_000;

const SCHEMA: &str = "
CREATE TABLE run (header TEXT NOT NULL);
CREATE TABLE cell (cell INTEGER PRIMARY KEY, arm TEXT NOT NULL, subject TEXT NOT NULL, size INTEGER);
CREATE TABLE sample (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, cell INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  queued_ns INTEGER, connect_ns INTEGER, tls_ns INTEGER, first_byte_ns INTEGER, transfer_ns INTEGER, decode_ns INTEGER,
  decode_cpu_ns INTEGER, sent INTEGER, received INTEGER, failure TEXT, refused INTEGER NOT NULL);
CREATE TABLE histogram (cell INTEGER NOT NULL, from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, count INTEGER NOT NULL);
";

/// Takes the name of a new file before the first request, so that no run is lost for it.
///
/// # Errors
/// There is such a file already, or its folder cannot be written.
pub(crate) fn reserve(path: &Path) -> anyhow::Result<()> {
    // A link is a file that exists: nothing is written through it.
    File::create_new(path)
        .with_context(|| format!("--out {}", path.display()))
        .map(drop)
}

/// Writes results into the file that was reserved.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(path: &Path, results: &Results) -> anyhow::Result<()> {
    let named = || format!("--out {}", path.display());
    let mut database =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).with_context(named)?;
    fill(&mut database, results).with_context(named)
}

/// Replaces the header of results that were written.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_header(path: &Path, header: &Header) -> anyhow::Result<()> {
    let named = || format!("--out {}", path.display());
    let replace = || -> anyhow::Result<usize> {
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        Ok(database.execute(
            "UPDATE run SET header = ?",
            [serde_json::to_string(header)?],
        )?)
    };
    replace().with_context(named).map(drop)
}

/// Writes results that are one document into the file that was reserved: the table `run` alone.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_document(path: &Path, document: &impl Serialize) -> anyhow::Result<()> {
    let named = || format!("--out {}", path.display());
    let mut database =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).with_context(named)?;
    let begun = begin(&mut database, document).with_context(named)?;
    begun.commit().with_context(named)
}

fn begin<'a>(
    database: &'a mut Connection,
    header: &impl Serialize,
) -> anyhow::Result<Transaction<'a>> {
    let transaction = database.transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute(
        "INSERT INTO run VALUES (?)",
        [serde_json::to_string(header)?],
    )?;
    Ok(transaction)
}

fn fill(database: &mut Connection, results: &Results) -> anyhow::Result<()> {
    let transaction = begin(database, &results.header)?;
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for (cell, head) in results.cells.iter().enumerate() {
        let row = params![cell as i64, head.arm, head.subject, head.size.map(whole)];
        transaction.execute("INSERT INTO cell VALUES (?, ?, ?, ?)", row)?;
        let Some(histogram) = results.histogram(cell) else {
            continue;
        };
        for bucket in histogram.iter_recorded() {
            let value = bucket.value_iterated_to();
            let (from, to) = (
                histogram.lowest_equivalent(value),
                histogram.highest_equivalent(value),
            );
            let row = params![
                cell as i64,
                whole(from),
                whole(to),
                whole(bucket.count_at_value())
            ];
            transaction.execute("INSERT INTO histogram VALUES (?, ?, ?, ?)", row)?;
        }
    }
    let mut insert = transaction
        .prepare("INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for s in &results.samples {
        let known = |number: u64| s.phases.map(|_| whole(number));
        let phase = |place: usize| {
            s.phases
                .and_then(|phases| phases.get(place).copied())
                .map(whole)
        };
        insert.execute(params![
            whole(s.number),
            s.round,
            s.cell as i64,
            whole(s.at_ns),
            phase(0),
            phase(1),
            phase(2),
            phase(3),
            phase(4),
            phase(5),
            known(s.decode_cpu_ns),
            known(s.sent),
            known(s.received),
            s.failure,
            s.refused,
        ])?;
    }
    drop(insert);
    Ok(transaction.commit()?)
}

/// Reads results that were written.
///
/// # Errors
/// It is no such file, it is damaged, or a newer version of this program wrote it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Results> {
    content(path).with_context(|| path.display().to_string())
}

/// The header of results, and which preset they are of.
///
/// # Errors
/// As [`read`].
pub(crate) fn header(path: &Path) -> anyhow::Result<(String, String)> {
    let (_, header) = opened(path).with_context(|| path.display().to_string())?;
    let preset: Preset =
        serde_json::from_str(&header).with_context(|| format!("{}: its header", path.display()))?;
    Ok((preset.preset, header))
}

#[derive(Deserialize)]
struct Preset {
    preset: String,
}

fn opened(path: &Path) -> anyhow::Result<(Connection, String)> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let pragma = |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    ensure!(
        pragma("application_id")? == i64::from(APPLICATION),
        "these are no results of bench"
    );
    let format = pragma("user_version")?;
    ensure!(
        format == FORMAT,
        "format {format}: this version reads format {FORMAT}"
    );
    let header: String = database.query_row("SELECT header FROM run", [], |row| row.get(0))?;
    Ok((database, header))
}

fn content(path: &Path) -> anyhow::Result<Results> {
    let (database, header) = opened(path)?;
    let preset: Preset = serde_json::from_str(&header).context("its header")?;
    ensure!(
        preset.preset != "compression",
        "results of bench compression have no requests to compare"
    );
    let header: Header = serde_json::from_str(&header).context("its header")?;
    let cells = cells(&database)?;
    let mut statement = database.prepare("SELECT * FROM sample ORDER BY number")?;
    let mut rows = statement.query([])?;
    let mut samples = Vec::new();
    while let Some(row) = rows.next()? {
        let sample = sample(row)?;
        if sample.cell >= cells.len()
            || u64::from(sample.round) >= MOST_REQUESTS
            || sample.number >= MOST_REQUESTS
        {
            bail!("request {} is damaged", sample.number);
        }
        samples.push(sample);
    }
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

fn cells(database: &Connection) -> anyhow::Result<Vec<CellHead>> {
    let mut statement =
        database.prepare("SELECT cell, arm, subject, size FROM cell ORDER BY cell")?;
    let mut rows = statement.query([])?;
    let mut cells = Vec::new();
    while let Some(row) = rows.next()? {
        ensure!(
            row.get::<_, i64>(0)? == cells.len() as i64 && cells.len() < MOST_CELLS,
            "its table cell is damaged"
        );
        let size: Option<i64> = row.get(3)?;
        cells.push(CellHead {
            arm: row.get(1)?,
            subject: row.get(2)?,
            size: size
                .map(|size| u64::try_from(size).context("a size below 0"))
                .transpose()?,
        });
    }
    Ok(cells)
}

fn sample(row: &Row<'_>) -> anyhow::Result<Sample> {
    let whole = |place: usize| -> anyhow::Result<u64> {
        u64::try_from(row.get::<_, i64>(place)?).context("a number below 0 in its table sample")
    };
    let mut phases = Some([0; PHASES.len()]);
    for place in 0..PHASES.len() {
        let value: Option<i64> = row.get(4 + place)?;
        let value = value
            .map(|value| u64::try_from(value).context("a time below 0"))
            .transpose()?;
        // An hour a phase: what is longer is damaged, and sums stay sums.
        ensure!(
            value.is_none_or(|value| value < 1 << 60),
            "a time that cannot be"
        );
        phases = phases.zip(value).map(|(mut phases, value)| {
            phases[place] = value;
            phases
        });
    }
    // Nothing reads these of a request that failed.
    let failed = phases.is_none();
    Ok(Sample {
        number: whole(0)?,
        round: u32::try_from(whole(1)?)?,
        cell: usize::try_from(whole(2)?)?,
        at_ns: whole(3)?,
        phases,
        decode_cpu_ns: if failed { 0 } else { whole(10)? },
        sent: if failed { 0 } else { whole(11)? },
        received: if failed { 0 } else { whole(12)? },
        failure: row.get(13)?,
        refused: u32::try_from(whole(14)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.flb");
        let mut kept = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
        (kept.samples[4].phases, kept.samples[4].failure) = (None, Some("timeout".to_owned()));
        (
            kept.samples[4].decode_cpu_ns,
            kept.samples[4].sent,
            kept.samples[4].received,
        ) = (0, 0, 0);
        kept.cells[1].size = None;
        reserve(&path).unwrap();
        assert!(reserve(&path).is_err(), "no run is overwritten");
        write(&path, &kept).unwrap();
        assert_eq!(read(&path).unwrap(), kept);
        kept.header.stopped_by = Some("SIGINT".to_owned());
        write_header(&path, &kept.header).unwrap();
        assert_eq!(read(&path).unwrap(), kept);
        let database = Connection::open(&path).unwrap();
        let counted: i64 = database
            .query_row("SELECT sum(count) FROM histogram", [], |row| row.get(0))
            .unwrap();
        assert_eq!(counted, 59);
        let unknown = "SELECT count(*) FROM sample WHERE sent IS NULL AND received IS NULL AND decode_cpu_ns IS NULL";
        let unknown: i64 = database.query_row(unknown, [], |row| row.get(0)).unwrap();
        assert_eq!(unknown, 1, "0 is not what is not known");
    }

    #[test]
    fn a_file_that_is_none_or_damaged_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.flb");
        std::fs::write(&path, "no database at all, however long it may be").unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("run.flb"));
        let damages = [
            "UPDATE sample SET cell = 7 WHERE number = 3",
            "UPDATE sample SET round = -1 WHERE number = 0",
            "UPDATE run SET header = '{}'",
            "PRAGMA user_version = 99",
            "PRAGMA application_id = 1",
            "DROP TABLE cell",
            "UPDATE sample SET tls_ns = 9223372036854775807",
            "UPDATE sample SET round = 4294967295 WHERE number = 0",
        ];
        for damage in damages {
            std::fs::remove_file(&path).unwrap();
            reserve(&path).unwrap();
            write(
                &path,
                &results(3, &[("a", 904, &|_| 1), ("b", 904, &|_| 5)]),
            )
            .unwrap();
            read(&path).unwrap();
            Connection::open(&path)
                .unwrap()
                .execute_batch(damage)
                .unwrap();
            assert!(read(&path).is_err(), "{damage}");
        }
    }
}
