//! `BUILD CUBE`, `REFRESH CUBE` and `MERGE CUBE` as jobs.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use nyala_model::{JobEntry, JobKind, JobState, KeyRange, QualifiedName, SegmentEntry, SegmentRange};

use super::answer::{Answer, Completion};
use super::engine::Engine;
use super::explain::AbortOnDrop;
use crate::cube::build::{BuildContext, Progress, WantedSegment, Work, build, extend, merge, now_ms, wanted};
use crate::cube::{PartitionColumn, ReadyCube, fingerprints};
use crate::error::{ErrorKind, QueryError, Result};
use crate::session::Settings;
use crate::statement::{BuildAction, BuildCube};

/// Makes segments and publishes each as soon as it is whole. Cancelling the statement cancels the build;
/// segments that are published by then stay.
pub(super) async fn run(
    engine: &Arc<Engine>,
    statement: &BuildCube,
    name: QualifiedName,
    settings: &Settings,
) -> Result<Answer> {
    check_idle(engine, &name)?;
    let cube = find(engine, &name)?;
    engine.check_files(Some(&cube.entry.definition.sources)).await?;
    let cube = find(engine, &name)?;
    let range = bounds(engine, statement, &cube, settings).await?;
    let works = wanted(&cube, statement.action, range)?;
    let done = Completion::of(match statement.action {
        BuildAction::Build => "BUILD CUBE",
        BuildAction::Refresh => "REFRESH CUBE",
        BuildAction::Merge => "MERGE CUBE",
    });
    if works.is_empty() {
        return Ok(done);
    }
    let progress = Arc::new(Progress::new(record(engine, &cube, &works).await?));
    let Some(listed) = engine.builds.start(&progress) else {
        end(engine, &progress, &Err(busy(&name))).await;
        return Err(busy(&name));
    };
    let context = BuildContext {
        state: build_state(engine, &engine.build_runtime, engine.build_config.batch_rows, settings),
        frugal: build_state(engine, &engine.frugal_runtime, engine.query_config.batch_rows, settings),
        catalog: Arc::clone(engine.catalog()),
        store: engine.stores().data()?,
        data_dir: engine.data_dir.clone(),
        config: engine.build_config.clone(),
        background: engine.background.clone(),
        progress: Arc::clone(&progress),
    };
    let ending = EndJob { engine: Arc::clone(engine), progress, done: false };
    let work = make_all(Arc::clone(engine), cube, works, context);
    let work = async move {
        let _listed = listed;
        work.await
    };
    let outcome = AbortOnDrop(engine.threads.execution().spawn(work)).join().await;
    ending.finish(&outcome).await;
    outcome?;
    Ok(done)
}

pub(super) fn busy(name: &QualifiedName) -> QueryError {
    QueryError::new(ErrorKind::InUse, format!("cube `{name}` is being built or altered already"))
        .hint("wait for that build; SHOW JOBS tells how far it is")
}

fn check_idle(engine: &Engine, name: &QualifiedName) -> Result<()> {
    let running = engine.build_progress().iter().any(|job| job.cube == *name);
    if running { Err(busy(name)) } else { Ok(()) }
}

pub(super) fn find(engine: &Engine, name: &QualifiedName) -> Result<Arc<ReadyCube>> {
    let context = engine.context();
    let snapshot = context.snapshot();
    let entry = snapshot.cubes.get(name).ok_or_else(|| missing(name, snapshot))?;
    let cube = context.cubes().find(entry).ok_or_else(|| QueryError::internal("a cube was not opened"))?;
    if let Err(reason) = &cube.compiled {
        let message = format!("cube `{name}` cannot be built: {reason}");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
    }
    Ok(Arc::clone(cube))
}

/// One segment after the other.
async fn make_all(
    engine: Arc<Engine>,
    cube: Arc<ReadyCube>,
    works: Vec<Work>,
    context: BuildContext,
) -> Result<()> {
    for work in works {
        let range = work.range();
        let revision = cube.entry.definition.revision;
        let mut wanted = WantedSegment { range, sources: sources(&engine, &cube, range)?, revision };
        let built = match work {
            Work::Build(_) => build(&cube, &wanted, &context).await?,
            Work::Merge(_, ids) => {
                let segments: Vec<SegmentEntry> =
                    cube.entry.segments.iter().filter(|s| ids.contains(&s.id)).cloned().collect();
                merge(&cube, &wanted, &segments, &context).await?
            }
            Work::Extend(_, id) => {
                let segment = cube.entry.segments.iter().find(|segment| segment.id == id);
                let segment = segment.ok_or_else(|| QueryError::internal("a segment is gone"))?;
                // New cells must come from the rows that the others came from.
                wanted.sources.clone_from(&segment.sources);
                extend(&cube, segment, &context, check_unchanged(&engine, &cube, &wanted)).await?;
                engine.refresh().await?;
                continue;
            }
        };
        check_unchanged(&engine, &cube, &wanted).await?;
        built.publish().await?;
        engine.refresh().await?;
    }
    Ok(())
}

/// What was read must still be there: files that changed meanwhile may have been read half old, half new.
async fn check_unchanged(engine: &Engine, cube: &ReadyCube, wanted: &WantedSegment) -> Result<()> {
    engine.check_files(Some(&cube.entry.definition.sources)).await?;
    let now = sources(engine, cube, wanted.range)?;
    if let Some(changed) = now.iter().find(|files| !wanted.sources.contains(files)) {
        let message = format!("files of table `{}` changed while the segment was built", changed.table);
        return Err(QueryError::new(ErrorKind::Unreadable, message).hint("run the statement again"));
    }
    Ok(())
}

