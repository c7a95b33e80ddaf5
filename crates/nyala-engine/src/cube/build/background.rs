//! Work that outlives the statement that caused it.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Where clean-up after a failed or cancelled build runs. A stop waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    runtime: Handle,
    tasks: TaskTracker,
}

impl Background {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: TaskTracker::new() }
    }

    /// Runs `work` to its end, also while the engine is stopping.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Runs `work` after `delay`, unless the process ends before.
    pub(crate) fn later(&self, delay: Duration, work: impl FnOnce() + Send + 'static) {
        self.runtime.spawn(async move {
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
