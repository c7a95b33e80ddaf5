//! Overflow of arithmetic: an error, where DataFusion wraps around or keeps a digit too many.

use std::sync::Arc;

use arrow::compute::kernels::numeric::{add, div, mul, sub};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use super::cast_facts::cast_value;
use super::{Meaning, Scope};
use crate::functions::{check_digits, check_floats};

/// Makes [`Checked`] of sums, differences and products of whole numbers, of arithmetic of floating-point
/// numbers, and of arithmetic of decimals whose result may have too many digits.
#[derive(Debug)]
pub struct Overflow;

impl Meaning for Overflow {
    fn name(&self) -> &'static str {
        "overflow"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        overflows(expr).is_some()
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        checked(expr, scope.schema)
    }
}

fn overflows(expr: &Expr) -> Option<&BinaryExpr> {
    match expr {
        Expr::BinaryExpr(binary) => {
            let op = binary.op;
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide)
                .then_some(binary)
        }
        _ => None,
    }
}

fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(binary) = overflows(&expr) else { return Ok(Transformed::no(expr)) };
    // The types of outer queries' columns are not known here. A subquery with such columns becomes a join, or is refused.
    let types = (binary.left.get_type(schema), binary.right.get_type(schema));
    let (Ok(left), Ok(right)) = types else { return Ok(Transformed::no(expr)) };
    let is_whole = left.is_integer() && right.is_integer() && binary.op != Operator::Divide;
    let are_floats = left.is_floating() && right.is_floating();
    if !is_whole && !are_floats && !is_full(&left, binary.op, &right) {
        return Ok(Transformed::no(expr));
    }
    let function = Arc::new(ScalarUDF::from(Checked::new(binary.op, expr.schema_name().to_string())));
    let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = expr else { return Ok(Transformed::no(expr)) };
    Ok(Transformed::yes(function.call(vec![*left, *right])))
}

/// Whether a result of decimals may have more digits than its type.
fn is_full(left: &DataType, op: Operator, right: &DataType) -> bool {
    if !(left.is_decimal() && right.is_decimal()) || op == Operator::Divide {
        return false;
    }
    let result = BinaryTypeCoercer::new(left, &op, right).get_result_type();
    matches!(
        result,
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)
            | DataType::Decimal256(DECIMAL256_MAX_PRECISION, _))
    )
}

/// An operator whose result is an error if it does not fit its type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    op: Operator,
    /// Column name of the operator. It is kept, because composing it takes a walk over all operands.
    column: String,
    signature: Signature,
}

impl Checked {
    fn new(op: Operator, column: String) -> Self {
        Self { op, column, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// One function for each operator, for plans that do not name columns.
    pub fn all() -> impl Iterator<Item = Self> {
        let operators = [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide];
        operators.into_iter().map(|op| Self::new(op, String::new()))
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_sub",
            Operator::Divide => "checked_div",
            _ => "checked_mul",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, argument_types: &[DataType]) -> Result<DataType> {
        let [left, right] = argument_types else {
            return plan_err!("`{}` is between two operands, not {}", self.op, argument_types.len());
        };
        // The type of a decimal result differs from that of its operands.
        if left == right && !left.is_decimal() {
            return Ok(left.clone());
        }
        BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(arrow::datatypes::Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = arguments.args.as_slice() else {
            return plan_err!("`{}` is between two operands, not {}", self.op, arguments.args.len());
        };
        compute(left, self.op, right)
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.column.clone())
    }
}

fn compute(left: &ColumnarValue, op: Operator, right: &ColumnarValue) -> Result<ColumnarValue> {
    let computed = match op {
        Operator::Plus => apply(left, right, add),
        Operator::Minus => apply(left, right, sub),
        Operator::Divide => apply(left, right, div),
        _ => apply(left, right, mul),
    }?;
    if computed.data_type().is_floating() {
        check_floats(left, op, right, &computed)?;
    }
    check_digits(&computed)?;
    Ok(computed)
}

/// Computes constant sums, differences and products, and refuses those that do not fit their type: DataFusion computes
/// them without a check.
#[derive(Debug)]
pub struct ConstantsFit;

impl Meaning for ConstantsFit {
    fn name(&self) -> &'static str {
        "constants_fit"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        overflows(expr).is_some()
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match constant(&expr)? {
            Some(value) => Transformed::yes(Expr::Literal(value, None)),
            None => Transformed::no(expr),
        })
    }
}

fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_decimal()
        || matches!(data_type, DataType::Float32 | DataType::Float64)
}

fn is_text(expr: &Expr) -> bool {
    expr.as_literal().is_some_and(|value| value.data_type().is_string())
}

/// The value of a constant number; none for other expressions, or if a cast fails, which planning reports better.
fn constant(expr: &Expr) -> Result<Option<ScalarValue>> {
    match expr {
        Expr::Literal(value, _) if is_exact(&value.data_type()) => Ok(Some(value.clone())),
        // A literal with more digits than decimals have is a cast of a text.
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() && is_text(expr) => {
            Ok(expr.as_literal().and_then(|text| text.cast_to(field.data_type()).ok()))
        }
        Expr::Cast(Cast { expr, field }) if is_exact(field.data_type()) => {
            Ok(constant(expr)?.and_then(|value| cast_value(&value, field.data_type()).ok()))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if overflows(expr).is_some() => {
            let (Some(left), Some(right)) = (constant(left)?, constant(right)?) else { return Ok(None) };
            let are_floats = left.data_type().is_floating() && right.data_type() == left.data_type();
            if !are_floats
                && (*op == Operator::Divide
                    || left.data_type().is_floating()
                    || right.data_type().is_floating())
            {
                return Ok(None);
            }
            match compute(&ColumnarValue::Scalar(left), *op, &ColumnarValue::Scalar(right))? {
                ColumnarValue::Scalar(value) => Ok(Some(value)),
                ColumnarValue::Array(_) => Ok(None),
            }
        }
        _ => Ok(None),
    }
}
