//! Reads any table without interpreting its values.

use super::Recording;
use crate::{
    error::{AttachPath, Error, Result},
    file,
    schema::{PerTickTable, TABLES, TableColumn, TableSpec, table_named},
};
pub use rusqlite::types::Value as Cell;
use rusqlite::types::ValueRef;

pub type Row = Vec<Cell>;

#[derive(Debug)]
pub struct TableInfo {
    pub name: &'static str,
    pub columns: Vec<TableColumn>,
    pub rows: u64,
}

impl Recording {
    /// All tables of the format, in the order of [`TABLES`]. Those that the recording lacks are
    /// empty.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        let info = |spec: &TableSpec| {
            let rows = match self.has(spec.name) {
                true => self.conn.count_rows(spec.name)?,
                false => 0,
            };
            Ok(TableInfo {
                name: spec.name,
                columns: spec.columns.clone(),
                rows,
            })
        };
        TABLES.iter().map(info).collect()
    }

    /// All rows in the order of writing, in chunks of `chunk`; the last may be shorter.
    pub fn rows<E: From<Error>>(
        &self,
        table: &str,
        chunk: usize,
        mut each: impl FnMut(&[Row]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((spec, select)) = self.select(table)? else {
            return Ok(());
        };
        let sql = format!("{select} ORDER BY {}", spec.order_column);
        let mut rows: Vec<Row> = Vec::new();
        self.conn.walk(&sql, [], |row| {
            rows.push(cells(row, spec.columns.len()).at(&self.path)?);
            if rows.len() >= chunk.max(1) {
                each(&rows)?;
                rows.clear();
            }
            Ok::<(), E>(())
        })?;
        if rows.is_empty() { Ok(()) } else { each(&rows) }
    }

    /// Rows of the ticks `first` to `last`, both included.
    pub fn rows_of_ticks(&self, table: PerTickTable, first: i64, last: i64) -> Result<Vec<Row>> {
        let Some((spec, select)) = self.select(table.name())? else {
            return Ok(Vec::new());
        };
        let sql = format!("{select} WHERE tick BETWEEN ?1 AND ?2 ORDER BY tick");
        let read_row = |row: &rusqlite::Row<'_>| cells(row, spec.columns.len());
        self.conn.collect(&sql, [first, last], read_row)
    }

    /// The query of all columns; `None` if the recording does not have the table.
    fn select(&self, table: &str) -> Result<Option<(&'static TableSpec, String)>> {
        let spec = table_named(table).ok_or_else(|| Error::NoSuchTableOrColumn {
            what: table.to_owned(),
        })?;
        let names = spec.columns.iter().map(|column| column.name);
        let column_list = file::column_list(&self.present_tables, spec.name, names);
        let select = format!("SELECT {column_list} FROM {}", spec.name);
        Ok(self.has(spec.name).then_some((spec, select)))
    }
}

fn cells(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Row> {
    (0..columns).map(|i| row.get_ref(i).map(cell)).collect()
}

/// Reads a blob as text, because no column of the format has blobs.
fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(n) => Cell::Integer(n),
        ValueRef::Real(x) => Cell::Real(x),
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            Cell::Text(String::from_utf8_lossy(text).into_owned())
        }
    }
}
