//! The value of a subquery that must have at most one row.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::QueryError;

/// The aggregate that gives the value of a single row, NULL for no rows, and an error for several.
pub fn single_value() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        Arc::new(AggregateUDF::from(SingleValue { signature: Signature::any(1, Volatility::Immutable) }))
    });
    Arc::clone(&FUNCTION)
}

/// The value, declared to be nullable.
pub fn or_null(expr: Expr) -> Expr {
    or_null_function().call(vec![expr])
}

/// The function of [`or_null`].
pub fn or_null_function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        // Volatile, because an immutable call of a constant would be folded, and then be never NULL.
        Arc::new(ScalarUDF::from(OrNull { signature: Signature::any(1, Volatility::Volatile) }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => plan_err!("a subquery has one column, not {}", arguments.len()),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = Field::new("value", arguments.return_field.data_type().clone(), true);
        Ok(vec![Arc::new(value), Arc::new(Field::new("found", DataType::Boolean, false))])
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single { value: ScalarValue::try_from(arguments.return_type())?, found: false }))
    }
}

#[derive(Debug)]
struct Single {
    value: ScalarValue,
    found: bool,
}

impl Single {
    fn find(&mut self, value: ScalarValue) -> Result<()> {
        if std::mem::replace(&mut self.found, true) {
            return Err(QueryError::several_rows().into());
        }
        self.value = value;
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(column) = values.first() else { return Ok(()) };
        // Two rows are enough to tell that there is more than one.
        for row in 0..column.len().min(2) {
            self.find(ScalarValue::try_from_array(column, row)?)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, found] = states else { return Ok(()) };
        for row in 0..values.len() {
            if ScalarValue::try_from_array(found, row)? == ScalarValue::Boolean(Some(true)) {
                self.find(ScalarValue::try_from_array(values, row)?)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Boolean(Some(self.found))])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() - size_of::<ScalarValue>()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => plan_err!("a subquery has one column, not {}", arguments.len()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.into_iter().next() {
            Some(value) => Ok(value),
            None => plan_err!("a subquery has one column"),
        }
    }
}
