//! Subqueries in nodes that need their values.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::Shared;
use super::lowering::Lowering;

/// Subqueries whose values are needed.
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
