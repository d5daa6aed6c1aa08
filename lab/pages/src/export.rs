use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat};
use faultline_common::files::{AtPath, TempFile};
use itertools::Itertools;
use parquet::{
    basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as PhysicalType},
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{ColumnPath, Type as SchemaType, TypePtr},
};
use std::{
    io::{BufWriter, Write},
    path::Path,
    sync::Arc,
};

/// A table in memory: names of columns, and their values.
pub type Columns = Vec<(String, Values)>;

pub fn named_columns<'n>(columns: impl IntoIterator<Item = (&'n str, Values)>) -> Columns {
    columns
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values))
        .collect()
}

/// Writes Parquet. An existing file is replaced when the new one is complete.
pub fn write_columns(path: &Path, table: &str, columns: Columns) -> Result<()> {
    let write = || -> Result<()> {
        let layout = Layout::new(
            columns
                .iter()
                .map(|(name, values)| (name.as_str(), values.kind())),
        );
        let part = TempFile::create(path)?;
        let out = BufWriter::new(part.file().try_clone()?);
        let mut writer = Box::new(ParquetWriter::new(out, table, layout, [])?);
        let values = columns.into_iter().map(|(_, values)| values).collect_vec();
        writer.write_chunk(&values)?;
        writer.finish()?;
        Ok(part.finish(path)?)
    };
    write().at(path)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    Integer,
    Real,
    Text,
}

struct Field {
    name: String,
    kind: Type,
    /// Written as a date and time; the values are nanoseconds since 1970.
    is_time: bool,
    /// Index in the columns of a chunk.
    column_index: usize,
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
            Type::Integer => Self::Integer(Vec::new()),
            Type::Real => Self::Real(Vec::new()),
            Type::Text => Self::Text(Vec::new()),
        }
    }

    pub fn kind(&self) -> Type {
        match self {
            Self::Integer(_) => Type::Integer,
            Self::Real(_) => Type::Real,
            Self::Text(_) => Type::Text,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Self::Integer(values) => values.push(None),
            Self::Real(values) => values.push(None),
            Self::Text(values) => values.push(None),
        }
    }
}

/// The columns of a file. A column `*unix_ns` is followed by the same time as a date, `*time`.
pub struct Layout {
    fields: Vec<Field>,
}

impl Layout {
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        let mut fields = Vec::new();
        for (column_index, (name, kind)) in columns.into_iter().enumerate() {
            let field = |name, is_time| Field {
                name,
                kind,
                is_time,
                column_index,
            };
            fields.push(field(name.to_owned(), false));
            if let (Type::Integer, Some(prefix)) = (kind, name.strip_suffix("unix_ns")) {
                fields.push(field(format!("{prefix}time"), true));
            }
        }
        Self { fields }
    }

    fn values<'a>(
        &'a self,
        columns: &'a [Values],
    ) -> impl Iterator<Item = (&'a Field, &'a Values)> {
        self.fields
            .iter()
            .filter_map(|field| Some((field, columns.get(field.column_index)?)))
    }
}

/// About a million values per chunk, so that memory stays constant.
pub fn rows_per_chunk(columns: usize) -> usize {
    ((1 << 20) / columns.max(1)).clamp(1 << 10, 1 << 16)
}

pub trait TableWriter {
    fn write_chunk(&mut self, columns: &[Values]) -> Result<()>;

    fn finish(self: Box<Self>) -> Result<()>;
}

/// Writes CSV as in RFC 4180, with texts unchanged. A NULL is an empty field, an empty text is `""`.
pub struct CsvWriter<W> {
    out: W,
    layout: Layout,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    pub fn new(out: W, layout: Layout) -> Result<Self> {
        let mut writer = Self {
            out,
            layout,
            line: String::new(),
        };
        for field in &writer.layout.fields {
            push_text(&mut writer.line, &field.name);
            writer.line.push(',');
        }
        writer.end_line()?;
        Ok(writer)
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        // The comma after the last field.
        self.line.pop();
        self.line.push_str("\r\n");
        let written = self.out.write_all(self.line.as_bytes());
        self.line.clear();
        written
    }
}

