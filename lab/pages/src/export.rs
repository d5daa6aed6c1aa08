mod csv;
mod parquet;
mod table;

use anyhow::{Context, Result};
use faultline_common::files::TempFile;
use std::{io::BufWriter, path::Path};

pub use csv::CsvWriter;
pub use parquet::ParquetWriter;
pub use table::{Layout, TableWriter, Type, Values, chunk_rows};

/// A table in memory: its columns with their names.
pub type Columns = Vec<(String, Values)>;

pub fn named<'n>(columns: impl IntoIterator<Item = (&'n str, Values)>) -> Columns {
    let columns = columns.into_iter();
    columns
        .map(|(name, values)| (name.to_owned(), values))
        .collect()
}

/// Writes a table as a Parquet file. An existing file is replaced only when the new one is
/// complete.
pub fn write_columns(path: &Path, table: &str, columns: Columns) -> Result<()> {
    let path_text = || path.display().to_string();
    let heads = columns.iter();
    let layout = Layout::new(heads.map(|(name, values)| (name.as_str(), values.kind())));
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