fn sources(engine: &Engine, cube: &ReadyCube, range: SegmentRange) -> Result<Vec<nyala_model::SourceFiles>> {
    let compiled = cube.compiled.as_ref().map_err(QueryError::internal)?;
    fingerprints(&cube.entry, compiled, engine.context().listings(), range).map_err(|table| {
        QueryError::new(ErrorKind::Unreadable, format!("the files of table `{table}` could not be listed"))
    })
}

/// Evaluates FROM and TO.
async fn bounds(
    engine: &Engine,
    statement: &BuildCube,
    cube: &ReadyCube,
    settings: &Settings,
) -> Result<Option<KeyRange>> {
    let Some((from, to)) = statement.range.clone() else { return Ok(None) };
    let Some(column) = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.clone()) else {
        // What is wrong with it is said where ranges are worked out.
        return Ok(Some(KeyRange { from: 0, to: 0 }));
    };
    let state = engine.context().state(settings);
    let work = async move {
        let (from, to) = (bound(from, &column, &state)?, bound(to, &column, &state)?);
        Ok(Some(KeyRange { from, to }))
    };
    engine.threads.plan(work).await
}

fn bound(written: SqlExpr, column: &PartitionColumn, state: &SessionState) -> Result<i64> {
    let shown = written.to_string();
    let refused = || {
        let message = format!("`{shown}` is no value of column `{}`", column.division.column);
        QueryError::new(ErrorKind::InvalidParameter, message)
            .hint("write a constant such as DATE '2026-01-01' or 20260101")
    };
    let schema = DFSchema::empty();
    let expr = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr: written, alias: None }, &schema)
        .map_err(|_| refused())?;
    let context = SimplifyContext::builder()
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let coerced = simplifier.coerce(expr, &schema).and_then(|expr| simplifier.simplify(expr));
    match coerced {
        Ok(Expr::Literal(value, _)) => column.bound(&value).ok_or_else(refused),
        _ => Err(refused()),
    }
}

/// Builds have memory of their own: they hold much at once, and the shares that a fair pool gives each
/// of their many operators would make them spill long before memory is short.
fn build_state(
    engine: &Engine,
    runtime: &Arc<RuntimeEnv>,
    batch_rows: usize,
    settings: &Settings,
) -> SessionState {
    let state = engine.context().state(settings);
    let mut state =
        SessionStateBuilder::new_from_existing(state).with_runtime_env(Arc::clone(runtime)).build();
    *state.config_mut() = state.config().clone().with_batch_size(batch_rows);
    state
}

async fn record(engine: &Engine, cube: &ReadyCube, works: &[Work]) -> Result<JobEntry> {
    let (name, started_at_ms) = (&cube.entry.name, now_ms());
    let definition = &cube.entry.definition;
    let cuboids = works.iter().map(|work| match work {
        Work::Build(_) | Work::Merge(..) => definition.grouping_sets.len(),
        Work::Extend(_, id) => {
            let segment = cube.entry.segments.iter().find(|segment| segment.id == *id);
            segment.map_or(0, |segment| definition.outstanding(segment).len())
        }
    });
    let cuboids_total = u32::try_from(cuboids.sum::<usize>()).unwrap_or(u32::MAX);
    let id = engine.catalog().create_job(JobKind::Build, name, cuboids_total, started_at_ms).await?;
    Ok(JobEntry {
        id,
        kind: JobKind::Build,
        cube: name.clone(),
        state: JobState::Running,
        rows_read: 0,
        cuboids_done: 0,
        cuboids_total,
        bytes_written: 0,
        started_at_ms,
        ended_at_ms: None,
        error: None,
    })
}

/// Records how a job ended, also when its statement is dropped half-way.
struct EndJob {
    engine: Arc<Engine>,
    progress: Arc<Progress>,
    done: bool,
}

impl EndJob {
    async fn finish(mut self, outcome: &Result<()>) {
        end(&self.engine, &self.progress, outcome).await;
        self.done = true;
    }
}

impl Drop for EndJob {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (engine, progress) = (Arc::clone(&self.engine), Arc::clone(&self.progress));
        let background = self.engine.background.clone();
        background.finish(async move { end(&engine, &progress, &Err(QueryError::cancelled())).await });
    }
}

async fn end(engine: &Engine, progress: &Progress, outcome: &Result<()>) {
    let mut job = progress.entry();
    job.ended_at_ms = Some(now_ms());
    job.state = match outcome {
        Ok(()) => JobState::Done,
        Err(error) if error.kind == ErrorKind::Cancelled => JobState::Cancelled,
        Err(_) => JobState::Failed,
    };
    job.error = outcome.as_ref().err().map(ToString::to_string);
    if let Err(error) = engine.catalog().update_job(&job).await {
        tracing::warn!(job = job.id.0, %error, "the end of a job was not recorded");
    }
}

fn missing(name: &QualifiedName, snapshot: &nyala_model::CatalogSnapshot) -> QueryError {
    let names: Vec<&str> = snapshot.cubes.keys().map(|cube| cube.name.as_str()).collect();
    let error = QueryError::new(ErrorKind::UndefinedTable, format!("cube `{name}` does not exist"));
    match nyala_model::suggest::nearest(&name.name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("SHOW CUBES lists the cubes"),
    }
}
