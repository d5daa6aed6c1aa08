use faultline_pages::export::{TableWriter, Type, Values, chunk_rows};
use faultline_recording::schema::{Kind, TableSpec};
use faultline_recording::{Cell, Error, Recording, Row};

/// A column with reals or counts beyond 2^63 is real throughout.
pub(super) fn kinds(recording: &Recording, table: &TableSpec) -> Result<Vec<Type>, Error> {
    let mut kinds: Vec<Type> = table
        .columns
        .iter()
        .map(|column| type_of(column.kind))
        .collect();
    recording.rows(
        table.name,
        chunk_rows(kinds.len()),
        |rows: &[Row]| -> Result<(), Error> {
            for row in rows {
                for (kind, cell) in kinds.iter_mut().zip(row) {
                    if let (Type::Integer, Cell::Real(_)) = (*kind, cell) {
                        *kind = Type::Real;
                    }
                }
            }
            Ok(())
        },
    )?;
    Ok(kinds)
}

pub(super) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Integer => Type::Integer,
        Kind::Real => Type::Real,
        Kind::Text => Type::Text,
    }
}

/// `fill` adds rows of the table to columns of these kinds. Returns the number of rows.
pub(super) fn write(
    recording: &Recording,
    table: &str,
    kinds: &[Type],
    mut to: Box<dyn TableWriter>,
    fill: impl Fn(&[Row], &mut [Values]) -> Result<(), Error>,
) -> anyhow::Result<u64> {
    let mut written = 0;
    recording.rows(
        table,
        chunk_rows(kinds.len()),
        |rows| -> anyhow::Result<()> {
            let mut columns: Vec<Values> = kinds.iter().map(|kind| Values::of(*kind)).collect();
            fill(rows, &mut columns)?;
            written += rows.len() as u64;
            to.chunk(&columns)
        },
    )?;
    to.finish()?;
    Ok(written)
}

pub(super) fn push_rows(rows: &[Row], columns: &mut [Values]) {
    for row in rows {
        columns
            .iter_mut()
            .zip(row)
            .for_each(|(values, cell)| push(values, cell));
    }
}

/// A value of another type becomes NULL.
pub(super) fn push(values: &mut Values, cell: &Cell) {
    match (values, cell) {
        (Values::Integer(values), Cell::Integer(value)) => values.push(Some(*value)),
        (Values::Real(values), Cell::Real(value)) => values.push(Some(*value)),
        (Values::Real(values), Cell::Integer(value)) => values.push(Some(*value as f64)),
        (Values::Text(values), Cell::Text(value)) => values.push(Some(value.clone())),
        (values, _) => values.push_null(),
    }
}
