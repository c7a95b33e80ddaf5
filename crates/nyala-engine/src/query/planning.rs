//! From a statement to a running plan.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as DfStatement;
use nyala_cube::cube::{Report, Routing, rewrite};
use nyala_cube::live::Pins;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::activity::Running;
use super::answer::Answer;
use super::budget::{budget_of, check_plan};
use super::burden::Burden;
use super::engine::Engine;
use super::history::Recorded;
use super::parameters::bind;
use super::plans::{Made, answers_of, check_constant, is_fit};
use super::resources::memory;
use super::results::Source;
use super::run::{Deadline, Start};
use super::session::Session;
use super::twins;
use crate::session::{Settings, SnapshotContext};

/// A statement as planned by DataFusion, before anything is optimised.
pub(super) struct Planned {
    pub(super) plan: Unoptimized,
    /// Columns of the result, if it gives rows.
    pub(super) schema: Option<SchemaRef>,
}

/// How far a plan is from being optimised.
#[derive(Debug, Clone)]
pub(super) enum Unoptimized {
    /// Names are resolved; types may depend on parameters.
    Resolved(LogicalPlan),
    /// Types are settled too.
    Analyzed(LogicalPlan),
}

impl Unoptimized {
    pub(super) fn logical(&self) -> &LogicalPlan {
        match self {
            Self::Resolved(plan) | Self::Analyzed(plan) => plan,
        }
    }

    /// Turns the plan of a DELETE, planned as an UPDATE, into that of a DELETE.
    pub(super) fn deleting(self) -> Self {
        match self {
            Self::Resolved(LogicalPlan::Dml(dml)) => {
                Self::Resolved(LogicalPlan::Dml(DmlStatement { op: WriteOp::Delete, ..dml }))
            }
            other => other,
        }
    }

    pub(super) fn analyze(self, state: &SessionState) -> Result<LogicalPlan> {
        match self {
            Self::Resolved(plan) => {
                Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
            }
            Self::Analyzed(plan) => Ok(plan),
        }
    }
}

/// Resolves names and types.
pub(super) async fn logical_plan(statement: DfStatement, state: SessionState) -> Result<Planned> {
    let budget = budget_of(&state);
    let raw = twins::plan(statement, &state).await?;
    check_plan(&raw, budget)?;
    let gives_rows = !matches!(
        raw,
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_)
    );
    if !gives_rows {
        return Ok(Planned { plan: Unoptimized::Resolved(raw), schema: None });
    }
    if has_parameters(&raw)? {
        // Types may still be unknown; then the columns are described as far as they are known.
        let analyzed = Unoptimized::Resolved(raw.clone()).analyze(&state);
        let schema = Arc::clone(analyzed.as_ref().unwrap_or(&raw).schema().inner());
        return Ok(Planned { plan: Unoptimized::Resolved(raw), schema: Some(schema) });
    }
    let analyzed = Unoptimized::Resolved(raw).analyze(&state)?;
    let schema = Arc::clone(analyzed.schema().inner());
    Ok(Planned { plan: Unoptimized::Analyzed(analyzed), schema: Some(schema) })
}

fn has_parameters(plan: &LogicalPlan) -> Result<bool> {
    Ok(!plan.get_parameter_names()?.is_empty())
}

/// A query ready to run, with the report of the cube rewrite.
pub(super) struct Plans {
    pub(super) logical: LogicalPlan,
    pub(super) physical: Arc<dyn ExecutionPlan>,
    pub(super) report: Report,
}

/// Plans and starts a query. `text` is the text it was parsed from, if a cached plan may answer it again.
pub(super) async fn run(
    session: &Session,
    query: &Unoptimized,
    text: Option<&Arc<str>>,
    parameters: &[ScalarValue],
    settings: &Settings,
    deadline: &Deadline,
    running: Running,
) -> Result<Answer> {
    let engine = &session.engine;
    let group = session.group(settings)?;
    let context = engine.snapshots.current();
    let state = context.state(settings);
    let task = state.task_ctx();
    let bound = bind(query.clone(), parameters)?;
    let begun = Instant::now();
    let work = plan_query(bound, Arc::clone(&context), state, settings.clone());
    let mut plans = engine.runtime.threads.plan(work).await?;
    engine.snapshots.plans.count(false);
    count(engine, &plans.report);
    let answers = answers_of(&plans.report, &plans.logical)?;
    let answers = answers.filter(|answers| is_fit(plans.physical.as_ref(), answers));
    if let (Some(text), Some(answers)) = (text, answers) {
        let made = Made { answers, schema: plans.physical.schema() };
        engine.learn_plan(text, settings, &context, made);
    }
    let (from_cuboids, burden) = (plans.reads_cuboids_only()?, plans.burden()?);
    running.entry().follows(&plans.physical, false, plans.report.answered_from().map(Into::into));
    let asked = Arc::new(Recorded::new(std::mem::take(&mut plans.report.asked)));
    let source = from_cuboids.then(|| source_of(query, &plans.report, &asked, settings)).flatten();
    let start = Start {
        source,
        recording: engine.observed.history.begin(asked, begun),
        deadline: deadline.clone(),
        slot: None,
        plan: plans.physical,
        task: memory::of_query(&task, running.entry(), &group),
    };
    let slot = match burden.queue() {
        Some(queue) => Some(group.admit(queue, running.entry()).await?),
        None => None,
    };
    let start = Start { slot, ..start };
    Ok(match burden {
        Burden::Little => start.small(&engine.runtime.threads, running),
        Burden::Short => start.short(&engine.runtime.threads, running),
        Burden::Joins | Burden::Long => start.large(&engine.runtime.threads, running),
    })
}

/// The source of an answer, if the session uses the result cache and the answer does not change by itself.
fn source_of(
    query: &Unoptimized,
    report: &Report,
    asked: &Arc<Recorded>,
    settings: &Settings,
) -> Option<Source> {
    let wanted = settings.nyala().result_cache;
    let stays = !report.reads_live() && check_constant(query.logical()).is_ok();
    (wanted && stays).then(|| Source {
        plan: Arc::new(query.clone()),
        asked: Arc::clone(asked),
        answered_from: report.answered_from().map(Into::into),
    })
}

fn count(engine: &Engine, report: &Report) {
    let hits = report.hits();
    let misses = report.blocks.len() - hits;
    engine.observed.count_hits(hits);
    engine.observed.counters.cube_misses.fetch_add(misses as u64, Ordering::Relaxed);
}

/// Analyse, answer from cubes, optimise, choose operators.
pub(super) async fn plan_query(
    query: Unoptimized,
    context: Arc<SnapshotContext>,
    mut state: SessionState,
    settings: Settings,
) -> Result<Plans> {
    let (logical, report) = optimize(query, &context, &mut state, &settings)?;
    let physical = state.query_planner().create_physical_plan(&logical, &state).await?;
    Ok(Plans { logical, physical, report })
}

/// Analyse, answer from cubes, optimise. `state` is left configured for the choice of operators.
pub(super) fn optimize(
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
pub(super) fn simplify_context(state: &SessionState) -> SimplifyContext {
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
    let routing = Routing { cubes: context.cubes(), simplify: &simplify_context(state), pins: &pins };
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
