use super::files::{RecordingExport, TableFiles};
use anyhow::Result;
use faultline_pages::export::{Type, Values, rows_per_chunk};
use faultline_recording::{
    Cell, Error, PerTickTable, Row,
    schema::{ColumnKind, TABLES, TableColumn, TableSpec},
};
use itertools::Itertools;

pub const TICK: &str = "tick";

/// An integer column becomes real if any cell is a [`Cell::Real`], which holds counts beyond 2^63.
/// In a data set, all integer columns of `*_sample` tables except references become real, so that
/// recordings have equal types.
pub fn columns(
    export: &RecordingExport<'_>,
    table: &TableSpec,
) -> Result<Vec<(String, Type)>, Error> {
    let is_dataset = export.dataset.is_some();
    let is_real = |column: &TableColumn| {
        is_dataset && table.name.ends_with("_sample") && column.references.is_none()
    };
    let mut columns = table
        .columns
        .iter()
        .map(|column| match column.kind {
            ColumnKind::Integer if is_real(column) => (column.name.to_owned(), Type::Real),
            _ => declared_column(column),
        })
        .collect_vec();
    if is_dataset {
        return Ok(columns);
    }
    let chunk = rows_per_chunk(columns.len());
    export.recording.rows(table.name, chunk, |rows| {
        for row in rows {
            for ((_, column_type), cell) in columns.iter_mut().zip(row) {
                if let (Type::Integer, Cell::Real(_)) = (*column_type, cell) {
                    *column_type = Type::Real;
                }
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(columns)
}

fn declared_column(column: &TableColumn) -> (String, Type) {
    let column_type = match column.kind {
        ColumnKind::Integer => Type::Integer,
        ColumnKind::Real => Type::Real,
        ColumnKind::Text => Type::Text,
    };
    (column.name.to_owned(), column_type)
}

/// One row per tick: `tick` joined with all tables that have at most one row per tick, and labels.
pub fn wide_columns(export: &RecordingExport<'_>) -> Result<Vec<(String, Type)>, Error> {
    let is_per_tick = |name| PerTickTable::ALL.iter().any(|table| table.name() == name);
    let mut all = Vec::new();
    for spec in TABLES.iter() {
        if spec.name == TICK {
            all.extend(spec.columns.iter().map(declared_column));
        } else if is_per_tick(spec.name) {
            let prefix = spec.name.trim_end_matches("sample");
            let columns = columns(export, spec)?.into_iter().skip(1);
            all.extend(columns.map(|(name, column_type)| (format!("{prefix}{name}"), column_type)));
        }
    }
    all.extend(labels(export).map(|(name, _)| (name, Type::Text)));
    Ok(all)
}

/// `arm`, `run` and, as `label_NAME`, the other labels. In a data set only `arm`: its column `run`
/// names the recording, and the table `label` has all labels.
fn labels(export: &RecordingExport<'_>) -> impl Iterator<Item = (String, Cell)> {
    let labels = export.recording.labels().iter();
    let named = ["arm", "run"].map(|wanted| {
        let label = labels.clone().find(|(name, _)| name == wanted);
        let cell = label.map_or(Cell::Null, |(_, label)| Cell::Text(label.clone()));
        (wanted.to_owned(), cell)
    });
    let others = labels
        .filter(|(name, _)| name != "arm" && name != "run")
        .map(|(name, label)| (format!("label_{name}"), Cell::Text(label.clone())));
    named
        .into_iter()
        .chain(others)
        .take(if export.dataset.is_some() {
            1
        } else {
            usize::MAX
        })
}

/// Returns the number of rows.
pub fn write(is_wide: bool, files: &mut TableFiles<'_>) -> Result<u64> {
    let (export, table) = (files.export, files.row_source);
    let kinds = files.columns.iter().map(|(_, kind)| *kind).collect_vec();
    let mut written = 0;
    let chunk = rows_per_chunk(kinds.len());
    export
        .recording
        .rows(table.name, chunk, |rows| -> Result<()> {
            let days = rows.chunk_by(|one, next| files.day(one) == files.day(next));
            for rows in days.collect_vec() {
                let mut columns = kinds.iter().map(|kind| Values::of(*kind)).collect_vec();
                for row in rows {
                    push_row(&mut columns, row);
                }
                if is_wide {
                    let joined = columns.get_mut(table.columns.len()..).unwrap_or_default();
                    join(export, rows, joined)?;
                }
                written += rows.len() as u64;
                let day = rows.first().map_or(0, |row| files.day(row));
                files.write(day, columns, rows.len())?;
            }
            Ok(())
        })?;
    Ok(written)
}

/// Pushes nothing to columns that have no cell in `row`.
fn push_row(columns: &mut [Values], row: &[Cell]) {
    for (values, cell) in columns.iter_mut().zip(row) {
        match (values, cell) {
            (Values::Integer(values), Cell::Integer(value)) => values.push(Some(*value)),
            (Values::Real(values), Cell::Real(value)) => values.push(Some(*value)),
            (Values::Real(values), Cell::Integer(value)) => values.push(Some(*value as f64)),
            (Values::Text(values), Cell::Text(value)) => values.push(Some(value.clone())),
            (values, _) => values.push_null(),
        }
    }
}

/// Fills the columns of [`wide_columns`] after those of `tick`; NULL if the tick has no sample.
fn join(
    export: &RecordingExport<'_>,
    ticks: &[Row],
    mut columns: &mut [Values],
) -> Result<(), Error> {
    let tick_ids = ticks.iter().map(tick_id).collect_vec();
    let ([first, ..], [.., last]) = (tick_ids.as_slice(), tick_ids.as_slice()) else {
        return Ok(());
    };
    for table in PerTickTable::ALL {
        // `PerTickTable::columns` excludes `tick`.
        let (of_table, others) = columns.split_at_mut(table.columns().len());
        columns = others;
        let samples = export.recording.rows_of_ticks(table, *first, *last)?;
        let mut samples = samples.into_iter().peekable();
        for tick in &tick_ids {
            while samples.next_if(|sample| tick_id(sample) < *tick).is_some() {}
            match samples.next_if(|sample| tick_id(sample) == *tick) {
                Some(sample) => push_row(of_table, sample.get(1..).unwrap_or_default()),
                None => of_table.iter_mut().for_each(Values::push_null),
            }
        }
    }
    let labels = labels(export).map(|(_, cell)| cell).collect_vec();
    for _ in ticks {
        push_row(columns, &labels);
    }
    Ok(())
}

fn tick_id(row: &Row) -> i64 {
    match row.first() {
        Some(Cell::Integer(tick_id)) => *tick_id,
        _ => i64::MIN,
    }
}
