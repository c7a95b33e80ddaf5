//! Rows to measure with.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

pub fn wide_schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// The key of a row: 100 bytes, in no order.
pub fn wide_key(row: u64) -> String {
    format!("{:0100}", row.wrapping_mul(0x9E37_79B9))
}

/// Rows of 100 bytes of key and 100 of value.
pub fn wide_rows(from: u64, to: u64) -> RecordBatch {
    let keys: StringArray = (from..to).map(|row| Some(wide_key(row))).collect();
    let values: StringArray = (from..to).map(|row| Some(format!("{row:0100}"))).collect();
    RecordBatch::try_new(wide_schema(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
}

/// Batches of ten columns.
pub fn ten_columns(from: i64, rows: i64) -> RecordBatch {
    let schema = ten_schema();
    let range = || from..from + rows;
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(range()))];
    for column in 1..4 {
        columns.push(Arc::new(Int64Array::from_iter_values(range().map(|row| row * column))));
    }
    for column in 4..6 {
        columns
            .push(Arc::new(Int32Array::from_iter_values(range().map(|row| (row % (column * 100)) as i32))));
    }
    for column in 6..8 {
        columns.push(Arc::new(Float64Array::from_iter_values(range().map(|row| row as f64 / column as f64))));
    }
    for column in 8..10 {
        columns.push(Arc::new(StringArray::from_iter_values(
            range().map(|row| format!("{column}-{}", row % 1000)),
        )));
    }
    RecordBatch::try_new(schema, columns).unwrap()
}

pub fn ten_schema() -> SchemaRef {
    let data_type = |column| match column {
        0..=3 => DataType::Int64,
        4..=5 => DataType::Int32,
        6..=7 => DataType::Float64,
        _ => DataType::Utf8,
    };
    let fields = (0..10).map(|column| Field::new(format!("c{column}"), data_type(column), false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
