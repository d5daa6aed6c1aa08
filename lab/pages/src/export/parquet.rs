use super::{Field, Layout, TableWriter, Type, Values};
use anyhow::{Context, Result};
use parquet::{
    basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{ColumnPath, Type as Schema, TypePtr},
};
use std::{io::Write, sync::Arc};

pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    layout: Layout,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(
        out: W,
        table: &str,
        layout: Layout,
        key_values: &[(String, String)],
    ) -> Result<Self> {
        let key_values = key_values
            .iter()
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
            .collect();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("faultline version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(key_values));
        for field in layout
            .fields
            .iter()
            .filter(|field| field.kind == Type::Integer)
        {
            // Counters and times rise steadily: differences are small and values rarely repeat.
            let column = ColumnPath::from(field.name.as_str());
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        let properties = properties.build();
        let writer = SerializedFileWriter::new(out, schema(table, &layout)?, Arc::new(properties))?;
        Ok(ParquetWriter { writer, layout })
    }
}

impl<W: Write + Send> TableWriter for ParquetWriter<W> {
    fn chunk(&mut self, columns: &[Values]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (field, values) in self.layout.values(columns) {
            let mut column = group
                .next_column()?
                .with_context(|| format!("no column {}", field.name))?;
            write(&mut column, values)?;
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

fn schema(table: &str, layout: &Layout) -> Result<TypePtr> {
    let fields: Result<Vec<_>, _> = layout
        .fields
        .iter()
        .map(|field| column(field).map(Arc::new))
        .collect();
    Ok(Arc::new(
        Schema::group_type_builder(table)
            .with_fields(fields?)
            .build()?,
    ))
}

fn column(field: &Field) -> parquet::errors::Result<Schema> {
    let (physical, logical) = match field.kind {
        Type::Integer if field.is_time => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
        ),
        Type::Integer => (Physical::INT64, None),
        Type::Real => (Physical::DOUBLE, None),
        Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Schema::primitive_type_builder(&field.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

fn write(column: &mut SerializedColumnWriter<'_>, values: &Values) -> Result<()> {
    match values {
        Values::Integer(values) => write_as::<Int64Type, _>(column, values, |value| *value),
        Values::Real(values) => write_as::<DoubleType, _>(column, values, |value| *value),
        Values::Text(values) => write_as::<ByteArrayType, _>(column, values, |value: &String| {
            ByteArray::from(value.as_str())
        }),
    }
}

fn write_as<T: DataType, V>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    of: impl Fn(&V) -> T::T,
) -> Result<()> {
    let definition_levels: Vec<i16> = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    let values: Vec<T::T> = values.iter().flatten().map(of).collect();
    column
        .typed::<T>()
        .write_batch(&values, Some(&definition_levels), None)?;
    Ok(())
}
