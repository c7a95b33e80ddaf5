//! What the scalar functions do, a row at a time. A null argument gives null.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, LargeBinaryArray, LargeBinaryBuilder,
    LargeStringBuilder,
};
use arrow::datatypes::Int64Type;
use datafusion::common::Result;

use super::set::Bitmap;
use super::text;
use crate::error::QueryError;

/// Each scalar function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Empty,
    OfInteger,
    OfText,
    ToText,
    Count,
    Min,
    Max,
    And,
    Or,
    Xor,
    AndNot,
    Contains,
    HasAny,
}

impl Operation {
    /// The result for columns of equal length; one row if there are no arguments.
    pub(super) fn run(self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        match (self, columns) {
            (Self::Empty, []) => bitmaps(1, |_| Ok(Some(Bitmap::default()))),
            (Self::OfInteger, [integers]) => {
                let integers = integers.as_primitive::<Int64Type>();
                bitmaps(integers.len(), |row| {
                    Ok(integers.is_valid(row).then(|| Bitmap::from_iter([integers.value(row)])))
                })
            }
            (Self::OfText, [texts]) => {
                let texts = texts.as_string::<i64>();
                bitmaps(texts.len(), |row| {
                    Ok(if texts.is_valid(row) { text::parse(texts.value(row)) } else { None })
                })
            }
            (Self::ToText, [column]) => to_text(column),
            (Self::Count, [column]) => integers(column, |bitmap| Some(bitmap.len().cast_signed())),
            (Self::Min, [column]) => integers(column, Bitmap::min),
            (Self::Max, [column]) => integers(column, Bitmap::max),
            (Self::Contains, [column, wanted]) => contains(column, wanted),
            (Self::HasAny, [left, right]) => has_any(left, right),
            (Self::And | Self::Or | Self::Xor | Self::AndNot, [first, others @ ..]) => {
                self.combine(first, others)
            }
            _ => Err(QueryError::internal("a function of bitmaps got other arguments").into()),
        }
    }

    fn combine(self, first: &ArrayRef, others: &[ArrayRef]) -> Result<ArrayRef> {
        bitmaps(first.len(), |row| {
            let Some(mut result) = read(first, row)? else { return Ok(None) };
            for other in others {
                let Some(other) = read(other, row)? else { return Ok(None) };
                match self {
                    Self::And => result.intersect(&other),
                    Self::Or => result.union(other),
                    Self::Xor => result.symmetric_difference(other),
                    _ => result.subtract(&other),
                }
            }
            Ok(Some(result))
        })
    }
}

fn read(column: &ArrayRef, row: usize) -> Result<Option<Bitmap>> {
    let bytes: &LargeBinaryArray = column.as_binary();
    if bytes.is_null(row) { Ok(None) } else { Bitmap::decode(bytes.value(row)).map(Some) }
}

fn bitmaps(rows: usize, row: impl Fn(usize) -> Result<Option<Bitmap>>) -> Result<ArrayRef> {
    let mut results = LargeBinaryBuilder::with_capacity(rows, 0);
    for index in 0..rows {
        match row(index)? {
            Some(mut bitmap) => results.append_value(bitmap.encoded()?),
            None => results.append_null(),
        }
    }
    Ok(Arc::new(results.finish()))
}

fn integers(column: &ArrayRef, of: impl Fn(&Bitmap) -> Option<i64>) -> Result<ArrayRef> {
    let rows = 0..column.len();
    let results: Result<Int64Array> = rows.map(|row| Ok(read(column, row)?.as_ref().and_then(&of))).collect();
    Ok(Arc::new(results?))
}

fn to_text(column: &ArrayRef) -> Result<ArrayRef> {
    let mut results = LargeStringBuilder::new();
    for row in 0..column.len() {
        results.append_option(read(column, row)?.map(|bitmap| text::format(&bitmap)));
    }
    Ok(Arc::new(results.finish()))
}

fn contains(column: &ArrayRef, wanted: &ArrayRef) -> Result<ArrayRef> {
    let wanted: &Int64Array = wanted.as_primitive();
    let results: Result<BooleanArray> = (0..column.len())
        .map(|row| {
            let bitmap = read(column, row)?.filter(|_| wanted.is_valid(row));
            Ok(bitmap.map(|bitmap| bitmap.contains(wanted.value(row))))
        })
        .collect();
    Ok(Arc::new(results?))
}

fn has_any(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    let results: Result<BooleanArray> = (0..left.len())
        .map(|row| {
            let both = read(left, row)?.zip(read(right, row)?);
            Ok(both.map(|(left, right)| left.has_any(&right)))
        })
        .collect();
    Ok(Arc::new(results?))
}
