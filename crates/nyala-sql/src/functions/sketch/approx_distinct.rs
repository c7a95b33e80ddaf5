//! `approx_distinct(x)`, in place of DataFusion's, because its state is private and may change.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::hll::Hll;
use crate::error::QueryError;
use crate::functions::aggregate::{Accumulators, Definition, GroupList, Kind, Rows};
use crate::functions::values::{Family, one_of_a_family, spell};

const NAME: &str = "approx_distinct";

/// Estimates how many different values there are.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ApproxDistinct;

impl Definition for ApproxDistinct {
    fn name(&self) -> &'static str {
        NAME
    }

    fn state_name(&self) -> &'static str {
        "hll"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        one_of_a_family(NAME, types)
    }

    fn returns(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn empty(&self, _returns: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::UInt64(Some(0)))
    }

    fn accumulators(&self, arguments: &AccumulatorArgs<'_>) -> Result<Accumulators> {
        let data_type = arguments.expr_fields.first().map_or(&DataType::Int64, |field| field.data_type());
        Ok(Accumulators::of(HllKind { family: Family::of(NAME, data_type)? }))
    }
}

/// One sketch for each group.
#[derive(Debug, Clone, Copy)]
pub struct HllKind {
    pub family: Family,
}

impl Kind for HllKind {
    type Group = Hll;

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
        let spelled = spell(self.family, column)?;
        rows.for_each(|row, group| groups.change(group, |sketch| sketch.add(spelled.value(row))))
    }

    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()> {
        group.merge(state)
    }

    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()> {
        group.encode(out)
    }

    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef> {
        Ok(Arc::new(UInt64Array::from_iter_values(groups.iter().map(Hll::estimate))))
    }
}
