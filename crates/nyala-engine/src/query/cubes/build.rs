//! `BUILD CUBE`, `REFRESH CUBE` and `MERGE CUBE`, and automatic refreshes.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Permit;
use nyala_cube::cube::build::{BuildContext, FilledSteps, Progress, Resume, Work, is_due, unheld, wanted};
use nyala_cube::cube::{Dice, ReadyCube, live_tables, state_for_analyzed};
use nyala_cube::live::Pins;
use nyala_cube::scan::ReadOnce;
use nyala_model::{JobKind, KeyRange, KeySet, QualifiedName, SegmentRange};
use nyala_runtime::Scope;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{BuildAction, BuildCube};
use tokio::sync::Mutex;

use super::begun_job::BegunJob;
use super::bounds::bounds;
use super::jobs::begin;
use super::lease::lease;
use super::maker::{Maker, wait_before};
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::columns::{number, numbers};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::resources::task::Task;
use crate::session::{Settings, SnapshotContext};

/// A range that contains every segment built from rows.
pub fn range_of_all(works: &[Work]) -> SegmentRange {
    let built = works.iter().filter_map(|work| match work {
        Work::Build(range) => Some(*range),
        Work::Empty(_) | Work::Extend(..) | Work::Merge(..) => None,
    });
    let all = built.reduce(|all, range| match (all, range) {
        (SegmentRange::Keys(a), SegmentRange::Keys(b)) => {
            SegmentRange::Keys(KeyRange { from: a.from.min(b.from), to: a.to.max(b.to) })
        }
        (SegmentRange::Written(a), SegmentRange::Written(b)) => {
            SegmentRange::Written(KeyRange { from: a.from.min(b.from), to: a.to.max(b.to) })
        }
        (all, range) if all == range => all,
        _ => SegmentRange::Whole,
    });
    all.unwrap_or(SegmentRange::Whole)
}

/// A request to build a cube.
pub struct Wish {
    pub name: QualifiedName,
    pub kind: JobKind,
    pub range: Option<(SqlExpr, SqlExpr)>,
}

/// `BUILD CUBE`, `REFRESH CUBE` or `MERGE CUBE`.
pub struct Build<'s>(pub &'s BuildCube);

impl Command for Build<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        (!self.0.waits).then(job_schema)
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_build(caller.name(&self.0.name)?)
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Makes segments and publishes each once it is complete. Cancelling the statement cancels a build that it waits for;
/// segments published before stay.
async fn run(statement: &BuildCube, execution: Execution<'_>) -> Result<Answer> {
    let name = execution.name(&statement.name)?;
    execution.running.entry().waits_for_build();
    let (kind, tag) = match statement.action {
        BuildAction::Build => (JobKind::Build, "BUILD CUBE"),
        BuildAction::Refresh => (JobKind::Refresh, "REFRESH CUBE"),
        // libpq reads the word after MERGE in a tag as a number of rows.
        BuildAction::Merge => (JobKind::Merge, "BUILD CUBE"),
    };
    let wish = Wish { name, kind, range: statement.range.clone() };
    let begun = begin_job(execution.engine(), wish, &execution.settings).await?;
    match begun {
        begun if !statement.waits => {
            let job = begun.map(|job| job.go_on().0);
            execution.columns(job_schema(), vec![numbers([job].into_iter())])
        }
        Some(job) => job.run().await.map(|()| Completion::of(tag)),
        None => Ok(Completion::of(tag)),
    }
}

/// The answer of a statement that does not wait: the number of its job, null if there is nothing to do.
fn job_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![number("job")]))
}

/// Runs a job to its end, if there is work.
pub async fn run_job(engine: &Arc<Engine>, wish: Wish, settings: &Settings) -> Result<()> {
    match begin_job(engine, wish, settings).await? {
        Some(job) => job.run().await,
        None => Ok(()),
    }
}

