//! VALUES in FROM: the columns have the types of the values, also in an INSERT.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::{Query, SetExpr, TableFactor, Values};

/// Plans VALUES in FROM. DataFusion takes any VALUES of an INSERT for rows of the table that is written.
#[derive(Debug)]
pub struct DerivedValues;

impl RelationPlanner for DerivedValues {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral: false, subquery, alias, .. } if is_plain(&subquery) => {
                let SetExpr::Values(Values { rows, .. }) = *subquery.body else {
                    return datafusion::common::internal_err!("VALUES have no rows");
                };
                let nothing = DFSchema::empty();
                let rows = rows.into_iter().map(|row| {
                    row.content.into_iter().map(|cell| context.sql_to_expr(cell, &nothing)).collect()
                });
                let plan = LogicalPlanBuilder::values(rows.collect::<Result<_>>()?)?.build()?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            relation => Ok(RelationPlanning::Original(Box::new(relation))),
        }
    }
}

/// Whether a query is VALUES and nothing else.
fn is_plain(query: &Query) -> bool {
    let is_values = matches!(query.body.as_ref(), SetExpr::Values(values) if !values.value_keyword);
    is_values
        && query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
}
