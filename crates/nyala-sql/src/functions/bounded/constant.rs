//! A long constant as a column, which has a copy of it for every row.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{Amount, Arguments, MAX_BYTES};
use super::function::too_large;

/// The copies of a shorter constant in a batch of rows are never too large.
const LONG_BYTES: Amount = 32 << 10;

/// A column that is a long constant, as a call, which is told the number of rows; none for other columns.
pub fn for_rows(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Alias(alias) => {
            let mut alias = alias.clone();
            *alias.expr = for_rows(&alias.expr)?;
            Some(Expr::Alias(alias))
        }
        Expr::Literal(value, _) if bytes_of(value) > LONG_BYTES => {
            let (value, column) = (value.clone(), expr.schema_name().to_string());
            let signature = Signature::nullary(Volatility::Volatile);
            Some(Arc::new(ScalarUDF::from(Constant { value, column, signature })).call(Vec::new()))
        }
        _ => None,
    }
}

fn bytes_of(value: &ScalarValue) -> Amount {
    match value.try_as_str() {
        Some(text) => text.map_or(0, |text| text.len() as Amount),
        // All numbers and moments are short.
        None if value.data_type().is_primitive() => 0,
        None => Arguments::new(&[ColumnarValue::Scalar(value.clone())], 1).row(0).bytes(0),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    value: ScalarValue,
    /// Name of the constant's column.
    column: String,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.value.data_type(), self.value.is_null())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = bytes_of(&self.value) * arguments.number_rows as Amount;
        match bytes <= MAX_BYTES {
            true => Ok(ColumnarValue::Scalar(self.value.clone())),
            false => Err(too_large("a constant", bytes, arguments.number_rows, MAX_BYTES)),
        }
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.column.clone())
    }
}
