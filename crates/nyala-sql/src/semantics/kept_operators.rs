//! Operators that rules of DataFusion 55 rewrite wrongly.
//!
//! The rules take `-a` for the complement of `a` (<https://github.com/apache/datafusion/issues/24665>): they make 0 of `a & -a`, and
//! a wrong value of `-(a | b)`. They make 0 of `a # a` even if `a` is NULL (<https://github.com/apache/datafusion/issues/24246>),
//! and of `a % 1` even for decimals with a fraction. No release has all of the fixes yet.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinaryExpr, Column};

use super::casts::is_constant;
use super::{Meaning, Scope};
use crate::functions::CallRows;

/// Hides such operators in functions, which the rules leave alone.
#[derive(Debug)]
pub struct KeepOperators;

impl Meaning for KeepOperators {
    fn name(&self) -> &'static str {
        "keep_operators"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::BinaryExpr(BinaryExpr { op, .. }) if OPERATORS.contains(op))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(binary) if is_misread(&binary, scope.schema) => {
                let function = ScalarUDF::from(KeptOperator::new(binary.op));
                Transformed::yes(function.call(vec![*binary.left, *binary.right]))
            }
            other => Transformed::no(other),
        })
    }
}

const OPERATORS: [Operator; 4] =
    [Operator::BitwiseAnd, Operator::BitwiseOr, Operator::BitwiseXor, Operator::Modulo];

fn is_misread(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    match binary.op {
        Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor => true,
        Operator::Modulo => {
            is_constant(&binary.right)
                && binary.left.get_type(schema).is_ok_and(|data_type| data_type.is_decimal())
        }
        _ => false,
    }
}

/// A function that computes the same as an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct KeptOperator {
    op: Operator,
    signature: Signature,
}

impl KeptOperator {
    fn new(op: Operator) -> Self {
        Self { op, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// One function for each operator.
    pub fn all() -> impl Iterator<Item = Self> {
        OPERATORS.into_iter().map(Self::new)
    }
}

impl ScalarUDFImpl for KeptOperator {
    fn name(&self) -> &str {
        match self.op {
            Operator::BitwiseAnd => "kept_and",
            Operator::BitwiseOr => "kept_or",
            Operator::BitwiseXor => "kept_xor",
            _ => "kept_modulo",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        let (left, right) = both(self.op, argument_types)?;
        BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (left, right) = both(self.op, &arguments.args)?;
        let rows = CallRows::of(&arguments);
        let operands = [("left", left.to_array(rows.count())?), ("right", right.to_array(rows.count())?)];
        let batch = RecordBatch::try_from_iter(operands)?;
        let (left, right) = (Arc::new(Column::new("left", 0)), Arc::new(Column::new("right", 1)));
        let computed = PhysicalBinaryExpr::new(left, self.op, right).evaluate(&batch)?;
        rows.value(computed.into_array(rows.count())?)
    }

    // The column keeps the name of the operator.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let (left, right) = both(self.op, arguments)?;
        Ok(format!("{} {} {}", left.schema_name(), self.op, right.schema_name()))
    }
}

fn both<T>(op: Operator, operands: &[T]) -> Result<(&T, &T)> {
    match operands {
        [left, right] => Ok((left, right)),
        _ => plan_err!("`{op}` is between two operands, not {}", operands.len()),
    }
}
