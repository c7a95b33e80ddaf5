//! `EXPLAIN`: which cuboid answers, why the others do not, and the plans.

use std::sync::Arc;

use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::format::ExplainFormat;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use futures::StreamExt;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::query::activity::Phase;
use crate::query::answer::{Answer, Placed, Purpose};
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::files::with_files;
use crate::query::place_query::{part_of, place};
use crate::query::plan::logical::logical_plan;
use crate::query::plan::physical::{AllReasons, plan_query};
use crate::query::resources::memory;
use crate::query::resources::task::Task;

/// Columns of the answer.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("plan_type", DataType::Utf8, false),
        Field::new("plan", DataType::Utf8, false),
    ]))
}

/// Plans the statement that is explained; with ANALYZE also runs it to the end, within the slots and the memory of its group like
/// any large query.
pub async fn run(
    explain: &ExplainStatement,
    statement: &DfStatement,
    execution: Execution<'_>,
) -> Result<Answer> {
    let (session, settings) = (execution.session, &execution.settings);
    let engine = &session.engine;
    let format = Format::parse(explain.options.format.as_ref())?;
    let context = engine.snapshots.current();
    let shown = Arc::clone(&context);
    let mut state = context.state(settings);
    state.config_mut().set_extension(Arc::new(AllReasons));
    let verbose = explain.options.verbose;
    let (own, host, entry) = (settings.clone(), Arc::clone(engine), Arc::clone(execution.running.entry()));
    let analyze = explain.options.analyze;
    let (statement, state) = Box::pin(with_files(session, statement.clone(), state, settings)).await?;
    let work = async move {
        let planned = logical_plan(statement, state.clone()).await?;
        if planned.schema.is_none() {
            return Err(QueryError::new(ErrorKind::Unsupported, "only queries can be explained"));
        }
        let initial = planned.plan.logical().display_indent().to_string();
        let plans = plan_query(planned.plan, Arc::clone(&context), state, own.clone()).await?;
        let statement = |class| part_of(&host, &entry, &context, &own, class);
        let purpose = if analyze { Purpose::Measured } else { Purpose::Shown };
        let placed = place(&host, &plans, (&own, purpose), &statement).await?;
        Ok((initial, plans, placed))
    };
    let planned = engine.runtime.threads.plan(work).await;
    let (initial, plans, placed) = planned.map_err(|error| shown.explain_missing(error))?;
    let mut rows = vec![("cubes", plans.report.to_string())];
    if !placed.note.is_empty() {
        rows.push(("nodes", placed.note.clone()));
    }
    if explain.options.analyze {
        let (plan, entry) = (Arc::clone(&placed.plan), execution.running.entry());
        entry.follows(&plan, false, None);
        let group = session.group(settings)?;
        let slot = match plans.cost_class()?.queue() {
            Some(queue) => Some(group.admit(queue, placed.site(), entry).await?),
            None => None,
        };
        let task = memory::of_query(&placed.task, entry, &group);
        entry.enter(Phase::Running);
        let scope = execution.running.scope().holding(slot);
        Task::spawn(&engine.runtime.threads, scope, run_to_end(plan, task)).join().await?;
        rows.push(("plan_with_metrics", figures(engine, &placed, verbose).await?));
    } else {
        if verbose {
            rows.push(("initial_logical_plan", initial));
        }
        rows.push(("logical_plan", plans.logical.display_indent().to_string()));
        rows.push(("physical_plan", format.show(placed.plan.as_ref(), verbose)));
    }
    let kinds = StringArray::from_iter_values(rows.iter().map(|(kind, _)| kind));
    let shown = StringArray::from_iter_values(rows.iter().map(|(_, plan)| plan));
    execution.columns(schema(), vec![Arc::new(kinds), Arc::new(shown)])
}

#[derive(Clone, Copy)]
enum Format {
    Indent,
    Tree,
}

impl Format {
    fn parse(format: Option<&ExplainFormat>) -> Result<Self> {
        match format {
            None | Some(ExplainFormat::Indent) => Ok(Self::Indent),
            Some(ExplainFormat::Tree) => Ok(Self::Tree),
            Some(other) => Err(QueryError::new(
                ErrorKind::Unsupported,
                format!("EXPLAIN format `{other}` is not supported"),
            )
            .hint("use `indent` or `tree`")),
        }
    }

    fn show(self, plan: &dyn ExecutionPlan, verbose: bool) -> String {
        match self {
            Self::Indent => displayable(plan).indent(verbose).to_string(),
            Self::Tree => displayable(plan).tree_render().to_string(),
        }
    }
}

/// What each operator did, on all nodes that took part.
async fn figures(engine: &Engine, placed: &Placed, verbose: bool) -> Result<String> {
    match &engine.placement {
        Some(placement) if placed.is_spread => placement.figures(placed.plan.as_ref(), verbose).await,
        _ => Ok(DisplayableExecutionPlan::with_metrics(placed.plan.as_ref()).indent(verbose).to_string()),
    }
}

async fn run_to_end(plan: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Result<()> {
    let mut stream = execute_stream(plan, task)?;
    while let Some(batch) = stream.next().await {
        batch?;
    }
    Ok(())
}
