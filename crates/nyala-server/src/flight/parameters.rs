//! Values that clients bind to a statement.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, QueryError};

/// Most rows of values at a time.
const MAX_ROWS: usize = 100_000;

/// The types of parameters that a client is told. The JDBC driver refuses values of other types, and takes its milliseconds for the
/// unit of any other time; the engine casts the values that come.
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

/// Rows of values that a client has bound.
#[derive(Debug, Default)]
pub struct Values {
    /// `$1` of each row first.
    pub rows: Vec<Vec<ScalarValue>>,
    /// Bytes of all values.
    pub bytes: u64,
}

impl Values {
    /// One row without values, with which a statement without parameters runs once.
    pub fn one_row_of_none() -> Self {
        Self { rows: vec![Vec::new()], bytes: 0 }
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// There are too many rows, or not as many columns as the statement has parameters.
    pub fn add(&mut self, batch: &RecordBatch, needed: usize) -> Result<(), QueryError> {
        if batch.num_columns() != needed {
            let given = batch.num_columns();
            let message = format!("the statement has {needed} parameters, but {given} were given");
            return Err(QueryError::new(ErrorKind::InvalidParameter, message));
        }
        if self.rows.len().saturating_add(batch.num_rows()) > MAX_ROWS {
            let message = format!("more than {MAX_ROWS} rows of parameters");
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("load rows in bulk, as `adbc_ingest` does"));
        }
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            self.rows.push(cells.collect::<Result<_, _>>()?);
        }
        Ok(())
    }
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
        let mut values = Values::default();
        (0..2).for_each(|_| values.add(&batch, 2).unwrap());
        assert_eq!(values.rows.len(), 4);
        assert_eq!(values.rows.get(1).unwrap(), &[ScalarValue::Int64(Some(2)), ScalarValue::Utf8(None)]);
        let error = values.add(&batch, 3).unwrap_err();
        assert!(error.message.contains("3 parameters, but 2"), "{}", error.message);
    }
}
