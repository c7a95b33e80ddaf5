//! The size of a plan, and the size that rules may expand it to.
//!
//! A plan shares a part that is written once and used twice, rules do not: they walk over it, and copy it, once for
//! each use. So each use is counted.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use nyala_sql::error::Result;
use nyala_sql::statement::{PlanBudget, parts};

/// The largest size of a plan, as the engine is configured.
pub fn budget_of(state: &SessionState) -> PlanBudget {
    state.config().get_extension::<PlanBudget>().map_or_else(PlanBudget::default, |budget| *budget)
}

/// Refuses a plan with more nodes or expressions than the budget, also if it would have more only after rules have
/// replaced columns by the expressions that compute them.
pub fn check_plan(plan: &LogicalPlan, budget: PlanBudget) -> Result<()> {
    let mut count = Count { budget, nodes: 0, parts: 0, times: 1 };
    count.plan(plan)?;
    // An upper bound of all substitutions: every expression, times the most columns per expression of each node.
    if !budget.has_room_for(count.times.saturating_mul(count.parts)) {
        Inlined { budget }.columns(plan)?;
    }
    Ok(())
}

struct Count {
    budget: PlanBudget,
    nodes: usize,
    parts: usize,
    /// Most columns that one expression of a node names, multiplied over all nodes.
    times: usize,
}

impl Count {
    fn plan(&mut self, plan: &LogicalPlan) -> Result<()> {
        let mut shared: Vec<Arc<LogicalPlan>> = Vec::new();
        let mut pending = vec![plan];
        while let Some(node) = pending.pop() {
            self.nodes += 1;
            self.budget.check_nodes(self.nodes)?;
            pending.extend(node.inputs());
            self.node(node, &mut shared)?;
        }
        shared.iter().try_for_each(|plan| self.plan(plan))
    }

    fn node(&mut self, node: &LogicalPlan, subqueries: &mut Vec<Arc<LogicalPlan>>) -> Result<()> {
        let mut most = 1;
        node.apply_expressions(|expr| {
            let mut columns = 0;
            expr.apply(|expr| {
                self.parts += parts(matches!(expr, Expr::Literal(..)));
                columns += usize::from(matches!(expr, Expr::Column(_)));
                subqueries.extend(subquery_of(expr).cloned());
                Ok(match self.budget.has_room_for(self.parts) {
                    true => TreeNodeRecursion::Continue,
                    false => TreeNodeRecursion::Stop,
                })
            })?;
            most = most.max(columns);
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.times = self.times.saturating_mul(most);
        self.budget.check_expressions(self.parts)
    }
}

/// The query within an expression.
fn subquery_of(expr: &Expr) -> Option<&Arc<LogicalPlan>> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// Sizes of expressions if each column in them is replaced by its expression, down to the tables: rules do so to move
/// filters below projections, and to merge projections.
struct Inlined {
    budget: PlanBudget,
}

impl Inlined {
    /// The sizes of a node's columns.
    fn columns(&self, node: &LogicalPlan) -> Result<Vec<usize>> {
        let inputs: Vec<&LogicalPlan> = node.inputs();
        let sizes = inputs.iter().map(|input| self.columns(input)).collect::<Result<Vec<_>>>()?;
        let known = Known { schemas: inputs.iter().map(|input| input.schema().as_ref()).collect(), sizes };
        let mut computed = Vec::new();
        let mut subqueries = Vec::new();
        node.apply_expressions(|expr| {
            computed.push(known.size(expr, &mut subqueries)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        computed.iter().try_for_each(|size| self.budget.check_expressions(*size))?;
        subqueries.iter().try_for_each(|plan| self.columns(plan).map(drop))?;
        let width = node.schema().fields().len();
        let mut columns = match node {
            LogicalPlan::Projection(_) => computed,
            LogicalPlan::Aggregate(aggregate) => {
                computed.truncate(aggregate.group_expr.len());
                computed
            }
            LogicalPlan::Union(_) => known.widest(width),
            _ => known.sizes.concat(),
        };
        // A column that the node adds counts once: a window, an aggregate, a mark.
        columns.resize(width, parts(false));
        Ok(columns)
    }
}

struct Known<'a> {
    schemas: Vec<&'a DFSchema>,
    sizes: Vec<Vec<usize>>,
}

impl Known<'_> {
    fn size(&self, expr: &Expr, subqueries: &mut Vec<Arc<LogicalPlan>>) -> datafusion::error::Result<usize> {
        let mut size = 0_usize;
        expr.apply(|expr| {
            subqueries.extend(subquery_of(expr).cloned());
            size = size.saturating_add(match expr {
                Expr::Column(column) => self.of_column(column),
                Expr::Literal(..) => parts(true),
                _ => parts(false),
            });
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(size)
    }

    fn of_column(&self, column: &Column) -> usize {
        let places = self.schemas.iter().map(|schema| schema.maybe_index_of_column(column));
        let found = places.zip(&self.sizes).find_map(|(place, sizes)| sizes.get(place?));
        found.copied().unwrap_or(parts(false))
    }

    /// The largest size of each column over all inputs.
    fn widest(&self, width: usize) -> Vec<usize> {
        let of_column = |at: usize| self.sizes.iter().filter_map(|sizes| sizes.get(at)).max();
        (0..width).map(|at| of_column(at).copied().unwrap_or(parts(false))).collect()
    }
}
