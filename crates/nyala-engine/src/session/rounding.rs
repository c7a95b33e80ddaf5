//! Casts to whole numbers take the nearest one.
//!
//! Constants are rounded while plans are analysed and optimised, before another rule computes them. Casts of columns
//! stay as they are until operators are chosen: cubes, joins and subqueries are recognised by them.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast, cast};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use nyala_sql::cast_facts::{Nearest, nearest};
use nyala_sql::functions::Rint;

use super::casts::{has_casts, is_constant};
use super::overflow::input_schema;

/// Inserts the rounding before casts of constants.
#[derive(Debug)]
pub struct RoundConstants;

impl AnalyzerRule for RoundConstants {
    fn name(&self) -> &str {
        "round_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(rounded(plan, Which::Constants)?.data)
    }
}

impl OptimizerRule for RoundConstants {
    fn name(&self) -> &str {
        "round_constants"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rounded(plan, Which::Constants)
    }
}

/// The same plan with a rounding before every cast that needs it.
pub fn round_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(rounded(plan, Which::All)?.data)
}

/// The same for an expression that is computed without a plan.
pub fn round_casts_in(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(rounded_in(expr, schema, Which::All)?.data)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Constants,
    All,
}

fn rounded(plan: LogicalPlan, which: Which) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        if !has_casts(&node)? {
            return Ok(Transformed::no(node));
        }
        let (schema, names) = (input_schema(&node), NamePreserver::new(&node));
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(rounded_in(expr, &schema, which)?.update_data(|expr| name.restore(expr)))
        })
    })
}

fn rounded_in(expr: Expr, schema: &DFSchema, which: Which) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| Ok(rounded_first(expr, schema, which)))
}

fn rounded_first(mut expr: Expr, schema: &DFSchema, which: Which) -> Transformed<Expr> {
    let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) = &mut expr
    else {
        return Transformed::no(expr);
    };
    let is_rounded = matches!(value.as_ref(), Expr::ScalarFunction(call) if call.func.inner().is::<Rint>());
    if is_rounded || (which == Which::Constants && !is_constant(value)) {
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
