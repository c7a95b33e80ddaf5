//! Work that outlives the statement that caused it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nyala_model::SegmentId;
use nyala_sql::error::{QueryError, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio_util::task::TaskTracker;

/// Where clean-up after a failed or cancelled build runs. A stop waits for it.
#[derive(Debug, Clone)]
pub struct Background {
    runtime: Handle,
    tasks: TaskTracker,
    /// Segments that are being deleted or published: they are still in the catalog as they were, and nobody may take
    /// them up.
    abandoned: Arc<Mutex<BTreeSet<SegmentId>>>,
    /// Segments that wait for the next attempt of a build that runs.
    left: Arc<Mutex<BTreeSet<SegmentId>>>,
    /// Held by those who delete files that were replaced, and alone by who must find all that the catalog names.
    deleting: Arc<RwLock<()>>,
}

impl Background {
    /// Jobs on the threads of `runtime`.
    pub fn new(runtime: Handle) -> Self {
        let (abandoned, left) = (Arc::default(), Arc::default());
        Self { runtime, tasks: TaskTracker::new(), abandoned, left, deleting: Arc::default() }
    }

    /// Marks a segment that nobody may take up any more.
    pub(super) fn abandon(&self, segment: SegmentId) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).insert(segment);
    }

    /// What was to become of a segment that nobody may take up has become of it.
    pub(super) fn settle(&self, segment: SegmentId) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }

    /// Segments that nobody may take up. Who compares them with the catalog asks for that afterwards: what is not among
    /// them any more is there as it has become.
    pub(super) fn abandoned(&self) -> BTreeSet<SegmentId> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a segment waits for the next attempt.
    pub(super) fn leave(&self, segment: SegmentId) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(segment);
    }

    /// Whether a segment waited for the next attempt; it does no more.
    pub(super) fn take_up(&self, segment: SegmentId) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment)
    }

    /// Runs `work` to its end, also if whoever waits for it is stopped meanwhile.
    pub async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.tasks.spawn_on(work, &self.runtime).await.map_err(QueryError::internal)?
    }

    /// Runs `work` to its end, also while the engine is stopping.
    pub fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Runs `work`, unless the process ends before.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Deletes by `work` after `delay`, unless the process ends before.
    pub fn later(&self, delay: Duration, work: impl FnOnce() + Send + 'static) {
        let deleting = Arc::clone(&self.deleting);
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            let _held = deleting.read().await;
            work();
        });
    }

    /// While it is held no file is deleted that was replaced.
    pub async fn keep_files(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.deleting).write_owned().await
    }

    /// Waits until nothing is left to finish, at most `grace`.
    pub async fn finished(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!("clean-up of a build was cut short; the next start completes it");
        }
    }
}
