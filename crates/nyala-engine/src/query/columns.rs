//! Columns of the answers that Nyala makes itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use nyala_sql::error::Result;

pub fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

pub fn number(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

pub fn time(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, None), true)
}

pub fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let signed = values.map(|value| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
    Arc::new(signed.collect::<Int64Array>())
}

pub fn times(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let signed = values.map(|ms| ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)));
    Arc::new(signed.collect::<TimestampMillisecondArray>())
}

pub fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(schema, columns)?)
}
