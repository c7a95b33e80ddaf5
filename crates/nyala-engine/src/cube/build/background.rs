//! Work that outlives the statement that caused it.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nyala_model::SegmentId;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Where clean-up after a failed or cancelled build runs. A stop waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    tasks: TaskTracker,
    /// Segments that are being deleted: they are still in the catalog, and nobody may take them up.
    abandoned: Arc<Mutex<BTreeSet<SegmentId>>>,
}

impl Background {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: TaskTracker::new(), abandoned: Arc::default() }
    }

    /// Marks a segment as being deleted.
    pub(super) fn abandon(&self, segment: SegmentId) {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).insert(segment);
    }

    /// Whether a segment is being deleted.
    pub(super) fn is_abandoned(&self, segment: SegmentId) -> bool {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).contains(&segment)
    }

    /// Runs `work` to its end, also while the engine is stopping.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Runs `work`, unless the process ends before.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Runs `work` after `delay`, unless the process ends before.
    pub(crate) fn later(&self, delay: Duration, work: impl FnOnce() + Send + 'static) {
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            work();
        });
    }

    /// Waits until nothing is left to finish, at most `grace`.
    pub(crate) async fn finished(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!("clean-up of a build was cut short; the next start completes it");
        }
    }
}
