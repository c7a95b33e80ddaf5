//! Values that clients bind to a statement.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, QueryError};

/// Most rows of values at a time.
pub const MAX_ROWS: usize = 100_000;

/// What a client is told to bind. The JDBC driver refuses values of other types, and takes its milliseconds for the unit of
/// any other time; the engine casts what comes.
pub fn schema_of(types: &[Option<DataType>]) -> SchemaRef {
    let fields = types.iter().zip(1..).map(|(data_type, number)| {
        let data_type = data_type.as_ref().map_or(DataType::Utf8, bindable);
        Arc::new(Field::new(format!("${number}"), data_type, true))
    });
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

fn bindable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Boolean => DataType::Boolean,
        whole if whole.is_integer() => DataType::Int64,
        number if number.is_numeric() => DataType::Float64,
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        _ => DataType::Utf8,
    }
}

/// The values of each row, `$1` first.
///
/// # Errors
/// There are too many rows, or as many columns as the statement has no parameters.
pub fn values_of(batches: &[RecordBatch], needed: usize) -> Result<Vec<Vec<ScalarValue>>, QueryError> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows > MAX_ROWS {
        let message = format!("{rows} rows of parameters are more than {MAX_ROWS}");
        return Err(QueryError::new(ErrorKind::LimitExceeded, message)
            .hint("load rows in bulk, as `adbc_ingest` does"));
    }
    let mut values = Vec::with_capacity(rows);
    for batch in batches {
        if batch.num_columns() != needed {
            let given = batch.num_columns();
            let message = format!("the statement has {needed} parameters, but {given} were given");
            return Err(QueryError::new(ErrorKind::InvalidParameter, message));
        }
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            values.push(cells.collect::<Result<_, _>>()?);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn clients_are_told_types_that_they_bind_rightly() {
        let schema = schema_of(&[
            Some(DataType::Int16),
            Some(DataType::Decimal128(10, 2)),
            Some(DataType::Timestamp(TimeUnit::Nanosecond, None)),
            Some(DataType::Utf8View),
            None,
        ]);
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(
            types,
            [
                DataType::Int64,
                DataType::Float64,
                DataType::Timestamp(TimeUnit::Millisecond, None),
                DataType::Utf8,
                DataType::Utf8
            ]
        );
        assert_eq!(schema.field(0).name(), "$1");
    }

    #[test]
    fn rows_of_batches_are_joined_and_counted() {
        let (numbers, texts): (ArrayRef, ArrayRef) =
            (Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![Some("a"), None])));
        let batch = RecordBatch::try_from_iter([("0", numbers), ("1", texts)]).unwrap();
        let values = values_of(&[batch.clone(), batch.clone()], 2).unwrap();
        assert_eq!(values.len(), 4);
        assert_eq!(values.get(1).unwrap(), &[ScalarValue::Int64(Some(2)), ScalarValue::Utf8(None)]);
        let error = values_of(&[batch], 3).unwrap_err();
        assert!(error.message.contains("3 parameters, but 2"), "{}", error.message);
    }
}
