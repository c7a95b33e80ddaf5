//! Makes segments for the job of another node.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use nyala_cube::cube::build::{Counts, Progress, now_ms};
use nyala_model::{JobEntry, JobKind, JobState, QualifiedName};
use nyala_runtime::Scope;
use nyala_sql::error::Result;
use tokio_util::sync::CancellationToken;

use super::divide::make_here;
use crate::query::activity::Running;
use crate::query::engine::{Engine, Observed};
use crate::query::fragments::Stopping;
use crate::query::nodes::{BuildUnit, check_version, not_reached};
use crate::query::options::SessionOptions;
use crate::query::resources::task::Task;

/// How often the node that runs the job is told how far its unit is.
const TELL: Duration = Duration::from_millis(500);

/// A unit that is being made. Dropping it ends the work.
struct Making {
    work: Task<()>,
    progress: Arc<Progress>,
    cancel: CancellationToken,
    stopping: Stopping,
    running: Running,
}

impl Drop for Making {
    fn drop(&mut self) {
        // The node that runs the job counts and logs the statement.
        self.running.listed().hand_over();
    }
}

impl Engine {
    /// Makes the segments of a unit for the job of another node. The stream tells every half second how much is done, and ends when the
    /// unit is complete. Dropping the stream ends the work.
    ///
    /// # Errors
    /// This node is stopping, runs another version, or does not know the catalog of the job. The stream fails as the build does.
    pub async fn build_unit(self: &Arc<Self>, unit: BuildUnit) -> Result<BoxStream<'static, Result<Counts>>> {
        self.check_takes_work()?;
        check_version(&self.node, &unit.node, &unit.program)?;
        // Counted as a node that is not reached: the unit is given to another node, which may know the catalog already.
        let known = self.catch_up(unit.version).await;
        known.map_err(|error| not_reached(&self.node, &error.message))?;
        let options = SessionOptions { sent_by: Some(unit.node.clone()), ..SessionOptions::default() };
        let session = self.session(options);
        let cancel = self.runtime.stopping.child_token();
        let Observed { counters, registry, .. } = &self.observed;
        let text = format!("{} of job {} */", unit_text(&unit.cube), unit.job.0);
        let running = Running::begin(counters, registry, &text, session.options(), cancel.clone());
        running.entry().waits_for_build();
        let progress = Arc::new(Progress::new(job_of(&unit)));
        let (engine, counting) = (Arc::clone(self), Arc::clone(&progress));
        let work = async move { make_here(&engine, &unit, unit.permit(), counting).await };
        let work = Task::spawn(&self.runtime.threads, Scope::new(Arc::default()), work);
        let making = Making { work, progress, cancel, stopping: self.stopping(), running };
        Ok(stream::unfold(Some(making), tell).boxed())
    }
}

/// The beginning of the text by which units of a cube are listed.
pub fn unit_text(cube: &QualifiedName) -> String {
    format!("BUILD CUBE {cube} /* segments")
}

/// The next report, and the unit if it goes on.
async fn tell(making: Option<Making>) -> Option<(Result<Counts>, Option<Making>)> {
    let mut making = making?;
    let outcome = tokio::select! {
        biased;
        outcome = making.work.joined() => outcome,
        () = making.cancel.cancelled() => Err(making.stopping.reason()),
        () = tokio::time::sleep(TELL) => return Some((Ok(making.progress.counts()), Some(making))),
    };
    let counts = making.progress.counts();
    Some((outcome.map(|()| counts), None))
}

/// The job as this node counts it, with this unit only; the catalog has the whole job.
fn job_of(unit: &BuildUnit) -> JobEntry {
    JobEntry {
        id: unit.job,
        kind: JobKind::Build,
        cube: unit.cube.clone(),
        state: JobState::Running,
        rows_read: 0,
        rows_total: 0,
        cuboids_done: 0,
        cuboids_total: 0,
        bytes_written: 0,
        started_at_ms: now_ms(),
        ended_at_ms: None,
        retries: 0,
        error: None,
        node: unit.node.clone(),
    }
}
