//! `coalesce` that computes each of its arguments once.

use std::sync::Arc;

use arrow::compute::is_not_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The first of several values of one type that is not NULL. All of them are computed for each row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FirstKnown {
    signature: Signature,
}

impl FirstKnown {
    /// The function, to be called.
    pub fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { signature: Signature::variadic_any(Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for FirstKnown {
    fn name(&self) -> &str {
        "first_known"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [first, ..] => Ok(first.clone()),
            [] => internal_err!("first_known has arguments"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let mut values = arguments.args.into_iter();
        let Some(first) = values.next() else { return internal_err!("first_known has arguments") };
        let mut found = first.into_array(rows)?;
        for value in values {
            found = zip(&is_not_null(&found)?, &found, &value.into_array(rows)?)?;
        }
        Ok(ColumnarValue::Array(found))
    }
}
