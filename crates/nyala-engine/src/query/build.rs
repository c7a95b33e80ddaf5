//! `BUILD CUBE`, `REFRESH CUBE` and `MERGE CUBE`, and builds that nobody asked for.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use nyala_model::{JobKind, KeyRange, QualifiedName, SegmentEntry, SegmentRange, SourceFiles};
use tokio::sync::Mutex;

use super::answer::{Answer, Completion};
use super::bounds::bounds;
use super::engine::Engine;
use super::explain::AbortOnDrop;
use super::job::{EndJob, end, record};
use super::upkeep;
use crate::cube::build::{
    BuildContext, Progress, Survey, WantedSegment, Work, build, extend, is_due, merge, survey, wanted,
};
use crate::cube::{Dice, ReadyCube, fingerprints};
use crate::error::{ErrorKind, QueryError, Result};
use crate::session::Settings;
use crate::statement::{BuildAction, BuildCube};

/// How long to wait before the second attempt; before each further one five times as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(125);

/// A range that has the rows of every segment that is built from rows.
fn range_of_all(works: &[Work]) -> SegmentRange {
    let built = works.iter().filter_map(|work| match work {
        Work::Build(range) => Some(*range),
        Work::Extend(..) | Work::Merge(..) => None,
    });
    let all = built.reduce(|all, range| match (all, range) {
        (SegmentRange::Keys(a), SegmentRange::Keys(b)) => {
            SegmentRange::Keys(KeyRange { from: a.from.min(b.from), to: a.to.max(b.to) })
        }
        (all, range) if all == range => all,
        _ => SegmentRange::Whole,
    });
    all.unwrap_or(SegmentRange::Whole)
}

/// What is to be built.
pub(super) struct Wish {
    pub(super) name: QualifiedName,
    pub(super) kind: JobKind,
    pub(super) range: Option<(SqlExpr, SqlExpr)>,
}

/// Makes segments and publishes each as soon as it is whole. Cancelling the statement cancels the build;
/// segments that are published by then stay.
pub(super) async fn run(
    engine: &Arc<Engine>,
    statement: &BuildCube,
    name: QualifiedName,
    settings: &Settings,
) -> Result<Answer> {
    let (kind, tag) = match statement.action {
        BuildAction::Build => (JobKind::Build, "BUILD CUBE"),
        BuildAction::Refresh => (JobKind::Refresh, "REFRESH CUBE"),
        BuildAction::Merge => (JobKind::Merge, "MERGE CUBE"),
    };
    run_job(engine, Wish { name, kind, range: statement.range.clone() }, settings).await?;
    Ok(Completion::of(tag))
}

