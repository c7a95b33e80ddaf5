//! Subqueries in any place, with any correlation, and with three-valued logic.
//!
//! DataFusion makes joins of some subqueries: EXISTS and IN in conditions, and aggregates that are correlated
//! by equality. The others become joins here: the subquery is computed for all combinations of the outer
//! values that it uses (`dependent`), and each row of the outer query is joined to its value.
//!
//! ```text
//! node ─▶ conditions   a filter: what DataFusion joins by itself stays in it
//!         joins        conditions of joins, LATERAL
//!         values       SELECT lists, aggregates, windows, ORDER BY
//!            └─▶ lowering ─▶ existence    EXISTS
//!                            membership   IN, NOT IN, with sides from `compared`
//!                            quantified   ANY, ALL
//!                            scalars      (SELECT …)
//! ```

mod compared;
mod conditions;
mod dependent;
mod existence;
mod joins;
mod lowering;
mod membership;
mod outer_columns;
mod quantified;
mod scalars;
mod shapes;
mod single;
mod values;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan};

use conditions::lower_filter;
use dependent::rows_of;
use joins::lower_join;
pub use shapes::is_of_one_row;
pub use single::{or_null_function, single_value};
use values::{lower_distinct_on, lower_values};

/// State that the rewrites of one plan share.
#[derive(Debug)]
pub struct Shared<'c> {
    /// The number of joins and columns made so far, for their names.
    joins: usize,
    config: &'c ConfigOptions,
}

/// The prefix of column names that are made here.
const PREFIX: &str = "__outer_";

impl<'c> Shared<'c> {
    pub fn new(config: &'c ConfigOptions) -> Self {
        Self { joins: 0, config }
    }

    /// The prefix of column names for one more join.
    fn prefix(&mut self) -> String {
        self.joins += 1;
        format!("{PREFIX}{}_", self.joins)
    }
}

/// Lowers those subqueries of a node that DataFusion does not make joins of. The node's expressions have the
/// meanings of types already; comparisons that are made here get them here.
pub fn lower_subqueries(node: LogicalPlan, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Values(values) if values.values.iter().flatten().any(has_subquery) => {
            Ok(Transformed::yes(settled(rows_of(&values)?, shared)?))
        }
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => lower_filter(filter, shared),
        LogicalPlan::Join(join) => lower_join(join, shared),
        LogicalPlan::Distinct(Distinct::On(on)) if asks_in_distinct_on(&on) => {
            Ok(Transformed::yes(lower_distinct_on(on, shared)?))
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
            if node.expressions().iter().any(has_subquery) =>
        {
            lower_values(node, shared)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The plan, with the subqueries lowered that became visible when it was made.
fn settled(plan: LogicalPlan, shared: &mut Shared<'_>) -> Result<LogicalPlan> {
    Ok(plan.transform_up(|node| lower_subqueries(node, shared))?.data)
}

fn asks_in_distinct_on(on: &DistinctOn) -> bool {
    let sorts = on.sort_expr.iter().flatten().map(|sort| &sort.expr);
    on.on_expr.iter().chain(&on.select_expr).chain(sorts).any(has_subquery)
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)
        )
    };
    expr.exists(|part| Ok(is_one(part))).unwrap_or(true)
}
