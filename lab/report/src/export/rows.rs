use super::files::TableFiles;
use anyhow::Result;
use faultline_pages::export::{Type, Values, chunk_rows};
use faultline_recording::{
    Cell, Error, Recording, Row,
    schema::{Kind, TableSpec},
};

/// A column with reals or counts beyond 2^63 is real throughout. In a data set types are those of
/// every recording: samples are real.
pub fn kinds(
    recording: &Recording,
    table: &TableSpec,
    is_dataset: bool,
) -> Result<Vec<Type>, Error> {
    if is_dataset {
        let is_sample = table.name.ends_with("_sample");
        let columns = table.columns.iter().map(|column| match column.kind {
            Kind::Integer if is_sample && column.references.is_none() => Type::Real,
            kind => type_of(kind),
        });
        return Ok(columns.collect());
    }
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

pub fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Integer => Type::Integer,
        Kind::Real => Type::Real,
        Kind::Text => Type::Text,
    }
}

/// `fill` adds rows of the table to columns of these kinds. Returns the number of rows.
pub fn write(
    recording: &Recording,
    table: &str,
    kinds: &[Type],
    to: &mut TableFiles<'_>,
    fill: impl Fn(&[Row], &mut [Values]) -> Result<(), Error>,
) -> Result<u64> {
    let mut written = 0;
    recording.rows(table, chunk_rows(kinds.len()), |rows| -> Result<()> {
        let days = rows.chunk_by(|one, next| to.day(one) == to.day(next));
        for rows in days.collect::<Vec<_>>() {
            let mut columns: Vec<Values> = kinds.iter().map(|kind| Values::of(*kind)).collect();
            fill(rows, &mut columns)?;
            written += rows.len() as u64;
            let day = rows.first().map_or(0, |row| to.day(row));
            to.write(day, columns, rows.len())?;
        }
        Ok(())
    })?;
    Ok(written)
}

pub fn push_rows(rows: &[Row], columns: &mut [Values]) {
    for row in rows {
        columns
            .iter_mut()
            .zip(row)
            .for_each(|(values, cell)| push(values, cell));
    }
}

/// A value of another type becomes NULL.
pub fn push(values: &mut Values, cell: &Cell) {
    match (values, cell) {
        (Values::Integer(values), Cell::Integer(value)) => values.push(Some(*value)),
        (Values::Real(values), Cell::Real(value)) => values.push(Some(*value)),
        (Values::Real(values), Cell::Integer(value)) => values.push(Some(*value as f64)),
        (Values::Text(values), Cell::Text(value)) => values.push(Some(value.clone())),
        (values, _) => values.push_null(),
    }
}
