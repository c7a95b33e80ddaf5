//! `bitmap_agg`, `bitmap_union` and `bitmap_union_count`.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::arguments::{Argument, wrong_count};
use super::kind::{BitmapKind, Input, Output};
use super::set::Bitmap;
use crate::functions::aggregate::{Accumulators, Definition};

/// `bitmap_agg(integer)`: the bitmap of a group's values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct BitmapAgg;

/// `bitmap_union(bitmap)`: the union of a group's bitmaps.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct BitmapUnion;

/// `bitmap_union_count(bitmap)`: how many values the union has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct BitmapUnionCount;

/// The differences between the functions above.
trait OverBitmaps: std::fmt::Debug + PartialEq + Eq + std::hash::Hash + Send + Sync + 'static {
    const NAME: &'static str;
    const ARGUMENT: Argument;
    const KIND: BitmapKind;
}

impl OverBitmaps for BitmapAgg {
    const NAME: &'static str = "bitmap_agg";
    const ARGUMENT: Argument = Argument::Integer;
    const KIND: BitmapKind = BitmapKind { input: Input::Integers, output: Output::Bitmap };
}

impl OverBitmaps for BitmapUnion {
    const NAME: &'static str = "bitmap_union";
    const ARGUMENT: Argument = Argument::Bitmap;
    const KIND: BitmapKind = BitmapKind { input: Input::Bitmaps, output: Output::Bitmap };
}

impl OverBitmaps for BitmapUnionCount {
    const NAME: &'static str = "bitmap_union_count";
    const ARGUMENT: Argument = Argument::Bitmap;
    const KIND: BitmapKind = BitmapKind { input: Input::Bitmaps, output: Output::Count };
}

impl<T: OverBitmaps> Definition for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn state_name(&self) -> &'static str {
        "bitmap"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [argument] => Ok(vec![T::ARGUMENT.coerce(T::NAME, argument)?]),
            other => Err(wrong_count(T::NAME, "one argument", other.len())),
        }
    }

    fn returns(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match T::KIND.output {
            Output::Count => DataType::Int64,
            Output::Bitmap => DataType::LargeBinary,
        })
    }

    fn empty(&self, _returns: &DataType) -> Result<ScalarValue> {
        Ok(match T::KIND.output {
            Output::Count => ScalarValue::Int64(Some(0)),
            Output::Bitmap => ScalarValue::LargeBinary(Some(Bitmap::default().encoded()?)),
        })
    }

    fn accumulators(&self, _arguments: &AccumulatorArgs<'_>) -> Result<Accumulators> {
        Ok(Accumulators::of(T::KIND))
    }
}