/// Finds out what a job has to do, and records it as running; none if there is nothing to do.
async fn begin_job(engine: &Arc<Engine>, wish: Wish, settings: &Settings) -> Result<Option<BegunJob>> {
    let name = &wish.name;
    engine.snapshots.stores().segments().check_ready()?;
    check_idle(engine, name)?;
    let cube = find(engine, name)?;
    engine.check_files(Some(&cube.entry.definition.sources)).await?;
    open(&cube).await?;
    // From here on no other job changes the cube.
    let taken = engine.building.jobs.take(name).ok_or_else(|| busy(name))?;
    let lease = lease(engine, cube.entry.id, name).await?;
    engine.snapshots.refresh().await?;
    // Which ranges have no rows is found in this listing of files, and recorded with it: rows that come meanwhile make
    // such a range stale.
    let before = engine.snapshots.current();
    let cube = find_in(&before, name)?;
    let pins = Arc::new(Pins::default());
    pin(&cube, &pins).await?;
    persist(&cube).await?;
    let cube = cube.at(&pins);
    let range = bounds(engine, wish.range, &cube, settings).await?;
    let action = match wish.kind {
        JobKind::Build => BuildAction::Build,
        JobKind::Refresh => BuildAction::Refresh,
        JobKind::Merge => BuildAction::Merge,
        JobKind::AutoRefresh if !is_due(&cube) => return Ok(None),
        JobKind::AutoRefresh => BuildAction::Build,
    };
    let filled = filled_steps(engine, (&cube, &pins), unheld(&cube, action, range)?).await?;
    let works = wanted(&cube, action, range, &filled)?;
    if works.is_empty() {
        return Ok(None);
    }
    let job = begin(engine, &cube, wish.kind, &works).await?;
    let progress = job.progress();
    let listed = engine.building.jobs.start(progress, taken);
    let context = build_context(engine, &pins, Arc::clone(&lease).into(), Arc::clone(progress));
    let maker = Maker {
        engine: Arc::clone(engine),
        name: wish.name,
        context,
        pins,
        before,
        range: range_of_all(&works),
        survey: Mutex::default(),
        resume: Resume::Any,
        is_divided: Arc::default(),
    };
    Ok(Some(BegunJob { lease, job, listed, maker, works }))
}

/// The resources of a build. Cells are the same for all sessions, so the settings of the building session do not count.
pub fn build_context(
    engine: &Engine,
    pins: &Arc<Pins>,
    permit: Permit,
    progress: Arc<Progress>,
) -> BuildContext {
    let (usual, runtime) = (engine.default_settings(), &engine.building.runtime);
    BuildContext {
        state: build_state(engine, (runtime, pins), engine.building.config.batch_rows, &usual),
        frugal: frugal_state(engine, pins, &usual),
        home: engine.segment_home(Some(permit)),
        store: Arc::clone(engine.snapshots.stores().segments().files()),
        config: engine.building.config.clone(),
        progress,
    }
}

/// The steps of `keys` that have rows. Transient errors are retried, as they are in the build that follows.
async fn filled_steps(
    engine: &Arc<Engine>,
    (cube, pins): (&Arc<ReadyCube>, &Arc<Pins>),
    keys: KeySet,
) -> Result<FilledSteps> {
    if keys.is_empty() {
        return Ok(FilledSteps::default());
    }
    let (runtime, batch_rows) = (&engine.building.runtime, engine.building.config.batch_rows);
    let state = build_state(engine, (runtime, pins), batch_rows, &engine.default_settings());
    let (retries, mut dice) = (engine.building.config.retries, Dice::rolled());
    let mut attempt = 0;
    loop {
        let (cube, keys, state) = (Arc::clone(cube), keys.clone(), state.clone());
        let work = async move { FilledSteps::find(&cube, &keys, &state).await };
        match Task::spawn(&engine.runtime.threads, Scope::new(Arc::default()), work).join().await {
            Err(error) if error.transient && attempt < retries => {
                attempt += 1;
                let wait = wait_before(attempt, &mut dice);
                tracing::warn!(%error, ?wait, "the ranges with rows were not found for the moment");
                tokio::time::sleep(wait).await;
            }
            outcome => return outcome,
        }
    }
}

