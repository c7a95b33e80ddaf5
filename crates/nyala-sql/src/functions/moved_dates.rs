//! `date + days` and `date - days`.
//!
//! DataFusion makes an interval of the number. A rule makes a timestamp of a date plus an interval, and could
//! not tell that interval from one in the statement.

use std::sync::Arc;

use arrow::array::{AsArray, Date32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;
use crate::error::{ErrorKind, QueryError};

/// A date that is so many days later or earlier.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MovedDate {
    op: Operator,
    signature: Signature,
}

impl MovedDate {
    fn new(op: Operator) -> Self {
        let signature = Signature::exact(vec![DataType::Date32, DataType::Int64], Volatility::Immutable);
        Self { op, signature }
    }

    /// The function of an operator; none of one that moves no date.
    pub fn of(op: Operator) -> Option<ScalarUDF> {
        matches!(op, Operator::Plus | Operator::Minus).then(|| ScalarUDF::from(Self::new(op)))
    }

    /// One function for each operator.
    pub fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
        [Operator::Plus, Operator::Minus].into_iter().map(|op| Arc::new(ScalarUDF::from(Self::new(op))))
    }

    fn moved(&self, date: i32, days: i64) -> Result<i32> {
        let date = i64::from(date);
        let moved = if self.op == Operator::Plus { date.checked_add(days) } else { date.checked_sub(days) };
        let moved = moved.and_then(|moved| i32::try_from(moved).ok());
        Ok(moved.ok_or_else(|| QueryError::new(ErrorKind::InvalidTime, "date out of range"))?)
    }
}

impl ScalarUDFImpl for MovedDate {
    fn name(&self) -> &str {
        if self.op == Operator::Plus { "days_later" } else { "days_earlier" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let columns = rows.columns(&arguments.args)?;
        let [dates, days] = columns.as_slice() else {
            return plan_err!("`{}` is of a date and a number", self.name());
        };
        let (dates, days) = (cast(dates, &DataType::Date32)?, cast(days, &DataType::Int64)?);
        let dates = dates.as_primitive::<Date32Type>().iter();
        let moved = dates.zip(days.as_primitive::<Int64Type>()).map(|(date, days)| match (date, days) {
            (Some(date), Some(days)) => self.moved(date, days).map(Some),
            _ => Ok(None),
        });
        rows.value(Arc::new(moved.collect::<Result<Date32Array>>()?))
    }

    // The column keeps the name of the operator.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match arguments {
            [date, days] => Ok(format!("{} {} {}", date.schema_name(), self.op, days.schema_name())),
            _ => plan_err!("`{}` is of a date and a number", self.name()),
        }
    }
}
