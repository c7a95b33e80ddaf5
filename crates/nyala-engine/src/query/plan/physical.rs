//! From a resolved plan to operators: analyse, answer from cubes, optimise, choose operators.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::cube::{Report, Routing, rewrite};
use nyala_cube::live::Pins;
use nyala_cube::scan::KeptElsewhere;
use nyala_model::NodeId;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::budget::{budget_of, check_plan};
use super::logical::Unoptimized;
use crate::session::{Settings, SnapshotContext};

/// An extension of a state that plans for EXPLAIN, or with `nyala.show_route`: it asks for the reason of each cube that does not answer.
#[derive(Debug, Clone, Copy)]
pub struct AllReasons;

/// A query ready to run, with the report of the cube rewrite.
pub struct Plans {
    pub logical: LogicalPlan,
    pub physical: Arc<dyn ExecutionPlan>,
    pub report: Report,
    /// The session state that the query was planned with.
    pub state: SessionState,
}

impl Plans {
    /// The node that keeps in memory what this query reads of cuboids, if this one does not, and if it reads nothing else.
    pub fn kept_by(&self) -> Result<Option<NodeId>> {
        // Live tables are of this node, and only its own cells fit the versions that the query reads.
        if self.report.reads_live() {
            return Ok(None);
        }
        let kept = self.state.config().get_extension::<KeptElsewhere>();
        let node = kept.and_then(|kept| kept.node());
        Ok(if node.is_some() && self.reads_cuboids_only()? { node } else { None })
    }
}

/// Analyses a query, answers it from cubes, optimises it and chooses operators.
pub async fn plan_query(
    query: Unoptimized,
    context: Arc<SnapshotContext>,
    mut state: SessionState,
    settings: Settings,
) -> Result<Plans> {
    let (logical, report) = optimize(query, &context, &mut state, &settings)?;
    state.config_mut().set_extension(Arc::new(KeptElsewhere::default()));
    let physical = state.query_planner().create_physical_plan(&logical, &state).await?;
    Ok(Plans { logical, physical, report, state })
}

/// Analyses a query, answers it from cubes and optimises it. `state` is left configured for the choice of operators.
pub fn optimize(
    query: Unoptimized,
    context: &SnapshotContext,
    state: &mut SessionState,
    settings: &Settings,
) -> Result<(LogicalPlan, Report)> {
    let budget = budget_of(state);
    let analyzed = query.analyze(state)?;
    check_plan(&analyzed, budget)?;
    let (routed, report) = route(analyzed, state, context, settings)?;
    if report.all_from_cuboids() {
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        // A plan over cuboids has no joins or subqueries left that a second pass could rewrite.
        optimizer.max_passes = 1;
        // A cuboid is divided where it is read, if that is worth it. Handing few rows to other threads
        // takes longer than to compute with them.
        optimizer.enable_round_robin_repartition = false;
    }
    let logical = state.optimizer().optimize(routed, &*state, |_, _| {})?;
    check_plan(&logical, budget)?;
    Ok((logical, report))
}

/// The context in which constant expressions are simplified.
pub fn simplify_context(state: &SessionState) -> SimplifyContext {
    SimplifyContext::builder()
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build()
}

fn route(
    plan: LogicalPlan,
    state: &SessionState,
    context: &SnapshotContext,
    settings: &Settings,
) -> Result<(LogicalPlan, Report)> {
    let mut report = Report::default();
    let nyala = settings.nyala();
    if !nyala.use_cubes {
        return Ok((plan, report));
    }
    let pins = state.config().get_extension::<Pins>().unwrap_or_default();
    let explains = state.config().get_extension::<AllReasons>().is_some();
    let simplify = simplify_context(state);
    let routing = Routing { cubes: context.cubes(), simplify: &simplify, pins: &pins, explains };
    let plan = rewrite(plan, &routing, &mut report)?;
    if !nyala.pushdown && report.hits() < report.blocks.len() {
        return Err(QueryError::new(
            ErrorKind::Unsupported,
            "no cube answers the query, and `nyala.pushdown` is off",
        )
        .hint("EXPLAIN says why; SET nyala.pushdown = on runs it on the tables"));
    }
    Ok((plan, report))
}