pub fn busy(name: &QualifiedName) -> QueryError {
    QueryError::new(ErrorKind::InUse, format!("cube `{name}` is being built or altered already"))
        .hint("wait for that build, or end it with CANCEL JOB; SHOW JOBS tells how far it is")
}

pub fn find(engine: &Engine, name: &QualifiedName) -> Result<Arc<ReadyCube>> {
    find_in(&engine.snapshots.current(), name)
}

pub fn find_in(context: &SnapshotContext, name: &QualifiedName) -> Result<Arc<ReadyCube>> {
    let snapshot = context.snapshot();
    let entry = snapshot.cubes.get(name).ok_or_else(|| missing(name, snapshot))?;
    let cube = context.cubes().find(entry).ok_or_else(|| QueryError::internal("a cube was not opened"))?;
    if let Err(reason) = &cube.compiled {
        let message = format!("cube `{name}` cannot be built: {reason}");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
    }
    Ok(Arc::clone(cube))
}

/// Makes the rows of the cube's live tables durable: a segment must not hold rows that can be lost, since
/// other rows would get their LSNs.
async fn persist(cube: &ReadyCube) -> Result<()> {
    let Ok(compiled) = &cube.compiled else { return Ok(()) };
    for table in live_tables(compiled) {
        let table = table.opened().await?;
        let persisted = tokio::task::spawn_blocking(move || table.persist()).await;
        persisted.map_err(QueryError::internal)??;
    }
    Ok(())
}

/// Pins the versions of a cube's live tables, once their stores are open.
pub async fn pin(cube: &ReadyCube, pins: &Pins) -> Result<()> {
    open(cube).await?;
    let Ok(compiled) = &cube.compiled else { return Ok(()) };
    for table in live_tables(compiled) {
        table.pinned(pins)?;
    }
    Ok(())
}

/// Waits until the stores of a cube's live tables are open.
async fn open(cube: &ReadyCube) -> Result<()> {
    let Ok(compiled) = &cube.compiled else { return Ok(()) };
    for table in live_tables(compiled) {
        table.opened().await?;
    }
    Ok(())
}

fn check_idle(engine: &Engine, name: &QualifiedName) -> Result<()> {
    let running = engine.build_progress().iter().any(|job| job.cube == *name);
    if running { Err(busy(name)) } else { Ok(()) }
}

/// Builds have memory of their own: they hold much at once, and the shares that a fair pool gives each
/// of their many operators would make them spill long before memory is short.
fn build_state(
    engine: &Engine,
    (runtime, pins): (&Arc<RuntimeEnv>, &Arc<Pins>),
    batch_rows: usize,
    settings: &Settings,
) -> SessionState {
    let state = engine.snapshots.current().state(settings);
    let mut state = state_for_analyzed(&state).with_runtime_env(Arc::clone(runtime)).build();
    *state.config_mut() = state.config().clone().with_batch_size(batch_rows);
    state.config_mut().set_extension(Arc::clone(pins));
    state.config_mut().set_extension(Arc::new(ReadOnce));
    state
}

/// State for builds that ran out of memory: one partition, because each takes memory of its own.
fn frugal_state(engine: &Engine, pins: &Arc<Pins>, settings: &Settings) -> SessionState {
    let batch_rows = engine.query_config.batch_rows;
    let mut state = build_state(engine, (&engine.building.frugal_runtime, pins), batch_rows, settings);
    *state.config_mut() = state.config().clone().with_target_partitions(1);
    state
}

pub fn missing(name: &QualifiedName, snapshot: &nyala_model::CatalogSnapshot) -> QueryError {
    let names: Vec<&str> = snapshot.cubes.keys().map(|cube| cube.name.as_str()).collect();
    let error = QueryError::new(ErrorKind::UndefinedTable, format!("cube `{name}` does not exist"));
    match nyala_model::suggest::nearest(&name.name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("SHOW CUBES lists the cubes"),
    }
}
