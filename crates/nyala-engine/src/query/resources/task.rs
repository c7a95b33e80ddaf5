//! A large piece of work of one statement, which ends with it.

use std::future::Future;
use std::sync::Arc;

use nyala_runtime::{Reason, Scope, Work};
use nyala_sql::error::{QueryError, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::threads::Threads;

/// Work on the threads of large statements. Dropping this ends it: at once if it waits; if it computes, at
/// the next batch, row or pair, where its operators ask.
pub struct Task<T> {
    handle: JoinHandle<Result<T>>,
    account: Arc<Work>,
}

impl<T: Send + 'static> Task<T> {
    /// Begins small `work` on `handle`, for the scope of a statement that is not large.
    pub fn spawn_on(handle: &Handle, work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self { handle: handle.spawn(work), account: Arc::default() }
    }

    /// Begins `work` in `scope`.
    pub fn spawn(
        threads: &Threads,
        scope: Scope,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self {
        let account = Arc::clone(scope.work());
        Self { handle: threads.spawn_large(scope, work), account }
    }

    /// Waits for the outcome of the work.
    pub async fn join(mut self) -> Result<T> {
        self.joined().await
    }

    /// As [`Self::join`]; `lost` is the error of work that was dropped with its threads.
    pub async fn join_or(mut self, lost: impl FnOnce() -> QueryError) -> Result<T> {
        match (&mut self.handle).await {
            Err(error) if error.is_cancelled() => Err(lost()),
            done => done.map_err(QueryError::internal)?,
        }
    }

    /// As [`Self::join`], for a caller that may stop waiting and end the work with [`Self::stop`].
    pub async fn joined(&mut self) -> Result<T> {
        (&mut self.handle).await.map_err(QueryError::internal)?
    }

    /// Stops the work, and waits until its resources are free.
    pub async fn stop(mut self) {
        self.end();
        // The work was stopped or had ended; both are fine.
        let _ = (&mut self.handle).await;
    }
}

impl<T> Task<T> {
    /// Ends the work unless it is finished: then the statement goes on with the account.
    fn end(&self) {
        if !self.handle.is_finished() {
            self.account.end(Reason::Cancelled);
            self.handle.abort();
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use nyala_sql::error::ErrorKind;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).build().unwrap()
    }

    #[test]
    fn work_that_is_dropped_with_its_threads_ends_with_the_error_of_its_caller() {
        let (here, threads) = (runtime(), runtime());
        let lost = || QueryError::new(ErrorKind::Unconfirmed, "it stopped");
        let dropped = Task::<()>::spawn_on(threads.handle(), std::future::pending());
        let panicked = Task::<()>::spawn_on(here.handle(), async { panic!("a fault") });
        threads.shutdown_background();
        assert_eq!(here.block_on(dropped.join_or(lost)).unwrap_err().kind, ErrorKind::Unconfirmed);
        assert_eq!(here.block_on(panicked.join_or(lost)).unwrap_err().kind, ErrorKind::Internal);
        let done = Task::spawn_on(here.handle(), async { Ok(7) });
        assert_eq!(here.block_on(done.join_or(lost)).unwrap(), 7);
    }
}
