//! The columns of Parquet files as Nyala reads them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;

use super::intervals::INTERVALS_KEY;

/// The columns of a file, without the encodings that its writer chose: dictionaries, and the size of offsets.
pub fn columns_of(metadata: &ParquetMetaData) -> Result<Vec<FieldRef>> {
    let file = metadata.file_metadata();
    let notes = file.key_value_metadata();
    let schema = parquet_to_arrow_schema(file.schema_descr(), notes)
        .map_err(|error| QueryError::new(ErrorKind::Unreadable, error.to_string()))?;
    let marked = notes.into_iter().flatten().find(|note| note.key == INTERVALS_KEY);
    let marked = marked.and_then(|note| note.value.as_deref()).unwrap_or_default();
    let intervals: Vec<&str> = marked.split('\n').filter(|name| !name.is_empty()).collect();
    let old_times: Vec<&str> = file
        .schema_descr()
        .columns()
        .iter()
        .filter(|c| c.physical_type() == Physical::INT96)
        .map(|column| column.path().parts().first().map_or("", String::as_str))
        .collect();
    schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name().as_str();
            let data_type = match field.data_type() {
                _ if intervals.contains(&name) => DataType::Interval(IntervalUnit::MonthDayNano),
                // Years 1 to 9999 do not fit into nanoseconds of 64 bits.
                DataType::Timestamp(_, zone) if old_times.contains(&name) => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                DataType::List(item) | DataType::LargeList(item) if holds_interval(item) => {
                    let message = format!("column `{name}` is a list of intervals, which is not supported");
                    return Err(QueryError::new(ErrorKind::Unsupported, message));
                }
                other => by_values(other),
            };
            Ok(Arc::new(Field::new(name, data_type, field.is_nullable())))
        })
        .collect()
}

fn holds_interval(item: &Field) -> bool {
    matches!(item.data_type(), DataType::Interval(_))
}

/// The type without its encoding. A dictionary is how the writer of a file kept values in memory, which Parquet records; another
/// file of the same table may have none.
pub fn by_values(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(by_values(field.data_type())))
    };
    match data_type {
        DataType::Dictionary(_, values) => by_values(values),
        DataType::RunEndEncoded(_, values) => by_values(values.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(inner) => DataType::List(item(inner)),
        DataType::LargeList(inner) => DataType::LargeList(item(inner)),
        DataType::FixedSizeList(inner, length) => DataType::FixedSizeList(item(inner), *length),
        DataType::Map(entries, sorted) => DataType::Map(item(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(item).collect()),
        other => other.clone(),
    }
}
