//! `approx_top_k(x, k)`: the most frequent values and about how often they come.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::physical_expr::expressions::Literal;

use super::items::{Frequent, Items};
use crate::error::{ErrorKind, QueryError};
use crate::functions::aggregate::{Accumulators, Definition, GroupList, Kind, Rows};
use crate::functions::values::{Family, read, spell};

const NAME: &str = "approx_top_k";

/// How many values may be asked for: a third of the sketch's capacity.
const MAX_K: i64 = 1024;

/// Names the most frequent values, as a list of `{item, count}` as Spark has it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ApproxTopK;

impl Definition for ApproxTopK {
    fn name(&self) -> &'static str {
        NAME
    }

    fn state_name(&self) -> &'static str {
        "items"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value, k] if k.is_integer() => {
                let value = if value.is_null() { &DataType::Int64 } else { value };
                Family::of(NAME, value).map(|_| vec![value.clone(), DataType::Int64])
            }
            _ => Err(wrong_arguments()),
        }
    }

    fn returns(&self, types: &[DataType]) -> Result<DataType> {
        let value = types.first().ok_or_else(wrong_arguments)?;
        Ok(DataType::List(list_item(value)))
    }

    fn empty(&self, returns: &DataType) -> Result<ScalarValue> {
        let DataType::List(item) = returns else { return ScalarValue::try_from(returns) };
        let nothing = ListArray::new_null(Arc::clone(item), 0);
        let values = Arc::clone(nothing.values());
        let one = ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths([0]), values, None)?;
        Ok(ScalarValue::List(Arc::new(one)))
    }

    fn accumulators(&self, arguments: &AccumulatorArgs<'_>) -> Result<Accumulators> {
        let value = arguments.expr_fields.first().ok_or_else(wrong_arguments)?.data_type();
        let k = arguments.exprs.get(1).and_then(|k| k.downcast_ref::<Literal>());
        let k = match k.map(Literal::value) {
            Some(ScalarValue::Int64(Some(k))) if (1..=MAX_K).contains(k) => *k as usize,
            _ => return Err(wrong_arguments()),
        };
        Ok(Accumulators::of(TopKind { family: Family::of(NAME, value)?, value: value.clone(), k }))
    }
}

fn wrong_arguments() -> DataFusionError {
    let message = format!("`{NAME}` takes a value and how many of the most frequent to name");
    QueryError::new(ErrorKind::InvalidText, message)
        .hint(format!("such as `{NAME}(city, 10)`; the number is a constant from 1 to {MAX_K}"))
        .into()
}

fn list_item(value: &DataType) -> FieldRef {
    let fields = Fields::from(vec![
        Field::new("item", value.clone(), false),
        Field::new("count", DataType::Int64, false),
    ]);
    Arc::new(Field::new_list_field(DataType::Struct(fields), true))
}

/// One sketch for each group.
#[derive(Debug, Clone)]
pub struct TopKind {
    pub family: Family,
    pub value: DataType,
    pub k: usize,
}

impl Kind for TopKind {
    type Group = Items;

    fn fresh(&self) -> Self {
        self.clone()
    }

    fn update(
        &mut self,
        groups: &mut GroupList<Self::Group>,
        rows: &Rows<'_>,
        values: &[ArrayRef],
    ) -> Result<()> {
        let column = values.first().ok_or_else(|| QueryError::internal("there is no argument"))?;
        let spelled = spell(self.family, column)?;
        rows.for_each(|row, group| groups.change(group, |items| items.add(spelled.value(row))))
    }

    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()> {
        group.merge(self.family, state)
    }

    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()> {
        group.encode(self.family, out)
    }

    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef> {
        let tops: Vec<Vec<Frequent>> = groups.iter().map(|group| group.top(self.k)).collect();
        let items = tops.iter().flatten().map(|frequent| frequent.item.0.as_ref());
        let items = read(self.family, &self.value, items)?;
        let counts = tops.iter().flatten().map(|frequent| frequent.count.cast_signed());
        let counts: ArrayRef = Arc::new(counts.collect::<Int64Array>());
        let item = list_item(&self.value);
        let DataType::Struct(fields) = item.data_type() else {
            return Err(QueryError::internal("an item is no struct").into());
        };
        let structs = StructArray::try_new(fields.clone(), vec![items, counts], None)?;
        let offsets = OffsetBuffer::from_lengths(tops.iter().map(Vec::len));
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(structs), None)?))
    }
}
