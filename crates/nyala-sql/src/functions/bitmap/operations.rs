//! The scalar functions, a row at a time. A null argument gives null.

use std::borrow::Cow;
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
pub enum Operation {
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
    /// The result for columns of `rows` values. A column of one value has it in every row.
    pub fn run(self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match (self, columns) {
            (Self::Empty, []) => bitmaps(rows, |_| Ok(Some(Bitmap::default()))),
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
            (Self::Contains, [column, wanted]) => contains(&Bitmaps::new(column, rows)?, wanted, rows),
            (Self::HasAny, [left, right]) => {
                has_any(&Bitmaps::new(left, rows)?, &Bitmaps::new(right, rows)?, rows)
            }
            (Self::And | Self::Or | Self::Xor | Self::AndNot, [first, others @ ..]) => {
                let others = others.iter().map(|column| Bitmaps::new(column, rows));
                let others = others.collect::<Result<Vec<_>>>()?;
                self.combine(&Bitmaps::new(first, rows)?, &others, rows)
            }
            _ => Err(QueryError::internal("a function of bitmaps got other arguments").into()),
        }
    }

    fn combine(self, first: &Bitmaps<'_>, others: &[Bitmaps<'_>], rows: usize) -> Result<ArrayRef> {
        bitmaps(rows, |row| {
            let Some(first) = first.at(row)? else { return Ok(None) };
            let mut result = first.into_owned();
            for other in others {
                let Some(other) = other.at(row)? else { return Ok(None) };
                match self {
                    Self::And => result.intersect(&other),
                    Self::Or => result.union(other.into_owned()),
                    Self::Xor => result.symmetric_difference(other.into_owned()),
                    _ => result.subtract(&other),
                }
            }
            Ok(Some(result))
        })
    }
}

/// An argument.
enum Bitmaps<'a> {
    /// A bitmap for each row.
    Each(&'a ArrayRef),
    /// One bitmap for all rows, which is decoded once.
    Constant(Option<Bitmap>),
}

impl<'a> Bitmaps<'a> {
    fn new(column: &'a ArrayRef, rows: usize) -> Result<Self> {
        Ok(if column.len() < rows { Self::Constant(read(column, 0)?) } else { Self::Each(column) })
    }

    fn at(&self, row: usize) -> Result<Option<Cow<'_, Bitmap>>> {
        match self {
            Self::Each(column) => Ok(read(column, row)?.map(Cow::Owned)),
            Self::Constant(bitmap) => Ok(bitmap.as_ref().map(Cow::Borrowed)),
        }
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
        let text = read(column, row)?.as_ref().map(text::format).transpose()?;
        results.append_option(text);
    }
    Ok(Arc::new(results.finish()))
}

fn contains(bitmaps: &Bitmaps<'_>, wanted: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let wanted: &Int64Array = wanted.as_primitive();
    let results: Result<BooleanArray> = (0..rows)
        .map(|row| {
            let place = if wanted.len() < rows { 0 } else { row };
            let bitmap = bitmaps.at(row)?.filter(|_| wanted.is_valid(place));
            Ok(bitmap.map(|bitmap| bitmap.contains(wanted.value(place))))
        })
        .collect();
    Ok(Arc::new(results?))
}

fn has_any(left: &Bitmaps<'_>, right: &Bitmaps<'_>, rows: usize) -> Result<ArrayRef> {
    let results: Result<BooleanArray> = (0..rows)
        .map(|row| {
            let both = left.at(row)?.zip(right.at(row)?);
            Ok(both.map(|(left, right)| left.has_any(&right)))
        })
        .collect();
    Ok(Arc::new(results?))
}
