//! `a || b` as a function, so that its result is bounded like that of other functions.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};

/// `a || b` of two texts; NULL if either is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Joined {
    /// Name of the operator's column.
    column: String,
    signature: Signature,
}

impl Joined {
    /// The function, whose column is named as that of the operator.
    pub fn new(column: String) -> Self {
        Self { column, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else {
            return plan_err!("`||` is between two operands, not {}", types.len());
        };
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    /// Runs the operator itself.
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let field = |(at, column): (usize, &arrow::array::ArrayRef)| {
            Field::new(format!("{at}"), column.data_type().clone(), true)
        };
        let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        let rows = columns.first().map(|column| column.len());
        let options = RecordBatchOptions::new().with_row_count(rows);
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?;
        let operand = |at: usize| Arc::new(Column::new(&at.to_string(), at)) as Arc<dyn PhysicalExpr>;
        BinaryExpr::new(operand(0), Operator::StringConcat, operand(1)).evaluate(&batch)
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.column.clone())
    }
}
