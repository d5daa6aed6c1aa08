//! One row per tick, joined with all tables that have at most one row per tick, and the labels.

use super::{
    files::TableFiles,
    rows::{self, kinds, push, push_rows, type_of},
};
use faultline_pages::export::{Type, Values};
use faultline_recording::{
    Cell, Error, Recording, Row, Table,
    schema::{TABLES, TableColumn},
};

pub const TICK: &str = "tick";

pub fn columns(recording: &Recording, is_dataset: bool) -> Result<Vec<(String, Type)>, Error> {
    let mut all: Vec<(String, Type)> = tick_columns()
        .iter()
        .map(|column| (column.name.to_owned(), type_of(column.kind)))
        .collect();
    for spec in TABLES
        .iter()
        .filter(|spec| Table::ALL.iter().any(|table| table.name() == spec.name))
    {
        let prefix = spec.name.trim_end_matches("sample");
        let columns = spec
            .columns
            .iter()
            .zip(kinds(recording, spec, is_dataset)?)
            .skip(1);
        all.extend(columns.map(|(column, kind)| (format!("{prefix}{}", column.name), kind)));
    }
    all.extend(labels(recording, is_dataset).map(|(name, _)| (name, Type::Text)));
    Ok(all)
}

/// `arm` and `run` of every recording, then its other labels, as `label_NAME`. In a data set only
/// `arm`: its folders have the run, its table `label` the others.
fn labels(recording: &Recording, is_dataset: bool) -> impl Iterator<Item = (String, Cell)> {
    let named = ["arm", "run"].into_iter().map(|wanted| {
        let label = recording.labels().iter().find(|(name, _)| name == wanted);
        let cell = label.map_or(Cell::Null, |(_, label)| Cell::Text(label.clone()));
        (wanted.to_owned(), cell)
    });
    let others = recording.labels().iter();
    let others = others.filter(|(name, _)| name != "arm" && name != "run");
    let others = others.map(|(name, label)| (format!("label_{name}"), Cell::Text(label.clone())));
    named
        .chain(others)
        .take(if is_dataset { 1 } else { usize::MAX })
}

fn tick_columns() -> &'static [TableColumn] {
    TABLES
        .iter()
        .find(|spec| spec.name == TICK)
        .map_or(&[], |spec| &spec.columns)
}

/// Returns the number of ticks. The columns of a table without a sample of a tick are NULL.
pub fn write(
    recording: &Recording,
    kinds: &[Type],
    is_dataset: bool,
    to: &mut TableFiles<'_>,
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
        for (values, (_, label)) in rest.iter_mut().zip(labels(recording, is_dataset)) {
            ids.iter().for_each(|_| push(values, &label));
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
