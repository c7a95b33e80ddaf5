//! Physical planning with Nyala's own node.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use nyala_cube::cube::FinishAggregatePlanner;
use nyala_sql::semantics::{Phase, lower_plan};

use super::windows::interruptible_windows;

/// DataFusion's planner, taught to plan `FinishAggregate`.
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
        let plan = interruptible_windows(lowered)?;
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(FinishAggregatePlanner)])
            .create_physical_plan(&plan, session)
            .await
    }
}