/// Runs a job to its end, if there is something to do.
pub(super) async fn run_job(engine: &Arc<Engine>, wish: Wish, settings: &Settings) -> Result<()> {
    let name = &wish.name;
    check_idle(engine, name)?;
    let cube = find(engine, name)?;
    engine.check_files(Some(&cube.entry.definition.sources)).await?;
    let cube = find(engine, name)?;
    let range = bounds(engine, wish.range, &cube, settings).await?;
    let works = match wish.kind {
        JobKind::Build => wanted(&cube, BuildAction::Build, range)?,
        JobKind::Refresh => wanted(&cube, BuildAction::Refresh, range)?,
        JobKind::Merge => wanted(&cube, BuildAction::Merge, range)?,
        JobKind::AutoRefresh if !is_due(&cube) => Vec::new(),
        JobKind::AutoRefresh => wanted(&cube, BuildAction::Build, None)?,
    };
    if works.is_empty() {
        return Ok(());
    }
    let progress = Arc::new(Progress::new(record(engine, &cube, wish.kind, &works).await?));
    let Some(listed) = engine.builds.start(&progress) else {
        end(engine, &progress, &Err(busy(name))).await;
        return Err(busy(name));
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
    let ending = EndJob::new(engine, &progress);
    let range = range_of_all(&works);
    let maker =
        Maker { engine: Arc::clone(engine), name: wish.name, context, range, survey: Mutex::default() };
    let work = async move {
        let _listed = listed;
        maker.make_all(works).await
    };
    let mut work = AbortOnDrop(engine.threads.patient().spawn(work));
    let outcome = tokio::select! {
        biased;
        () = progress.cancelled() => {
            work.stop().await;
            let message = format!("job {} was cancelled", progress.entry().id.0);
            Err(QueryError::new(ErrorKind::Cancelled, message))
        }
        outcome = work.joined() => outcome,
    };
    ending.finish(&outcome).await;
    outcome
}

pub(super) fn busy(name: &QualifiedName) -> QueryError {
    QueryError::new(ErrorKind::InUse, format!("cube `{name}` is being built or altered already"))
        .hint("wait for that build, or end it with CANCEL JOB; SHOW JOBS tells how far it is")
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

fn check_idle(engine: &Engine, name: &QualifiedName) -> Result<()> {
    let running = engine.build_progress().iter().any(|job| job.cube == *name);
    if running { Err(busy(name)) } else { Ok(()) }
}

/// Makes the segments of one job.
pub(super) struct Maker {
    pub(super) engine: Arc<Engine>,
    pub(super) name: QualifiedName,
    pub(super) context: BuildContext,
    /// Has the rows of every segment that is to be built.
    range: SegmentRange,
    /// What was found out about these rows, with the files they lay in then.
    survey: Mutex<Option<(Vec<SourceFiles>, Arc<Survey>)>>,
}

impl Maker {
    /// What holds of all rows of the job, looked at once as long as their files stay.
    async fn surveyed(&self, cube: &ReadyCube) -> Result<Arc<Survey>> {
        let now = sources(&self.engine, cube, self.range)?;
        let mut known = self.survey.lock().await;
        if let Some((files, survey)) = known.as_ref()
            && *files == now
        {
            return Ok(Arc::clone(survey));
        }
        let survey = Arc::new(survey(cube, self.range, &self.context).await?);
        *known = Some((now, Arc::clone(&survey)));
        Ok(survey)
    }

    /// One segment after the other, then what the cube's options ask for.
    async fn make_all(&self, works: Vec<Work>) -> Result<()> {
        for work in works {
            self.make(&work).await?;
        }
        upkeep::after_build(self).await
    }

    /// One segment. Failures of the moment are waited out.
    pub(super) async fn make(&self, work: &Work) -> Result<()> {
        let retries = self.engine.build_config.retries;
        let mut dice = Dice::new();
        for attempt in 0.. {
            let mark = self.context.progress.mark();
            match self.attempt(work, attempt, attempt < retries).await {
                Err(error) if error.transient && attempt < retries => {
                    let wait = wait_before(attempt + 1, &mut dice);
                    tracing::warn!(cube = %self.name, %error, ?wait, "a build failed for the moment");
                    self.context.progress.retry(mark, &error);
                    tokio::time::sleep(wait).await;
                    self.engine.refresh().await?;
                }
                outcome => return outcome,
            }
        }
        Ok(())
    }

    async fn attempt(&self, work: &Work, attempt: u32, again: bool) -> Result<()> {
        let engine = &self.engine;
        let cube = find(engine, &self.name)?;
        let range = work.range();
        let revision = cube.entry.definition.revision;
        let sources = sources(engine, &cube, range)?;
        let mut wanted = WantedSegment { range, sources, revision, attempt, again };
        let made = self.carry_out(work, &cube, &mut wanted).await;
        match made {
            // Whatever went wrong, this is the cause.
            Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Unreadable) => {
                check_unchanged(engine, &cube, &wanted).await.map_err(|changed| match changed.transient {
                    true => error.clone(),
                    false => changed,
                })?;
                Err(error)
            }
            made => made,
        }?;
        engine.refresh().await
    }

    async fn carry_out(&self, work: &Work, cube: &ReadyCube, wanted: &mut WantedSegment) -> Result<()> {
        let (engine, context) = (&self.engine, &self.context);
        let built = match work {
            Work::Build(_) => build(cube, wanted, self.surveyed(cube).await?.as_ref(), context).await?,
            Work::Merge(_, ids) => {
                let segments: Vec<SegmentEntry> =
                    cube.entry.segments.iter().filter(|s| ids.contains(&s.id)).cloned().collect();
                merge(cube, wanted, &segments, context).await?
            }
            Work::Extend(_, id) => {
                let segment = cube.entry.segments.iter().find(|segment| segment.id == *id);
                let segment = segment.ok_or_else(|| QueryError::internal("a segment is gone"))?;
                // New cells must come from the rows that the others came from.
                wanted.sources.clone_from(&segment.sources);
                return extend(cube, segment, context, check_unchanged(engine, cube, wanted)).await;
            }
        };
        check_unchanged(engine, cube, wanted).await?;
        built.publish().await
    }
}

/// Waits grow, and are never quite the same: jobs that failed together do not come back together.
fn wait_before(attempt: u32, dice: &mut Dice) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(5_u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST_WAIT);
    let percent = 80 + u32::try_from(dice.below(40)).unwrap_or_default();
    wait * percent / 100
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

fn sources(engine: &Engine, cube: &ReadyCube, range: SegmentRange) -> Result<Vec<SourceFiles>> {
    let compiled = cube.compiled.as_ref().map_err(QueryError::internal)?;
    fingerprints(&cube.entry, compiled, engine.context().listings(), range).map_err(|table| {
        QueryError::new(ErrorKind::Unreadable, format!("the files of table `{table}` could not be listed"))
    })
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

fn missing(name: &QualifiedName, snapshot: &nyala_model::CatalogSnapshot) -> QueryError {
    let names: Vec<&str> = snapshot.cubes.keys().map(|cube| cube.name.as_str()).collect();
    let error = QueryError::new(ErrorKind::UndefinedTable, format!("cube `{name}` does not exist"));
    match nyala_model::suggest::nearest(&name.name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("SHOW CUBES lists the cubes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut dice = Dice::new();
        for (attempt, seconds) in [(1, 1.0), (2, 5.0), (3, 25.0), (4, 125.0), (20, 125.0)] {
            let wait = wait_before(attempt, &mut dice).as_secs_f64();
            assert!((0.8..1.2).contains(&(wait / seconds)), "{attempt}: {wait}");
        }
    }
}
