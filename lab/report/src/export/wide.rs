//! One row per tick, joined with all tables that have at most one row per tick.

use super::rows::{self, kinds, push, push_rows, type_of};
use faultline_pages::export::{TableWriter, Type, Values};
use faultline_recording::schema::{TABLES, TableColumn};
use faultline_recording::{Cell, Error, Recording, Row, Table};

const TICK: &str = "tick";

pub(super) fn columns(recording: &Recording) -> Result<Vec<(String, Type)>, Error> {
    let mut all: Vec<(String, Type)> = tick_columns()
        .iter()
        .map(|column| (column.name.to_owned(), type_of(column.kind)))
        .collect();
    for spec in TABLES
        .iter()
        .filter(|spec| Table::ALL.iter().any(|table| table.name() == spec.name))
    {
        let prefix = spec.name.trim_end_matches("sample");
        let columns = spec.columns.iter().zip(kinds(recording, spec)?).skip(1);
        all.extend(columns.map(|(column, kind)| (format!("{prefix}{}", column.name), kind)));
    }
    Ok(all)
}

fn tick_columns() -> &'static [TableColumn] {
    TABLES
        .iter()
        .find(|spec| spec.name == TICK)
        .map_or(&[], |spec| &spec.columns)
}

/// Returns the number of ticks. The columns of a table without a sample of a tick are NULL.
pub(super) fn write(
    recording: &Recording,
    kinds: &[Type],
    to: Box<dyn TableWriter>,
) -> anyhow::Result<u64> {
    rows::write(recording, TICK, kinds, to, |ticks, columns| {
        let (own, mut rest) = columns.split_at_mut(tick_columns().len());
        push_rows(ticks, own);
        let ids: Vec<i64> = ticks.iter().map(tick_id).collect();
        for table in Table::ALL {
            let (these, others) = rest.split_at_mut(table.columns().len());
            join(recording, table, &ids, these)?;
            rest = others;
        }
        Ok(())
    })
}

fn join(
    recording: &Recording,
    table: Table,
    ticks: &[i64],
    columns: &mut [Values],
) -> Result<(), Error> {
    let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else {
        return Ok(());
    };
    let mut samples = recording
        .rows_of_ticks(table, *first, *last)?
        .into_iter()
        .peekable();
    for tick in ticks {
        while samples.peek().is_some_and(|sample| tick_id(sample) < *tick) {
            samples.next();
        }
        match samples.next_if(|sample| tick_id(sample) == *tick) {
            Some(sample) => columns
                .iter_mut()
                .zip(sample.iter().skip(1))
                .for_each(|(values, cell)| push(values, cell)),
            None => columns.iter_mut().for_each(Values::push_null),
        }
    }
    Ok(())
}

fn tick_id(row: &Row) -> i64 {
    match row.first() {
        Some(Cell::Integer(tick_id)) => *tick_id,
        _ => i64::MIN,
    }
}
