//! One state layout for each aggregate function, whether or not its rows are grouped.
//!
//! DataFusion gives a function two implementations: one for grouped rows and one for all rows together.
//! They may keep different things under the same state columns, as its `corr` does. That is harmless within
//! one query, which uses one of them throughout, but states written by group and merged to a total would be
//! misread. The stored form of a function therefore computes totals by its grouped implementation too, with
//! a single group.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature,
};

/// The function in the form that has the stored states.
pub fn stored_form(function: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(StoredForm { function: Arc::clone(function) }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StoredForm {
    function: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for StoredForm {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(argument_types)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.function.inner().return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.function.inner().is_nullable()
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.function.inner().state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        // DataFusion reads the value of min and max while rows still come, to skip others. A grouped implementation
        // cannot be read without ending its group; but the state of these two is their value in either implementation.
        let watched = matches!(self.name(), "min" | "max");
        if watched || !self.function.groups_accumulator_supported(arguments.clone()) {
            return self.function.accumulator(arguments);
        }
        let types = arguments.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let groups = self.function.create_groups_accumulator(arguments)?;
        Ok(Box::new(SingleGroup { groups: Mutex::new(groups), types, empty: true }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.function.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.function.create_groups_accumulator(arguments)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.function.inner().order_sensitivity()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.function.inner().default_value(data_type)
    }
}

/// All rows as the one group of a grouped implementation.
struct SingleGroup {
    /// An accumulator must be `Sync`, which grouped ones are not. The lock is never contended.
    groups: Mutex<Box<dyn GroupsAccumulator>>,
    types: Vec<DataType>,
    /// Whether the group does not exist yet: it begins with the first batch.
    empty: bool,
}

impl std::fmt::Debug for SingleGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SingleGroup").finish_non_exhaustive()
    }
}

impl SingleGroup {
    fn groups(&mut self) -> &mut dyn GroupsAccumulator {
        self.groups.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    /// Makes the group exist although no row came, so that it has the value of no rows: grouped
    /// implementations take a group for granted once it is counted, so it begins with a filtered row.
    fn begin(&mut self) -> Result<()> {
        if self.empty {
            let nothing: Vec<ArrayRef> = self.types.iter().map(|t| new_null_array(t, 1)).collect();
            self.groups().update_batch(&nothing, &[0], Some(&BooleanArray::from(vec![false])), 1)?;
            self.empty = false;
        }
        Ok(())
    }
}

impl Accumulator for SingleGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = rows_of(values);
        if rows == 0 {
            return Ok(());
        }
        self.empty = false;
        self.groups().update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = rows_of(states);
        if rows == 0 {
            return Ok(());
        }
        self.empty = false;
        self.groups().merge_batch(states, &vec![0; rows], 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.begin()?;
        self.empty = true;
        ScalarValue::try_from_array(&self.groups().evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.begin()?;
        self.empty = true;
        let states = self.groups().state(EmitTo::All)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.groups.lock().unwrap_or_else(PoisonError::into_inner).size()
    }
}

fn rows_of(columns: &[ArrayRef]) -> usize {
    columns.first().map_or(0, |column| column.len())
}
