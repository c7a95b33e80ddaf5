//! Groups that each are one bitmap.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, LargeBinaryBuilder};
use datafusion::common::Result;

use super::integers::as_integers;
use super::set::Bitmap;
use crate::error::QueryError;
use crate::functions::aggregate::{GroupList, Held, Kind, Rows};

/// The values in the rows.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// Values to put into the bitmap.
    Integers,
    /// Bitmaps to unite.
    Bitmaps,
}

/// The result.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    /// The number of its values.
    Count,
    /// The bitmap itself.
    Bitmap,
}

/// One bitmap for each group.
#[derive(Debug, Clone, Copy)]
pub struct BitmapKind {
    pub input: Input,
    pub output: Output,
}

impl Kind for BitmapKind {
    type Group = Held<Bitmap>;

    fn fresh(&self) -> Self {
        *self
    }

    fn update(
        &mut self,
        groups: &mut GroupList<Self::Group>,
        rows: &Rows<'_>,
        values: &[ArrayRef],
    ) -> Result<()> {
        let column = values.first().ok_or_else(|| QueryError::internal("there is no argument"))?;
        match self.input {
            Input::Integers => {
                let integers = as_integers(column)?;
                let integers = integers.values();
                rows.for_each(|row, group| {
                    let Some(value) = integers.get(row) else { return Ok(()) };
                    groups.change(group, |held| {
                        open(held)?.insert(*value);
                        Ok(())
                    })
                })
            }
            Input::Bitmaps => {
                let bitmaps = column.as_binary::<i64>();
                rows.for_each(|row, group| {
                    let bitmap = Bitmap::decode(bitmaps.value(row))?;
                    groups.change(group, |held| {
                        open(held)?.union(bitmap);
                        Ok(())
                    })
                })
            }
        }
    }

    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()> {
        match group {
            Held::Empty => {
                Bitmap::encoded_len(state)?;
                *group = Held::Packed(state.into());
            }
            held => open(held)?.union(Bitmap::decode(state)?),
        }
        Ok(())
    }

    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()> {
        match group {
            Held::Empty => Bitmap::default().encode(out),
            Held::Packed(bytes) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            Held::Open(bitmap) => bitmap.encode(out),
        }
    }

    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef> {
        if let Output::Count = self.output {
            return count_column(groups, Bitmap::encoded_len, Bitmap::len);
        }
        let mut bitmaps = LargeBinaryBuilder::with_capacity(groups.len(), 0);
        let mut bytes = Vec::new();
        for group in groups {
            bytes.clear();
            self.encode(group, &mut bytes)?;
            bitmaps.append_value(&bytes);
        }
        Ok(Arc::new(bitmaps.finish()))
    }
}

fn open(held: &mut Held<Bitmap>) -> Result<&mut Bitmap> {
    held.open(Bitmap::decode)
}

/// How many values each group has.
pub fn count_column<S>(
    groups: &[Held<S>],
    packed: impl Fn(&[u8]) -> Result<u64>,
    open: impl Fn(&S) -> u64,
) -> Result<ArrayRef> {
    let count = |group: &Held<S>| match group {
        Held::Empty => Ok(0),
        Held::Packed(bytes) => packed(bytes),
        Held::Open(set) => Ok(open(set)),
    };
    let counts: Result<Vec<i64>> = groups.iter().map(|group| Ok(count(group)?.cast_signed())).collect();
    Ok(Arc::new(Int64Array::from(counts?)))
}
