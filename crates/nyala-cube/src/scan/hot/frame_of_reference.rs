//! Frame of reference: whole numbers of a small range, kept as short distances from the least of them.
//!
//! Sums and counts of cells are seldom as large as their types allow, and they take most of the memory of a large
//! cuboid: two or four bytes instead of eight or sixteen let twice as many cuboids stay in memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt16Array};
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use datafusion::error::Result;

use super::selection::Selection;
use super::stored::picked;

/// The values of a column as distances from the least value.
#[derive(Debug)]
pub struct FrameOfReference {
    least: i128,
    /// Distances of two or four bytes.
    distances: ArrayRef,
    data_type: DataType,
}

impl FrameOfReference {
    /// None if the values are not whole numbers, or lie too far apart.
    pub fn of(values: &ArrayRef) -> Option<Self> {
        let data_type = values.data_type().clone();
        let (least, distances) = match &data_type {
            DataType::Int64 => distances(values.as_primitive::<Int64Type>()),
            DataType::UInt64 => distances(values.as_primitive::<UInt64Type>()),
            DataType::Decimal128(..) => distances(values.as_primitive::<Decimal128Type>()),
            _ => None,
        }?;
        Some(Self { least, distances, data_type })
    }

    pub fn bytes(&self) -> usize {
        self.distances.get_array_memory_size()
    }

    /// The values of some rows.
    pub fn values(&self, rows: &Selection) -> Result<ArrayRef> {
        let distances = picked(&self.distances, rows)?;
        let wide = |short: u32| self.least.wrapping_add(i128::from(short));
        Ok(match &self.data_type {
            DataType::Int64 => Arc::new(widened::<Int64Type>(&distances, |short| wide(short) as i64)),
            DataType::UInt64 => Arc::new(widened::<UInt64Type>(&distances, |short| wide(short) as u64)),
            data_type => {
                Arc::new(widened::<Decimal128Type>(&distances, wide).with_data_type(data_type.clone()))
            }
        })
    }
}

fn distances<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>) -> Option<(i128, ArrayRef)>
where
    T::Native: Into<i128>,
{
    let (least, most): (i128, i128) = (min(values)?.into(), max(values)?.into());
    let farthest = u32::try_from(most.checked_sub(least)?).ok()?;
    // The number under a NULL may lie anywhere, so that its distance may wrap.
    let distance = |value: T::Native| value.into().wrapping_sub(least);
    let distances: ArrayRef = if farthest <= u32::from(u16::MAX) {
        Arc::new(values.unary::<_, UInt16Type>(|value| distance(value) as u16)) as ArrayRef
    } else {
        Arc::new(values.unary::<_, UInt32Type>(|value| distance(value) as u32))
    };
    Some((least, distances))
}

fn widened<T: ArrowPrimitiveType>(
    distances: &ArrayRef,
    wide: impl Fn(u32) -> T::Native,
) -> PrimitiveArray<T> {
    match distances.as_any().downcast_ref::<UInt16Array>() {
        Some(short) => short.unary(|short| wide(u32::from(short))),
        None => distances.as_primitive::<UInt32Type>().unary(wide),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use arrow::array::{Decimal128Array, Float64Array, Int64Array, UInt64Array};

    use super::*;

    #[test]
    fn numbers_come_back_as_they_were() {
        let check = |values: ArrayRef, width: usize| {
            let near = FrameOfReference::of(&values).unwrap();
            assert_eq!(near.distances.data_type().primitive_width(), Some(width), "{values:?}");
            let all = near.values(&Selection::ranges(&[0..values.len()])).unwrap();
            assert_eq!(&all, &values);
            let apart = near.values(&Selection::ranges(&[0..1, 2..3])).unwrap();
            assert_eq!((&apart.slice(0, 1), &apart.slice(1, 1)), (&values.slice(0, 1), &values.slice(2, 1)));
        };
        check(Arc::new(Int64Array::from(vec![Some(-5), None, Some(65_530)])), 2);
        check(Arc::new(Int64Array::from(vec![i64::MIN, i64::MIN + 70_000, i64::MIN + 1])), 4);
        check(Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 3, u64::MAX - 65_535])), 2);
        let money = Decimal128Array::from(vec![Some(i128::MAX), None, Some(i128::MAX - 4_000_000_000)]);
        check(Arc::new(money.with_precision_and_scale(38, 4).unwrap()), 4);
    }

    #[test]
    fn numbers_that_lie_far_apart_stay_as_they_are() {
        let check = |values: ArrayRef| assert!(FrameOfReference::of(&values).is_none(), "{values:?}");
        check(Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])));
        check(Arc::new(Int64Array::from(vec![0, 1 << 32])));
        check(Arc::new(Decimal128Array::from(vec![i128::MIN, i128::MAX])));
        check(Arc::new(Float64Array::from(vec![1.0, 2.0])));
        check(Arc::new(Int64Array::from(vec![None, None])));
    }
}
