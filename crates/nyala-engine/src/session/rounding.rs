//! Casts to whole numbers take the nearest one.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast, cast};
use datafusion::optimizer::AnalyzerRule;

use super::casts::has_casts;
use super::overflow::input_schema;
use crate::conversion::{Nearest, nearest};
use crate::functions::Rint;

/// Says in plans what rounds before a cast, so that constants, cubes and conditions all see it.
#[derive(Debug)]
pub(super) struct NearestWhole;

impl AnalyzerRule for NearestWhole {
    fn name(&self) -> &str {
        "nearest_whole"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let said = plan.transform_up_with_subqueries(|node| {
            if !has_casts(&node)? {
                return Ok(Transformed::no(node));
            }
            let (schema, names) = (input_schema(&node), NamePreserver::new(&node));
            let said = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| Ok(rounded_first(expr, &schema)))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            if said.transformed { said.map_data(LogicalPlan::recompute_schema) } else { Ok(said) }
        })?;
        Ok(said.data)
    }
}

/// The same for an expression that is computed without a plan.
pub(crate) fn round_in(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| Ok(rounded_first(expr, schema))).map(|done| done.data)
}

fn rounded_first(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) = &mut expr
    else {
        return Transformed::no(expr);
    };
    if matches!(value.as_ref(), Expr::ScalarFunction(call) if call.func.inner().is::<Rint>()) {
        return Transformed::no(expr);
    }
    let rounding = value.get_type(schema).ok().and_then(|from| nearest(&from, field.data_type()));
    let Some(rounding) = rounding else { return Transformed::no(expr) };
    let inner = std::mem::take(value.as_mut());
    **value = match rounding {
        Nearest::Cast(whole) => cast(inner, whole),
        Nearest::Rint => Rint::udf().call(vec![inner]),
    };
    Transformed::yes(expr)
}
