//! `bitmap_distinct(x)`: how many different values there are, exactly.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::kind::DistinctKind;
use crate::functions::aggregate::{Accumulators, Definition};
use crate::functions::bitmap::{BitmapKind, Input, Output};
use crate::functions::values::{Family, one_of_a_family};

const NAME: &str = "bitmap_distinct";

/// Counts distinct values. Values that stand for integers are kept as a bitmap, others as a packed set; the
/// header of the state says which of them it is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct BitmapDistinct;

impl Definition for BitmapDistinct {
    fn name(&self) -> &'static str {
        NAME
    }

    fn state_name(&self) -> &'static str {
        "distinct"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        one_of_a_family(NAME, types)
    }

    fn returns(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn empty(&self, _returns: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn accumulators(&self, arguments: &AccumulatorArgs<'_>) -> Result<Accumulators> {
        let data_type = arguments.expr_fields.first().map_or(&DataType::Int64, |field| field.data_type());
        Ok(match Family::of(NAME, data_type)? {
            Family::Integer | Family::Unsigned => {
                Accumulators::of(BitmapKind { input: Input::Integers, output: Output::Count })
            }
            family => Accumulators::of(DistinctKind::new(family)),
        })
    }
}
