//! Jobs: recorded when they begin and end, listed by `SHOW JOBS` and ended by `CANCEL JOB` meanwhile.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::ReadyCube;
use nyala_cube::cube::build::{Progress, Work, needs_rows, now_ms};
use nyala_model::{JobEntry, JobId, JobKind, JobState, KeySet, NodeId, SegmentRange, SegmentState};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::nodes::ControlAction;

/// First wait before the end of a job is recorded again; it doubles up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// How often a job is looked for whose beginning was not confirmed, over a minute: the database may add it late.
const LOOKS: u32 = 6;

/// Adds a running job to the catalog. Its end is recorded in any case, also if the statement is dropped
/// while the job is being added.
pub async fn begin(
    engine: &Arc<Engine>,
    cube: &Arc<ReadyCube>,
    kind: JobKind,
    works: &[Work],
) -> Result<EndJob> {
    let (owner, cube, works) = (Arc::clone(engine), Arc::clone(cube), works.to_vec());
    let begun = async move {
        let progress = Arc::new(Progress::new(record(&owner, &cube, kind, &works).await?));
        Ok(EndJob { engine: owner, progress, done: false })
    };
    engine.runtime.background.complete(begun).await
}

async fn record(engine: &Arc<Engine>, cube: &ReadyCube, kind: JobKind, works: &[Work]) -> Result<JobEntry> {
    let (name, started_at_ms) = (&cube.entry.name, now_ms());
    let definition = &cube.entry.definition;
    let cuboids = works.iter().map(|work| match work {
        Work::Build(_) | Work::Merge(..) => definition.grouping_sets.len(),
        Work::Empty(_) => 0,
        Work::Extend(_, id) => {
            let segment = cube.entry.segments.iter().find(|segment| segment.id == *id);
            segment.map_or(0, |segment| definition.outstanding(segment).len())
        }
    });
    let cuboids_total = u32::try_from(cuboids.sum::<usize>()).unwrap_or(u32::MAX);
    let job = JobEntry {
        id: JobId(0),
        kind,
        cube: name.clone(),
        state: JobState::Running,
        rows_read: 0,
        rows_total: rows_to_read(cube, works),
        cuboids_done: 0,
        cuboids_total,
        bytes_written: 0,
        started_at_ms,
        ended_at_ms: None,
        retries: 0,
        error: None,
        node: engine.node.clone(),
    };
    let catalog = engine.snapshots.catalog();
    match catalog.create_job(kind, name, cuboids_total, &engine.node, started_at_ms).await {
        Ok(id) => Ok(JobEntry { id, ..job }),
        Err(error) => {
            if catalog.is_shared() {
                engine.runtime.background.spawn(end_if_added(Arc::downgrade(engine), job));
            }
            Err(error.into())
        }
    }
}

/// Ends a job that was not begun because the catalog did not confirm that it was added. If it was added and only the answer was lost, the
/// job would be listed as running for as long as this node lives.
async fn end_if_added(engine: Weak<Engine>, job: JobEntry) {
    let (mut delay, mut looks) = (FIRST_RETRY, 0);
    while looks < LOOKS {
        tokio::time::sleep(delay).await;
        let Some(engine) = engine.upgrade() else { return };
        match end_added(&engine, &job).await {
            Ok(true) => return,
            Ok(false) => looks += 1,
            Err(error) => tracing::warn!(cube = %job.cube, %error, "a job may stay listed as running"),
        }
        delay = (delay * 2).min(MAX_RETRY);
    }
}

/// Ends the job in the catalog that equals `begun` but for its id. Returns whether there is one.
async fn end_added(engine: &Engine, begun: &JobEntry) -> Result<bool> {
    let running = engine.build_progress();
    let is_it = |job: &JobEntry| {
        let is_known = running.iter().any(|known| known.id == job.id);
        let as_it_began = JobEntry { id: job.id, rows_total: job.rows_total, ..begun.clone() };
        !is_known && *job == as_it_began
    };
    let catalog = engine.snapshots.catalog();
    let Some(mut job) = catalog.jobs().await?.into_iter().find(is_it) else { return Ok(false) };
    tracing::warn!(job = job.id.0, "a job is in the catalog that was not confirmed, and not begun");
    job.state = JobState::Failed;
    job.ended_at_ms = Some(now_ms());
    job.error = Some("it was not begun: the catalog's database did not confirm it; run it again".to_owned());
    catalog.update_job(&job).await?;
    Ok(true)
}

