//! The codes of segments that are made at once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nyala_model::{KeyRange, SegmentRange, bits_of, range_codes};

/// For each row the position of its segment, from 1 on; 0 for rows of no segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentCodes {
    ranges: Vec<KeyRange>,
    /// Whether the last segment has the rows without a key.
    nulls: bool,
}

impl SegmentCodes {
    /// None unless the ranges are ascending and do not overlap, the rows without a key last.
    pub fn of(ranges: &[SegmentRange]) -> Option<Self> {
        let (nulls, keyed) = match ranges.split_last() {
            Some((SegmentRange::Nulls, keyed)) => (true, keyed),
            _ => (false, ranges),
        };
        let ranges: Option<Vec<KeyRange>> = keyed
            .iter()
            .map(|range| match range {
                SegmentRange::Keys(keys) => Some(*keys),
                SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => None,
            })
            .collect();
        let ranges = ranges?;
        let ascending = ranges.iter().zip(ranges.iter().skip(1)).all(|(one, next)| one.to <= next.from);
        ascending.then_some(Self { ranges, nulls })
    }

    /// How many segments there are.
    pub fn len(&self) -> usize {
        self.ranges.len() + usize::from(self.nulls)
    }

    /// How many bits a code needs.
    pub(super) fn bits(&self) -> u32 {
        bits_of(u32::try_from(self.len()).unwrap_or(u32::MAX))
    }

    fn codes(&self, column: &ArrayRef) -> Result<UInt32Array> {
        let keys = cast(column, &DataType::Int64)?;
        let keys = keys.as_primitive_opt::<Int64Type>();
        let keys = keys.ok_or_else(|| exec_datafusion_err!("a key is not a number"))?;
        let mut codes = range_codes(&self.ranges, keys.values());
        if let Some(nulls) = keys.nulls() {
            let none = if self.nulls { u32::try_from(self.len()).unwrap_or(u32::MAX) } else { 0 };
            for (code, valid) in codes.iter_mut().zip(nulls) {
                if !valid {
                    *code = none;
                }
            }
        }
        Ok(codes.into())
    }
}

/// The codes of the segments that rows with these `keys` belong to.
pub fn segment_of(keys: Expr, codes: &Arc<SegmentCodes>) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(SegmentOf { codes: Arc::clone(codes), signature }).call(vec![keys])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SegmentOf {
    codes: Arc<SegmentCodes>,
    signature: Signature,
}

impl ScalarUDFImpl for SegmentOf {
    fn name(&self) -> &'static str {
        "segment_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let column = columns.first().ok_or_else(|| exec_datafusion_err!("`segment_of` has no argument"))?;
        Ok(ColumnarValue::Array(Arc::new(self.codes.codes(column)?)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Date32Array, Int32Array, TimestampMicrosecondArray};

    use super::*;

    fn keys(from: i64, to: i64) -> SegmentRange {
        SegmentRange::Keys(KeyRange { from, to })
    }

    #[test]
    fn rows_have_the_codes_of_their_segments() {
        let codes = SegmentCodes::of(&[keys(-5, 0), keys(10, 20), SegmentRange::Nulls]).unwrap();
        let values = [Some(-6), Some(-5), Some(0), Some(10), Some(19), Some(20), None];
        let expected = [0, 1, 0, 2, 2, 0, 3];
        let wide = values.map(|value| value.map(i64::from));
        for column in [
            Arc::new(Int32Array::from(values.to_vec())) as ArrayRef,
            Arc::new(Date32Array::from(values.to_vec())),
            Arc::new(TimestampMicrosecondArray::from(wide.to_vec())),
        ] {
            assert_eq!(codes.codes(&column).unwrap().values(), &expected, "{}", column.data_type());
        }
        let without = SegmentCodes::of(&[keys(-5, 0)]).unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(-1)]));
        assert_eq!(without.codes(&column).unwrap().values(), &[0, 1]);
    }

    #[test]
    fn ranges_that_have_no_order_are_refused() {
        for ranges in [
            vec![keys(0, 2), keys(1, 3)],
            vec![keys(2, 3), keys(0, 1)],
            vec![SegmentRange::Whole],
            vec![SegmentRange::Nulls, keys(0, 1)],
        ] {
            assert_eq!(SegmentCodes::of(&ranges), None, "{ranges:?}");
        }
    }
}