impl<W: Write> TableWriter for CsvWriter<W> {
    fn write_chunk(&mut self, columns: &[Values]) -> Result<()> {
        for row in 0..columns.first().map_or(0, Values::len) {
            for (field, values) in self.layout.values(columns) {
                push_value(&mut self.line, field.is_time, values, row);
                self.line.push(',');
            }
            self.end_line()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

fn push_value(line: &mut String, is_time: bool, values: &Values, row: usize) {
    match values {
        Values::Integer(values) => match values.get(row) {
            Some(Some(value)) if is_time => {
                *line += &DateTime::from_timestamp_nanos(*value)
                    .to_rfc3339_opts(SecondsFormat::Nanos, true)
            }
            Some(Some(value)) => *line += &value.to_string(),
            _ => {}
        },
        // Debug keeps the decimal point of whole numbers, so that readers infer the type.
        Values::Real(values) => {
            if let Some(Some(value)) = values.get(row) {
                *line += &format!("{value:?}");
            }
        }
        Values::Text(values) => {
            if let Some(Some(text)) = values.get(row) {
                push_text(line, text);
            }
        }
    }
}

fn push_text(line: &mut String, text: &str) {
    if text.is_empty() || text.contains([',', '"', '\r', '\n']) {
        *line += &format!("\"{}\"", text.replace('"', "\"\""));
    } else {
        *line += text;
    }
}

pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    layout: Layout,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(
        out: W,
        table: &str,
        layout: Layout,
        metadata: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let metadata = metadata
            .into_iter()
            .map(|(key, value)| KeyValue::new(key, value))
            .collect();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("faultline version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(metadata));
        for field in &layout.fields {
            if field.kind != Type::Integer {
                continue;
            }
            // Counters and times rise steadily: differences are small and values rarely repeat.
            let column = ColumnPath::from(field.name.as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        let fields: parquet::errors::Result<_> = layout.fields.iter().map(column_schema).collect();
        let schema = SchemaType::group_type_builder(table)
            .with_fields(fields?)
            .build()?;
        Ok(Self {
            writer: SerializedFileWriter::new(out, schema.into(), properties.build().into())?,
            layout,
        })
    }
}

impl<W: Write + Send> TableWriter for ParquetWriter<W> {
    fn write_chunk(&mut self, columns: &[Values]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (field, values) in self.layout.values(columns) {
            let mut column = group
                .next_column()?
                .with_context(|| format!("no column {}", field.name))?;
            write_values(&mut column, values)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.writer.close()?;
        Ok(())
    }
}

fn column_schema(field: &Field) -> parquet::errors::Result<TypePtr> {
    let time = || LogicalType::timestamp(true, TimeUnit::NANOS);
    let (physical, logical) = match field.kind {
        Type::Integer => (PhysicalType::INT64, field.is_time.then(time)),
        Type::Real => (PhysicalType::DOUBLE, None),
        Type::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    SchemaType::primitive_type_builder(&field.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
        .map(Arc::new)
}

fn write_values(column: &mut SerializedColumnWriter<'_>, values: &Values) -> Result<()> {
    match values {
        Values::Integer(values) => write_as::<Int64Type, _>(column, values, |value| *value),
        Values::Real(values) => write_as::<DoubleType, _>(column, values, |value| *value),
        Values::Text(values) => {
            write_as::<ByteArrayType, _>(column, values, |text| ByteArray::from(text.as_str()))
        }
    }
}

fn write_as<T: DataType, V>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    encode: impl Fn(&V) -> T::T,
) -> Result<()> {
    let level = |value: &Option<V>| i16::from(value.is_some());
    let definition_levels = values.iter().map(level).collect_vec();
    let values = values.iter().flatten().map(encode).collect_vec();
    column
        .typed::<T>()
        .write_batch(&values, Some(&definition_levels), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let rows = rows_per_chunk(columns);
            assert!(
                (1024..=65536).contains(&rows) && rows * columns <= 8 << 20,
                "{columns}"
            );
        }
    }

    fn written(columns: &[(&str, Type)], values: &[Values]) -> String {
        let mut out = Vec::new();
        let mut writer =
            Box::new(CsvWriter::new(&mut out, Layout::new(columns.iter().copied())).unwrap());
        writer.write_chunk(values).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_distinguishes_null_from_empty_text_and_keeps_decimal_points() {
        let columns = [
            ("unix_ns", Type::Integer),
            ("v", Type::Real),
            ("t", Type::Text),
        ];
        let values = [
            Values::Integer(vec![Some(1), None]),
            Values::Real(vec![Some(2.0), None]),
            Values::Text(vec![Some(String::new()), None]),
        ];
        let expected = "unix_ns,time,v,t\r\n1,1970-01-01T00:00:00.000000001Z,2.0,\"\"\r\n,,,\r\n";
        assert_eq!(written(&columns, &values), expected);
    }

    /// Reads RFC 4180, with NULL for an empty field without quotes.
    fn parsed(text: &str) -> Vec<Vec<Option<String>>> {
        let mut rows = vec![vec![]];
        let mut rest = text;
        loop {
            let (field, after) = match rest.strip_prefix('"') {
                Some(mut quoted) => {
                    let mut field = String::new();
                    loop {
                        let end = quoted.find('"').unwrap();
                        field.push_str(&quoted[..end]);
                        quoted = &quoted[end + 1..];
                        match quoted.strip_prefix('"') {
                            Some(more) => {
                                field.push('"');
                                quoted = more;
                            }
                            None => break (Some(field), quoted),
                        }
                    }
                }
                None => {
                    let end = rest.find([',', '\r']).unwrap();
                    ((end > 0).then(|| rest[..end].to_owned()), &rest[end..])
                }
            };
            rows.last_mut().unwrap().push(field);
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix("\r\n").unwrap();
                    if rest.is_empty() {
                        return rows;
                    }
                    rows.push(vec![]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_exported_csv_round_trips(rows in proptest::collection::vec((any::<Option<i64>>(), any::<Option<f64>>(), proptest::option::of("[a\",\r\n\u{e9}\u{1b}=@+-]{0,5}")), 0..20)) {
            let columns = [("i", Type::Integer), ("r", Type::Real), ("t", Type::Text)];
            let values = [
                Values::Integer(rows.iter().map(|row| row.0).collect()),
                Values::Real(rows.iter().map(|row| row.1).collect()),
                Values::Text(rows.iter().map(|row| row.2.clone()).collect()),
            ];
            let read = parsed(&written(&columns, &values));
            prop_assert_eq!(read.len(), rows.len() + 1);
            for (row, read) in rows.iter().zip(&read[1..]) {
                prop_assert_eq!(read[0].as_ref().map(|text| text.parse::<i64>().unwrap()), row.0);
                let real = read[1].as_ref().map(|text| text.parse::<f64>().unwrap());
                prop_assert!(real == row.1 || row.1.is_some_and(f64::is_nan));
                prop_assert_eq!(&read[2], &row.2);
            }
        }
    }
}
