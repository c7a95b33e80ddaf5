//! `intersect_count(x, column, value, …)`: the number of `x` in a group that come with each of the values of the column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::arguments::{Argument, wrong_count};
use super::integers::as_integers;
use super::set::Bitmap;
use crate::error::{ErrorKind, QueryError};
use crate::functions::aggregate::{
    Accumulators, Definition, Form, GroupList, Kind, Measured, Reader, Rows, begin, put_varint,
};

/// `intersect_count(bitmap or integer, column, value, …)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntersectCount;

const NAME: &str = "intersect_count";

impl Definition for IntersectCount {
    fn name(&self) -> &'static str {
        NAME
    }

    fn state_name(&self) -> &'static str {
        "bitmaps"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [counted, column, values @ ..] = types else {
            return Err(wrong_count(NAME, "a bitmap or integer, a column and its values", types.len()));
        };
        if values.is_empty() {
            return Err(wrong_count(NAME, "a bitmap or integer, a column and its values", types.len()));
        }
        let kind = if counted.is_integer() { Argument::Integer } else { Argument::Bitmap };
        let counted = kind.coerce(NAME, counted)?;
        let column = match column {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        if let Some(value) = values.iter().find(|value| is_rounded(value, column)) {
            return Err(would_round(value, column));
        }
        Ok(std::iter::once(counted).chain(vec![column.clone(); 1 + values.len()]).collect())
    }

    fn returns(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn empty(&self, _returns: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn accumulators(&self, arguments: &AccumulatorArgs<'_>) -> Result<Accumulators> {
        let values = arguments.expr_fields.len().saturating_sub(2);
        Ok(Accumulators::of(IntersectKind { values }))
    }
}

/// Whether a cast to the type of the column may drop a fraction or a time, so that the value would equal another one.
fn is_rounded(value: &DataType, column: &DataType) -> bool {
    let has_fraction = value.is_floating() || value.is_decimal();
    let has_time = matches!(value, DataType::Timestamp(..) | DataType::Date64);
    (column.is_integer() && has_fraction) || (*column == DataType::Date32 && has_time)
}

fn would_round(value: &DataType, column: &DataType) -> DataFusionError {
    let message = format!("`{NAME}` would round a `{value}` to compare it with a column of `{column}`");
    QueryError::new(ErrorKind::InvalidText, message).hint("cast the value, or the column").into()
}

/// One bitmap for each value, in each group.
#[derive(Debug, Clone)]
struct IntersectKind {
    values: usize,
}

/// The bitmaps of a group by number of the value; those at the end may be missing.
#[derive(Debug, Default)]
struct Bitmaps(Vec<Bitmap>);

impl Measured for Bitmaps {
    fn heap_bytes(&self) -> usize {
        let own = self.0.capacity() * size_of::<Bitmap>();
        own + self.0.iter().map(Measured::heap_bytes).sum::<usize>()
    }
}

impl Bitmaps {
    fn at(&mut self, index: usize) -> Result<&mut Bitmap> {
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Bitmap::default);
        }
        Ok(self.0.get_mut(index).ok_or_else(|| QueryError::internal("a bitmap is missing"))?)
    }
}

impl Kind for IntersectKind {
    type Group = Bitmaps;

    fn fresh(&self) -> Self {
        self.clone()
    }

    fn update(
        &mut self,
        groups: &mut GroupList<Self::Group>,
        rows: &Rows<'_>,
        values: &[ArrayRef],
    ) -> Result<()> {
        let [counted, column, wanted @ ..] = values else {
            return Err(QueryError::internal("arguments are missing").into());
        };
        let counted = Counted::new(counted)?;
        for (index, wanted) in wanted.iter().enumerate() {
            let equal: BooleanArray = cmp::eq(column, wanted)?;
            rows.for_each(|row, group| {
                if equal.is_null(row) || !equal.value(row) {
                    return Ok(());
                }
                groups.change(group, |bitmaps| counted.add(row, bitmaps.at(index)?))
            })?;
        }
        Ok(())
    }

    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()> {
        let mut reader = Reader::expect("list of bitmaps", state, Form::Bitmaps)?;
        let count = reader.count()?;
        if count > self.values {
            return Err(reader.damaged(format!("{count} bitmaps are more than {}", self.values)));
        }
        for index in 0..count {
            let length = reader.varint()?;
            let bitmap = Bitmap::decode(reader.take(length)?)?;
            group.at(index)?.union(bitmap);
        }
        reader.end()
    }

    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()> {
        begin(out, Form::Bitmaps);
        put_varint(out, group.0.len() as u64);
        for bitmap in &mut group.0 {
            let bytes = bitmap.encoded()?;
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef> {
        let counts = groups.iter().map(|group| self.in_all(group).cast_signed());
        Ok(Arc::new(counts.collect::<Int64Array>()))
    }
}

impl IntersectKind {
    fn in_all(&self, group: &Bitmaps) -> u64 {
        let [first, others @ ..] = group.0.as_slice() else { return 0 };
        if group.0.len() < self.values {
            return 0;
        }
        let mut common = first.clone();
        others.iter().for_each(|other| common.intersect(other));
        common.len()
    }
}

/// The first argument, which is counted.
enum Counted<'a> {
    Integers(Int64Array),
    Bitmaps(&'a ArrayRef),
}

impl<'a> Counted<'a> {
    fn new(column: &'a ArrayRef) -> Result<Self> {
        Ok(match column.data_type() {
            DataType::LargeBinary => Self::Bitmaps(column),
            _ => Self::Integers(as_integers(column)?),
        })
    }

    fn add(&self, row: usize, to: &mut Bitmap) -> Result<()> {
        match self {
            Self::Integers(integers) => to.insert(integers.value(row)),
            Self::Bitmaps(bitmaps) => to.union(Bitmap::decode(bitmaps.as_binary::<i64>().value(row))?),
        }
        Ok(())
    }
}
