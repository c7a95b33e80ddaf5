//! The operators of JSON: `->`, `->>`, `#>`, `#>>` and `?`.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::calls::JsonCall;

/// Plans the operators as calls.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let call = match raw.op {
            BinaryOperator::Arrow => JsonCall::step(),
            BinaryOperator::LongArrow => JsonCall::step_as_text(),
            BinaryOperator::HashArrow => JsonCall::path(),
            BinaryOperator::HashLongArrow => JsonCall::path_as_text(),
            BinaryOperator::Question => JsonCall::exists(),
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let func = Arc::new(ScalarUDF::new_from_impl(call));
        let call = ScalarFunction { func, args: vec![raw.left, raw.right] };
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}
