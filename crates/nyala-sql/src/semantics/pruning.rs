//! Pruning by the bounds of columns: which conditions they can decide.
//!
//! DataFusion 55 takes it that a cast keeps the order, and compares cast bounds. But where a month begins and ends at
//! midnight, its times of day do not all lie between these two. And it drops a cast of a column if it can cast the
//! constant back instead.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};

use super::cast_facts::{can_be_undone, keeps_order};

/// The conditions of a conjunction that the bounds of their columns decide.
pub fn ordered_part(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let parts = split_conjunction(filter).into_iter().filter(|part| is_ordered(part, schema)).cloned();
    conjunction(parts.collect::<Vec<_>>())
}

fn is_ordered(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    !misleads(condition.as_ref(), schema)
        && condition.children().into_iter().all(|child| is_ordered(child, schema))
}

/// Whether it is a cast about which the bounds of its argument tell nothing.
pub fn misleads(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    let cast = expr.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    let tried = expr.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    cast.or(tried).is_some_and(|(value, to)| {
        !value.data_type(schema).is_ok_and(|from| keeps_order(&from, to) && can_be_undone(&from, to))
    })
}
