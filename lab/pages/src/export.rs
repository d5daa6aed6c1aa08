mod csv;
mod parquet;

use anyhow::{Context, Result};
use faultline_common::files::TempFile;
use std::{io::BufWriter, path::Path};

pub use csv::CsvWriter;
pub use parquet::ParquetWriter;

/// A table in memory: its columns with their names.
pub type Columns = Vec<(String, Values)>;

pub fn named<'n>(columns: impl IntoIterator<Item = (&'n str, Values)>) -> Columns {
    columns
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values))
        .collect()
}

/// Writes a table as a Parquet file. An existing file is replaced only when the new one is
/// complete.
pub fn write_columns(path: &Path, table: &str, columns: Columns) -> Result<()> {
    let path_text = || path.display().to_string();
    let layout = Layout::new(
        columns
            .iter()
            .map(|(name, values)| (name.as_str(), values.kind())),
    );
    let part = TempFile::create(path).with_context(path_text)?;
    let out = BufWriter::new(part.file().try_clone().with_context(path_text)?);
    let write = || {
        let mut writer = Box::new(ParquetWriter::new(out, table, layout, &[])?);
        let values: Vec<Values> = columns.into_iter().map(|(_, values)| values).collect();
        writer.chunk(&values)?;
        writer.finish()
    };
    write().with_context(path_text)?;
    part.finish(path).with_context(path_text)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Real,
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    pub name: String,
    pub kind: Type,
    /// Nanoseconds since 1970, in UTC, shown as a date and time.
    pub is_time: bool,
    column: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Integer(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Values {
    pub fn of(kind: Type) -> Self {
        match kind {
            Type::Integer => Values::Integer(Vec::new()),
            Type::Real => Values::Real(Vec::new()),
            Type::Text => Values::Text(Vec::new()),
        }
    }

    pub fn kind(&self) -> Type {
        match self {
            Values::Integer(_) => Type::Integer,
            Values::Real(_) => Type::Real,
            Values::Text(_) => Type::Text,
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Integer(values) => values.len(),
            Values::Real(values) => values.len(),
            Values::Text(values) => values.len(),
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Values::Integer(values) => values.push(None),
            Values::Real(values) => values.push(None),
            Values::Text(values) => values.push(None),
        }
    }
}

/// Each nanosecond column (`unix_ns`) is followed by the same time as a date (`time`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
}

impl Layout {
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let mut fields = Vec::new();
        for (column, (name, kind)) in columns.into_iter().enumerate() {
            let field = |name: String, is_time| Field {
                name,
                kind,
                is_time,
                column,
            };
            fields.push(field(name.to_owned(), false));
            if let (Type::Integer, Some(before)) = (kind, name.strip_suffix("unix_ns")) {
                fields.push(field(format!("{before}time"), true));
            }
        }
        Layout { fields }
    }

    fn values<'a>(
        &'a self,
        columns: &'a [Values],
    ) -> impl Iterator<Item = (&'a Field, &'a Values)> {
        self.fields
            .iter()
            .filter_map(|field| Some((field, columns.get(field.column)?)))
    }
}

/// About a million values per chunk, so that memory stays constant.
pub fn chunk_rows(columns: usize) -> usize {
    ((1 << 20) / columns.max(1)).clamp(1 << 10, 1 << 16)
}

pub trait TableWriter {
    fn chunk(&mut self, columns: &[Values]) -> Result<()>;

    fn finish(self: Box<Self>) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timestamp_is_exported_in_nanoseconds_and_as_a_time() {
        let layout = Layout::new([
            ("id", Type::Integer),
            ("unix_ns", Type::Integer),
            ("seen_unix_ns", Type::Integer),
            ("unix_ns_text", Type::Text),
        ]);
        let names: Vec<_> = layout
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.kind, field.is_time))
            .collect();
        let expected = [
            ("id", Type::Integer, false),
            ("unix_ns", Type::Integer, false),
            ("time", Type::Integer, true),
            ("seen_unix_ns", Type::Integer, false),
            ("seen_time", Type::Integer, true),
            ("unix_ns_text", Type::Text, false),
        ];
        assert_eq!(names, expected);
        let columns = [Values::of(Type::Integer), Values::Integer(vec![Some(7)])];
        let shown: Vec<_> = layout
            .values(&columns)
            .map(|(field, values)| (field.name.as_str(), values.len()))
            .collect();
        assert_eq!(shown, [("id", 0), ("unix_ns", 1), ("time", 1)]);
    }

    #[test]
    fn an_export_chunk_is_bounded_for_any_table() {
        for columns in 0..5000 {
            let rows = chunk_rows(columns);
            assert!(
                (1024..=65536).contains(&rows) && rows * columns <= 8 << 20,
                "{columns}"
            );
        }
    }
}
