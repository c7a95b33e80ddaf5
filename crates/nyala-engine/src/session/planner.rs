//! The first operators of a plan, before [`PhysicalRules`](super::physical_rules::PhysicalRules) change them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use nyala_cube::cube::FinishAggregatePlanner;
use nyala_sql::semantics::{Phase, lower_plan};

use super::interruptible_windows::interruptible_windows;
use super::shared_rows::SharedRowsPlanner;
use super::sort_keys::keys_as_columns;

/// DataFusion's planner, for plans whose expressions have PostgreSQL's meaning and whose windows end with their statement. It knows
/// `FinishAggregate` and `SharedRows`.
#[derive(Debug)]
pub struct NyalaPlanner;

#[async_trait]
impl QueryPlanner for NyalaPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let lowered = lower_plan(plan.clone(), Phase::Operators, session.config_options())?.data;
        let plan = keys_as_columns(interruptible_windows(lowered)?, session.execution_props())?;
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(FinishAggregatePlanner),
            Arc::new(SharedRowsPlanner::default()),
        ]);
        planner.create_physical_plan(&plan, session).await
    }
}
