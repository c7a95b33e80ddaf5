//! Subqueries in SELECT lists, aggregates, windows and ORDER BY, whose exact values are needed.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};

use super::lowering::Lowering;
use super::{Shared, has_subquery, settled};

/// Lowers the subqueries of a node whose values are needed.
pub fn lower_values(node: LogicalPlan, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let Some(input) = node.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(node));
    };
    let columns = node.schema().columns();
    let takes_totals = matches!(node, LogicalPlan::Projection(_));
    let mut lowering = Lowering::new(input, shared, takes_totals);
    let exprs = match &node {
        LogicalPlan::Projection(projection) => {
            let named = projection.expr.iter().zip(projection.schema.iter());
            let exprs = named.map(|(expr, (qualifier, field))| {
                let value = lowering.value(expr.clone())?;
                let (found, name) = value.qualified_name();
                Ok(match (found.as_ref(), &name) == (qualifier, field.name()) {
                    true => value,
                    false => value.alias_qualified(qualifier.cloned(), field.name()),
                })
            });
            exprs.collect::<Result<Vec<_>>>()?
        }
        other => {
            let exprs = other.expressions().into_iter().map(|expr| {
                let (qualifier, name) = expr.qualified_name();
                let value = lowering.value(expr)?;
                let is_named = value.qualified_name() == (qualifier.clone(), name.clone());
                let needs_name = !is_named && !matches!(other, LogicalPlan::Sort(_));
                Ok(if needs_name { value.alias_qualified(qualifier, name) } else { value })
            });
            exprs.collect::<Result<Vec<_>>>()?
        }
    };
    let Lowering { input, is_wider, changed, .. } = lowering;
    if !changed {
        return Ok(Transformed::no(node));
    }
    let keeps_input = matches!(node, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
    let plan = node.with_new_exprs(exprs, vec![input])?;
    Ok(Transformed::yes(match is_wider && keeps_input {
        true => LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()?,
        false => plan,
    }))
}

/// DISTINCT ON with subqueries in its keys or values: they are computed as columns of its input.
pub fn lower_distinct_on(on: DistinctOn, shared: &mut Shared<'_>) -> Result<LogicalPlan> {
    let mut computed = Computed { prefix: shared.prefix(), exprs: Vec::new() };
    let keys = on.on_expr.into_iter().map(|key| computed.column_of(key)).collect();
    let values = on.select_expr.into_iter().map(|value| {
        let (qualifier, name) = value.qualified_name();
        match has_subquery(&value) {
            true => computed.column_of(value).alias_qualified(qualifier, name),
            false => value,
        }
    });
    let values = values.collect();
    let sorts = on.sort_expr.map(|sorts| {
        let sorts = sorts.into_iter().map(|sort| SortExpr { expr: computed.column_of(sort.expr), ..sort });
        sorts.collect::<Vec<_>>()
    });
    let columns = on.input.schema().columns().into_iter().map(Expr::Column);
    let Computed { prefix, exprs } = computed;
    let named = exprs.into_iter().enumerate().map(|(place, expr)| expr.alias(format!("{prefix}{place}")));
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(on.input)).project(columns.chain(named))?;
    let input = Arc::new(settled(input.build()?, shared)?);
    Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(keys, values, sorts, input)?)))
}

/// Expressions with subqueries, each computed once as a column.
struct Computed {
    prefix: String,
    exprs: Vec<Expr>,
}

impl Computed {
    /// The column with the value of an expression that has a subquery; other expressions are returned as they are.
    fn column_of(&mut self, expr: Expr) -> Expr {
        if !has_subquery(&expr) {
            return expr;
        }
        let expr = expr.unalias();
        let place = self.exprs.iter().position(|known| *known == expr).unwrap_or_else(|| {
            self.exprs.push(expr);
            self.exprs.len() - 1
        });
        Expr::Column(Column::new_unqualified(format!("{}{place}", self.prefix)))
    }
}
