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
    /// Segments that are being deleted or published: the catalog still has their old state, and no build may
    /// take them up.
    abandoned: Arc<Mutex<BTreeSet<SegmentId>>>,
    /// Segments that wait for the next attempt of a build that runs.
    left: Arc<Mutex<BTreeSet<SegmentId>>>,
    /// Held shared while replaced files are deleted, and exclusively by a backup, which copies all files that
    /// the catalog names.
    deleting: Arc<RwLock<()>>,
}

impl Background {
    /// Jobs on the threads of `runtime`.
    pub fn new(runtime: Handle) -> Self {
        let (abandoned, left) = (Arc::default(), Arc::default());
        Self { runtime, tasks: TaskTracker::new(), abandoned, left, deleting: Arc::default() }
    }

    /// Forbids builds to take up a segment.
    pub(super) fn abandon(&self, segment: SegmentId) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).insert(segment);
    }

    /// Notes that an abandoned segment has been deleted or published.
    pub(super) fn settle(&self, segment: SegmentId) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }

    /// Segments that no build may take up. Callers read this set before the catalog: the catalog then has the
    /// final state of every segment that has left the set.
    pub(super) fn abandoned(&self) -> BTreeSet<SegmentId> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a segment waits for the next attempt.
    pub(super) fn leave(&self, segment: SegmentId) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(segment);
    }

    /// Ends the wait of a segment for the next attempt; false if it did not wait.
    pub(super) fn take_up(&self, segment: SegmentId) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment)
    }

    /// Runs `work` to its end, even if the waiting task is stopped meanwhile.
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

    /// Deletes by `work` after `delay` and when no query reads the files, unless the process ends before.
    pub fn later(
        &self,
        delay: Duration,
        unread: impl Future<Output = ()> + Send + 'static,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let deleting = Arc::clone(&self.deleting);
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            unread.await;
            let _held = deleting.read().await;
            work.await;
        });
    }

    /// No replaced file is deleted while the guard is held.
    pub async fn keep_files(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.deleting).write_owned().await
    }

    /// Waits until all tasks are finished, at most `grace`.
    pub async fn finished(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!("clean-up of a build was cut short; the next start completes it");
        }
    }
}
