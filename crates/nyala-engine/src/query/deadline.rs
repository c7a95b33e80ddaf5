//! The time and the cancel tokens that end a statement.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio_util::sync::CancellationToken;

/// How long a statement that must end waits for the outcome of a change that is under way.
const CONFIRMATION: Duration = Duration::from_secs(10);

/// The time and the cancel tokens that end a statement. Copies belong to the same statement.
#[derive(Debug, Clone)]
pub struct Deadline(Arc<State>);

#[derive(Debug)]
struct State {
    /// Ends the statement at once.
    cancel: CancellationToken,
    /// Cancelled when the server stops, and `cancel` with it. Each session shares one copy: copying a token takes a
    /// lock, which all queries would otherwise share.
    stopping: Arc<CancellationToken>,
    /// Ends the statement when reached.
    at: Option<Instant>,
    /// The statement's changes that are under way.
    changes: AtomicUsize,
}

impl Deadline {
    /// The deadline of a statement that ends when `cancel` is cancelled, or at the time `at`.
    pub fn new(cancel: CancellationToken, stopping: Arc<CancellationToken>, at: Option<Instant>) -> Self {
        Self(Arc::new(State { cancel, stopping, at, changes: AtomicUsize::new(0) }))
    }

    /// The deadline of work that nothing ends early.
    pub fn never() -> Self {
        Self::new(CancellationToken::new(), Arc::default(), None)
    }

    /// A deadline with these tokens and without a time.
    pub fn without_time(&self) -> Self {
        Self::new(self.0.cancel.clone(), Arc::clone(&self.0.stopping), None)
    }

    /// Ends the statement when cancelled.
    pub fn token(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// Waits for a change that goes on, and has its effect, also if the statement ends meanwhile.
    pub async fn hand_over<T>(&self, change: impl Future<Output = T>) -> T {
        let _under_way = UnderWay::begin(&self.0.changes);
        change.await
    }

    /// The result of `work`, or the reason why it must end. Work that is ready at once is not interrupted. A change
    /// that was [handed over](Self::hand_over) is waited for a while, so that no client is told that rows were not
    /// written which were.
    pub async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        let mut work = pin!(work);
        let error = tokio::select! {
            biased;
            done = &mut work => return done,
            error = self.reached() => error,
        };
        if self.0.changes.load(Ordering::Relaxed) == 0 {
            return Err(error);
        }
        tokio::time::timeout(CONFIRMATION, work).await.unwrap_or_else(|_| Err(unconfirmed()))
    }

    /// The time that is left; none if there is no limit.
    pub fn left(&self) -> Option<Duration> {
        self.0.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Fails with the reason if the statement must have ended by now.
    pub fn check(&self) -> Result<()> {
        if self.0.cancel.is_cancelled() {
            return Err(self.cancelled());
        }
        match self.0.at {
            Some(at) if at <= Instant::now() => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// Waits until the statement must end; returns the reason.
    pub async fn reached(&self) -> QueryError {
        let reached = async {
            tokio::select! {
                () = self.0.cancel.cancelled() => self.cancelled(),
                () = self.passed() => timed_out(),
            }
        };
        // Unconstrained, because `work` may use up the task's cooperative budget at every poll.
        tokio::task::unconstrained(reached).await
    }

    fn cancelled(&self) -> QueryError {
        if self.0.stopping.is_cancelled() {
            return QueryError::new(ErrorKind::ShuttingDown, "the server stopped before the statement ended")
                .hint("connect again when it is back");
        }
        QueryError::cancelled()
    }

    async fn passed(&self) {
        match self.0.at {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

/// A change under way, until it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn unconfirmed() -> QueryError {
    let message =
        "the statement was to end while its change was being made, and whether it is made is not known yet";
    QueryError::new(ErrorKind::Unconfirmed, message).hint("look for the change before making it again")
}

fn timed_out() -> QueryError {
    QueryError::new(ErrorKind::Timeout, "statement took longer than `statement_timeout`")
        .hint("ask for less, or raise it with SET statement_timeout")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_change_that_was_handed_over_is_waited_for_and_all_else_ends() {
        let deadline = || Deadline::new(CancellationToken::new(), Arc::default(), None);
        let cancelled = deadline();
        cancelled.token().cancel();
        let refused = cancelled.within(async { Ok(()) }).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Cancelled, "it has not begun");

        let late = deadline();
        let (sender, receiver) = oneshot::channel();
        let work = late.within(async { Ok(late.hand_over(receiver).await.unwrap()) });
        let end = async {
            tokio::task::yield_now().await;
            late.token().cancel();
            tokio::time::sleep(Duration::from_millis(20)).await;
            sender.send(7).unwrap();
        };
        let (done, ()) = tokio::join!(work, end);
        assert_eq!(done.unwrap(), 7, "the change is made although the statement was cancelled");

        let after = deadline();
        let work = after.within(async {
            after.hand_over(async { tokio::task::yield_now().await }).await;
            std::future::pending::<Result<()>>().await
        });
        let end = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            after.token().cancel();
        };
        let (ended, ()) = tokio::join!(work, end);
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled, "the change was made before the cancel");
    }
}
