//! Selects the conditions that can prune by the bounds of columns.
//!
//! DataFusion 55 assumes that a cast keeps the order, and compares the bounds after the cast. But if a month begins and ends at midnight,
//! its times of day do not all lie between these two. And it drops a cast of a column if it can cast the constant back instead.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction};

use super::cast_facts::{can_be_undone, keeps_order};
use super::casts::AsItIs;

/// The conditions of a conjunction that can be decided by the bounds of their columns.
pub fn ordered_part(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let parts = split_conjunction(filter).into_iter().map(|part| with_casts_shown(part, schema));
    conjunction(parts.filter(|part| is_ordered(part, schema)).collect::<Vec<_>>())
}

fn with_casts_shown(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let shown = Arc::clone(condition).transform_up(|part| {
        let hidden = hidden_cast(&part, schema).cloned();
        Ok(hidden.map_or_else(|| Transformed::no(part), Transformed::yes))
    });
    shown.map_or_else(|_| Arc::clone(condition), |shown| shown.data)
}

/// The cast that a function hides from the optimizer; none if bounds tell nothing about the cast.
pub fn hidden_cast<'a>(
    expr: &'a Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Option<&'a Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    match call.args() {
        [hidden] if call.fun().inner().is::<AsItIs>() && !misleads(hidden.as_ref(), schema) => Some(hidden),
        _ => None,
    }
}

fn is_ordered(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    !misleads(condition.as_ref(), schema)
        && condition.children().into_iter().all(|child| is_ordered(child, schema))
}

/// Whether an expression is a cast about which the bounds of its argument tell nothing.
pub fn misleads(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    let cast = expr.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    let tried = expr.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    cast.or(tried).is_some_and(|(value, to)| {
        !value.data_type(schema).is_ok_and(|from| keeps_order(&from, to) && can_be_undone(&from, to))
    })
}
