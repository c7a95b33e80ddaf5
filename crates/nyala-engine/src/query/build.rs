//! `BUILD CUBE` as a job.

use std::sync::Arc;

use datafusion::execution::{SessionState, SessionStateBuilder};
use nyala_model::{JobEntry, JobKind, JobState, QualifiedName};

use super::answer::{Answer, Completion};
use super::engine::Engine;
use super::explain::AbortOnDrop;
use crate::cube::ReadyCube;
use crate::cube::build::{BuildContext, Progress, build, now_ms};
use crate::error::{ErrorKind, QueryError, Result};
use crate::session::Settings;

/// Builds `name` anew and makes the result visible. Cancelling the statement cancels the build.
pub(super) async fn run(engine: &Arc<Engine>, name: QualifiedName, settings: &Settings) -> Result<Answer> {
    let context = engine.context();
    let snapshot = context.snapshot();
    let entry = snapshot.cubes.get(&name).ok_or_else(|| missing(&name, snapshot))?;
    let cube = context.cubes().find(entry).ok_or_else(|| QueryError::internal("a cube was not opened"))?;
    let busy = || {
        QueryError::new(ErrorKind::InUse, format!("cube `{name}` is being built already"))
            .hint("wait for that build; SHOW JOBS tells how far it is")
    };
    if engine.build_progress().iter().any(|job| job.cube == name) {
        return Err(busy());
    }
    let progress = Arc::new(Progress::new(record(engine, cube).await?));
    let Some(listed) = engine.builds.start(&progress) else {
        end(engine, &progress, &Err(busy())).await;
        return Err(busy());
    };
    let build_context = BuildContext {
        state: build_state(engine, context.state(settings)),
        catalog: Arc::clone(engine.catalog()),
        store: engine.stores().data()?,
        data_dir: engine.data_dir.clone(),
        config: engine.build_config.clone(),
        background: engine.background.clone(),
        progress: Arc::clone(&progress),
    };
    let ending = EndJob { engine: Arc::clone(engine), progress, done: false };
    let cube = Arc::clone(cube);
    let work = async move {
        let _listed = listed;
        build(&cube, &build_context).await
    };
    let done = AbortOnDrop(engine.threads.execution().spawn(work)).join().await;
    ending.finish(&done).await;
    done?;
    engine.refresh().await?;
    Ok(Completion::of("BUILD CUBE"))
}

/// Builds have memory of their own: they hold much at once, and the shares that a fair pool gives each
/// of their many operators would make them spill long before memory is short.
fn build_state(engine: &Engine, state: SessionState) -> SessionState {
    let runtime = Arc::clone(&engine.build_runtime);
    let mut state = SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime).build();
    *state.config_mut() = state.config().clone().with_batch_size(engine.build_config.batch_rows);
    state
}

async fn record(engine: &Engine, cube: &ReadyCube) -> Result<JobEntry> {
    let (name, started_at_ms) = (&cube.entry.name, now_ms());
    let cuboids_total = u32::try_from(cube.entry.definition.grouping_sets.len()).unwrap_or(u32::MAX);
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