/// Estimate of the rows to read, from the files of the fact table and from earlier builds.
fn rows_to_read(cube: &ReadyCube, works: &[Work]) -> u64 {
    let (mut keys, mut nulls, mut rows) = (KeySet::default(), false, 0_u64);
    for work in works {
        match work {
            Work::Build(SegmentRange::Keys(range) | SegmentRange::Written(range)) => {
                keys = keys.union(&(*range).into());
            }
            Work::Build(SegmentRange::Nulls) => nulls = true,
            Work::Build(SegmentRange::Whole) => {
                let before = cube.entry.segments.iter().filter(|s| s.state == SegmentState::Ready);
                rows = rows.saturating_add(before.map(|segment| segment.source_rows).sum());
            }
            Work::Extend(_, id) => {
                let segment = cube.entry.segments.iter().find(|segment| segment.id == *id);
                let read = segment.filter(|segment| needs_rows(&cube.entry.definition, segment));
                rows = rows.saturating_add(read.map_or(0, |segment| segment.source_rows));
            }
            Work::Empty(_) | Work::Merge(..) => {}
        }
    }
    rows.saturating_add(if keys.is_empty() && !nulls { 0 } else { cube.coverage.rows(&keys, nulls) })
}

/// Records how a job ended, also when its statement is dropped half-way.
pub struct EndJob {
    engine: Arc<Engine>,
    progress: Arc<Progress>,
    done: bool,
}

impl EndJob {
    /// Progress of the job.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub async fn finish(mut self, outcome: &Result<()>) {
        self.done = true;
        let (engine, progress) = (Arc::clone(&self.engine), Arc::clone(&self.progress));
        let outcome = outcome.clone();
        let recorded = async move {
            end(&engine, &progress, &outcome).await;
            Ok(())
        };
        // The end is recorded even if the statement stops waiting for it.
        if let Err(error) = self.engine.runtime.background.complete(recorded).await {
            tracing::warn!(%error, "the end of a job is not recorded");
        }
    }
}

impl Drop for EndJob {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (engine, progress) = (Arc::clone(&self.engine), Arc::clone(&self.progress));
        let background = self.engine.runtime.background.clone();
        background.finish(async move { end(&engine, &progress, &Err(QueryError::cancelled())).await });
    }
}

async fn end(engine: &Arc<Engine>, progress: &Progress, outcome: &Result<()>) {
    let mut job = progress.entry();
    job.ended_at_ms = Some(now_ms());
    job.state = match outcome {
        Ok(()) => JobState::Done,
        Err(error) if error.kind == ErrorKind::Cancelled => JobState::Cancelled,
        Err(_) => JobState::Failed,
    };
    job.error = outcome.as_ref().err().map(ToString::to_string);
    engine.building.jobs.count(&job);
    if let Err(error) = engine.snapshots.catalog().update_job(&job).await {
        tracing::warn!(job = job.id.0, %error, "the end of a job is not recorded yet");
        engine.building.jobs.hold(job.clone());
        engine.runtime.background.spawn(record_later(Arc::downgrade(engine), job));
    }
    if let Err(error) = engine.snapshots.catalog().forget_jobs(engine.building.config.keep_jobs).await {
        tracing::warn!(%error, "old jobs stay listed");
    }
}

/// Retries until the end of a job is recorded: the job and the catalog write may have failed for the same
/// reason, such as a full disk.
async fn record_later(engine: Weak<Engine>, job: JobEntry) {
    let mut delay = FIRST_RETRY;
    loop {
        tokio::time::sleep(delay).await;
        let Some(engine) = engine.upgrade() else { return };
        match engine.snapshots.catalog().update_job(&job).await {
            Ok(()) => return engine.building.jobs.release(job.id),
            Err(error) => tracing::warn!(job = job.id.0, %error, "the end of a job is not recorded yet"),
        }
        delay = (delay * 2).min(MAX_RETRY);
    }
}

impl Engine {
    /// All jobs, newest first, the running ones as they stand now.
    pub async fn jobs(&self) -> Result<Vec<JobEntry>> {
        let mut now = self.build_progress();
        now.extend(self.building.jobs.held());
        let stored = self.catalog().jobs().await?;
        // The stored entry of a job that runs, or ended a moment ago, may only say that it began.
        let current = |job: JobEntry| now.iter().find(|n| n.id == job.id).cloned().unwrap_or(job);
        Ok(stored.into_iter().map(current).collect())
    }

    /// The other node that runs a job, if one does.
    async fn other_node_of(&self, id: JobId) -> Result<Option<NodeId>> {
        if !self.catalog().is_shared() || self.build_progress().iter().any(|job| job.id == id) {
            return Ok(None);
        }
        let job = self.catalog().jobs().await?.into_iter().find(|job| job.id == id);
        let running = job.filter(|job| job.state == JobState::Running);
        Ok(running.map(|job| job.node).filter(|node| !self.node.owns(node)))
    }

