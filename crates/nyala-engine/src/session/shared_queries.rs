//! Queries in WITH that several places name, and that may give other rows each time, are computed once.

use datafusion::common::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::TableFactor;
use nyala_sql::semantics::{SharedRows, varies};
use nyala_sql::statement::SHARED_QUERY;

/// Plans the subquery through which a query of WITH is read. The plan is copied into the places that name the query.
#[derive(Debug)]
pub struct SharedQueries;

impl RelationPlanner for SharedQueries {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if !is_shared(&relation) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        if let TableFactor::Derived { alias, .. } = &mut relation {
            *alias = None;
        }
        let plan = context.plan(relation)?;
        let plan = if varies(&plan)? { SharedRows::over(plan) } else { plan };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

fn is_shared(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Derived { alias: Some(alias), .. } if alias.name.value == SHARED_QUERY)
}
