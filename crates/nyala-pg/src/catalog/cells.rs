//! Rows of system tables, and the batches that are made of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int16Builder, Int32Array, Int32Builder, Int64Array,
    IntervalMonthDayNanoArray, ListBuilder, StringArray, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY};
use nyala_sql::semantics::MARK;

/// The type of a column of a system table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// One letter.
    Char,
    Float4,
    Int2,
    Int2List,
    /// Numbers that are counted from 0: `int2vector`.
    Int2Vector,
    Int4,
    Int8,
    Interval,
    Oid,
    OidList,
    /// `oidvector`
    OidVector,
    Text,
    TextList,
    Time,
}

/// A value of a system table. Values of another type than their column's count as NULL.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f32),
    Text(Cow<'static, str>),
    Ints(Vec<i16>),
    /// Seconds.
    Interval(i64),
    Oids(Vec<i32>),
    Texts(Vec<String>),
    /// Microseconds since 1970.
    Time(i64),
}

/// A row of a system table.
pub type Row = Vec<Cell>;

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i16> for Cell {
    fn from(value: i16) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<&'static str> for Cell {
    fn from(value: &'static str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl From<&String> for Cell {
    fn from(value: &String) -> Self {
        Self::Text(Cow::Owned(value.clone()))
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of values of several types.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$($crate::catalog::cells::Cell::from($value)),*] };
}
pub(crate) use row;

impl Cell {
    fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// The schema of columns.
pub fn schema_of(columns: &[(&str, Kind)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| field(name, *kind)).collect::<Vec<_>>()))
}

/// The Arrow type of values.
pub fn type_of(kind: Kind) -> DataType {
    field("", kind).data_type().clone()
}

fn field(name: &str, kind: Kind) -> Field {
    let list = |item| DataType::new_list(item, true);
    let (data_type, metadata) = match kind {
        Kind::Bool => (DataType::Boolean, None),
        Kind::Char => (DataType::Utf8, Some((PG_CHAR_KEY, "char"))),
        Kind::Float4 => (DataType::Float32, None),
        Kind::Int2 => (DataType::Int16, None),
        Kind::Int2List => (list(DataType::Int16), None),
        Kind::Int2Vector => (list(DataType::Int16), Some((MARK, "int2vector"))),
        Kind::Int4 => (DataType::Int32, None),
        Kind::Int8 => (DataType::Int64, None),
        Kind::Interval => (DataType::Interval(IntervalUnit::MonthDayNano), None),
        Kind::Oid => (DataType::Int32, Some((PG_OID_ALIAS_KEY, "oid"))),
        Kind::OidList => (list(DataType::Int32), None),
        Kind::OidVector => (list(DataType::Int32), Some((MARK, "oidvector"))),
        Kind::Text => (DataType::Utf8, None),
        Kind::TextList => (list(DataType::Utf8), None),
        Kind::Time => (DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), None),
    };
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    Field::new(name, data_type, true).with_metadata(metadata.collect::<HashMap<_, _>>())
}

/// The rows as one batch. Cells that a row lacks are NULL.
///
/// # Errors
/// None in practice: the columns of [`Cell`] rows are always of one length and type.
pub fn batch_of(
    schema: &SchemaRef,
    columns: &[(&str, Kind)],
    rows: &[Row],
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns.iter().enumerate().map(|(at, (_, kind))| array(rows, at, *kind)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
}

/// One column of rows.
pub fn array(rows: &[Row], at: usize, kind: Kind) -> ArrayRef {
    let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
    match kind {
        Kind::Bool => Arc::new(
            cells
                .map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None })
                .collect::<BooleanArray>(),
        ),
        Kind::Char | Kind::Text => Arc::new(cells.map(Cell::text).collect::<StringArray>()),
        Kind::Float4 => Arc::new(
            cells
                .map(|cell| if let Cell::Float(value) = cell { Some(*value) } else { None })
                .collect::<Float32Array>(),
        ),
        Kind::Int2 => Arc::new(cells.map(|cell| cell.int()?.try_into().ok()).collect::<Int16Array>()),
        Kind::Int4 | Kind::Oid => {
            Arc::new(cells.map(|cell| cell.int()?.try_into().ok()).collect::<Int32Array>())
        }
        Kind::Int8 => Arc::new(cells.map(Cell::int).collect::<Int64Array>()),
        Kind::Interval => Arc::new(
            cells
                .map(|cell| if let Cell::Interval(seconds) = cell { Some(interval(*seconds)) } else { None })
                .collect::<IntervalMonthDayNanoArray>(),
        ),
        Kind::Int2List | Kind::Int2Vector => lists(cells, Kind::Int2List),
        Kind::OidList | Kind::OidVector => lists(cells, Kind::OidList),
        Kind::TextList => lists(cells, kind),
        Kind::Time => Arc::new(
            cells
                .map(|cell| if let Cell::Time(value) = cell { Some(*value) } else { None })
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("+00:00"),
        ),
    }
}

fn interval(seconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(0, 0, seconds.saturating_mul(1_000_000_000))
}

fn lists<'a>(cells: impl Iterator<Item = &'a Cell>, kind: Kind) -> ArrayRef {
    let mut ints = ListBuilder::new(Int16Builder::new());
    let mut oids = ListBuilder::new(Int32Builder::new());
    let mut texts = ListBuilder::new(StringBuilder::new());
    for cell in cells {
        match (kind, cell) {
            (Kind::Int2List, Cell::Ints(values)) => ints.append_value(values.iter().map(|v| Some(*v))),
            (Kind::Int2List, _) => ints.append_null(),
            (Kind::OidList, Cell::Oids(values)) => oids.append_value(values.iter().map(|v| Some(*v))),
            (Kind::OidList, _) => oids.append_null(),
            (_, Cell::Texts(values)) => texts.append_value(values.iter().map(Some)),
            _ => texts.append_null(),
        }
    }
    match kind {
        Kind::Int2List => Arc::new(ints.finish()),
        Kind::OidList => Arc::new(oids.finish()),
        _ => Arc::new(texts.finish()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_become_a_batch() {
        let columns = [("a", Kind::Oid), ("b", Kind::Text), ("c", Kind::Int2List), ("d", Kind::Bool)];
        let rows = [row![7, "x", Cell::Ints(vec![1, 2]), true], row![Cell::Null, Cell::Int(1)]];
        let batch = batch_of(&schema_of(&columns), &columns, &rows).unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (2, 4));
        assert!(batch.columns().iter().all(|column| column.is_null(1) && column.is_valid(0)));
    }
}