    /// Cancels a running job of this node. Segments it has published stay.
    ///
    /// # Errors
    /// [`ErrorKind::UndefinedObject`] if the job does not exist, [`ErrorKind::InvalidParameter`] if it
    /// has ended already.
    pub async fn cancel_job(&self, id: JobId) -> Result<()> {
        if self.building.jobs.cancel(id) {
            return Ok(());
        }
        let job = self.catalog().jobs().await?.into_iter().find(|job| job.id == id);
        Err(match job {
            Some(job) if job.state == JobState::Running => {
                let message = format!("job {} is about to begin or to end on node `{}`", job.id.0, job.node);
                QueryError::new(ErrorKind::InvalidParameter, message)
                    .hint("SHOW JOBS tells its state; cancel it again if it goes on")
            }
            Some(job) => {
                let message = format!("job {} has ended already: it is {}", id.0, job.state.word());
                QueryError::new(ErrorKind::InvalidParameter, message)
            }
            None => QueryError::new(ErrorKind::UndefinedObject, format!("job {} does not exist", id.0))
                .hint("SHOW JOBS lists the jobs"),
        })
    }
}

/// `SHOW JOBS`.
pub struct ShowJobs;

impl Command for ShowJobs {
    fn schema(&self) -> Option<SchemaRef> {
        Some(jobs_schema())
    }

    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let rows = jobs(execution.engine()).await?;
            Ok(execution.rows(rows))
        }
        .boxed()
    }
}

/// Fails unless the caller may cancel a job of this node, which takes the right to build the cube. Only superusers may name a job that
/// does not run.
pub fn may_cancel(caller: &Caller<'_>, job: u64) -> Result<()> {
    match caller.engine.build_progress().into_iter().find(|running| running.id.0 == job) {
        Some(running) => caller.may_build(running.cube),
        None => caller.require_superuser("cancelling a job that does not run"),
    }
}

/// `CANCEL JOB number`.
pub struct CancelJob(pub u64);

impl Command for CancelJob {
    fn authorize(&self, _: &Caller<'_>) -> Result<()> {
        // The rights are checked by the node that runs the job, which is not known yet.
        Ok(())
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let (engine, session) = (execution.engine(), execution.session);
            match engine.other_node_of(JobId(self.0)).await? {
                Some(node) => {
                    let identity = &session.options().identity;
                    engine.ask(&node, ControlAction::CancelJob(JobId(self.0)), identity).await?;
                }
                None => {
                    if let Some(caller) = Caller::of(session, &execution.settings) {
                        may_cancel(&caller, self.0)?;
                    }
                    engine.cancel_job(JobId(self.0)).await?;
                }
            }
            Ok(Completion::of("CANCEL JOB"))
        }
        .boxed()
    }
}

/// Columns of `SHOW JOBS`.
pub fn jobs_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        number("job"),
        text("kind"),
        text("cube"),
        text("state"),
        number("rows_read"),
        number("cuboids_done"),
        number("cuboids_total"),
        number("bytes_written"),
        time("started_at"),
        time("ended_at"),
        text("error"),
        number("rows_total"),
        number("percent"),
        number("seconds_left"),
        number("retries"),
        text("node"),
    ]))
}

/// Every job, the newest first.
pub async fn jobs(engine: &Engine) -> Result<RecordBatch> {
    let jobs = engine.jobs().await?;
    let now = now_ms();
    let cubes: Vec<String> = jobs.iter().map(|job| job.cube.to_string()).collect();
    let columns: Vec<ArrayRef> = vec![
        numbers(jobs.iter().map(|job| Some(job.id.0))),
        texts(jobs.iter().map(|job| Some(job.kind.word()))),
        texts(cubes.iter().map(|cube| Some(cube.as_str()))),
        texts(jobs.iter().map(|job| Some(job.state.word()))),
        numbers(jobs.iter().map(|job| Some(job.rows_read))),
        numbers(jobs.iter().map(|job| Some(job.cuboids_done.into()))),
        numbers(jobs.iter().map(|job| Some(job.cuboids_total.into()))),
        numbers(jobs.iter().map(|job| Some(job.bytes_written))),
        times(jobs.iter().map(|job| Some(job.started_at_ms))),
        times(jobs.iter().map(|job| job.ended_at_ms)),
        texts(jobs.iter().map(|job| job.error.as_deref())),
        numbers(jobs.iter().map(|job| Some(job.rows_total).filter(|rows| *rows > 0))),
        numbers(jobs.iter().map(|job| Some(job.percent().into()))),
        numbers(jobs.iter().map(|job| job.remaining_ms(now).map(|ms| ms / 1000))),
        numbers(jobs.iter().map(|job| Some(job.retries.into()))),
        texts(jobs.iter().map(|job| Some(job.node.0.as_str()).filter(|node| !node.is_empty()))),
    ];
    batch(jobs_schema(), columns)
}
