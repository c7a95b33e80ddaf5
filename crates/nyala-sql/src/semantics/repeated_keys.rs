//! Repeated sort keys of an ORDER BY: of equal keys only the first one decides.
//!
//! DataFusion 55 drops repeated keys of an aggregate from the required order, but not from the values that
//! are compared, and the operator fails.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, SortExpr};

use super::{Meaning, Scope};

/// Keeps the first of equal keys in the ORDER BY of an aggregate.
#[derive(Debug)]
pub struct RepeatedKeys;

impl Meaning for RepeatedKeys {
    fn name(&self) -> &'static str {
        "repeated_keys"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::AggregateFunction(call) if call.params.order_by.len() > 1)
    }

    fn rewrite(&self, mut expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::AggregateFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
        let changed = keep_first(&mut call.params.order_by, |sort| &sort.expr);
        Ok(Transformed::new_transformed(expr, changed))
    }
}

/// Keeps the first of equal keys of DISTINCT ON, which DataFusion makes an aggregation by these keys. Its
/// ORDER BY must begin with the same keys in the same order, and still does afterwards.
pub fn distinct_keys_once(mut on: DistinctOn) -> Transformed<LogicalPlan> {
    let mut changed = keep_first(&mut on.on_expr, |key| key);
    if let Some(order_by) = &mut on.sort_expr {
        changed |= keep_first(order_by, |sort: &SortExpr| &sort.expr);
    }
    Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed)
}

/// Drops keys that equal an earlier one, whatever their aliases. Returns whether there were any.
fn keep_first<T>(keys: &mut Vec<T>, expr_of: impl Fn(&T) -> &Expr) -> bool {
    let before = keys.len();
    let mut known: Vec<Expr> = Vec::with_capacity(before);
    keys.retain(|key| {
        let expr = expr_of(key).clone().unalias_nested().data;
        let is_new = !known.contains(&expr);
        if is_new {
            known.push(expr);
        }
        is_new
    });
    keys.len() < before
}
