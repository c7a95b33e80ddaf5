//! Work that changes a disk store and the catalog, both or neither of them.
//!
//! ```text
//! statement ──work──▶ background:  waits for its turn ──begin?──▶ changes ──outcome──▶
//!     ▲                                                    │                       │
//!     └────────────── yes, and from now on it waits ◀──────┘                       │
//!     └────────────────────────────────────────────────────────────────────────────┘
//! ```

use nyala_cube::cube::build::Background;
use nyala_sql::error::{QueryError, Result};
use tokio::sync::oneshot;

use crate::query::deadline::Deadline;
use crate::query::execution::Execution;

/// The statement that asked for work, as the work sees it: the work may outlive it.
pub struct Asked {
    begins: oneshot::Sender<()>,
    may_begin: oneshot::Receiver<()>,
}

impl Asked {
    /// Fails if the statement no longer waits.
    pub fn check(&self) -> Result<()> {
        if self.begins.is_closed() { Err(QueryError::cancelled()) } else { Ok(()) }
    }

    /// Called before the first change. Fails if the statement no longer waits; otherwise it waits from now on
    /// for the outcome of the work, also if it has to end.
    pub async fn begin(self) -> Result<()> {
        self.begins.send(()).map_err(|()| QueryError::cancelled())?;
        self.may_begin.await.map_err(|_| QueryError::cancelled())
    }
}

/// Runs work that changes a store and the catalog. A statement cancelled before the first change ends at
/// once. Work that has begun is completed, since half of it would leave store and catalog different.
pub async fn dual_write<T, F>(execution: &Execution<'_>, work: impl FnOnce(Asked) -> F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let engine = execution.engine();
    dual_write_on(&engine.runtime.background, &execution.deadline, work).await
}

pub async fn dual_write_on<T, F>(
    background: &Background,
    deadline: &Deadline,
    work: impl FnOnce(Asked) -> F,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let ((begins, begun), (allow, may_begin)) = (oneshot::channel(), oneshot::channel());
    let work = work(Asked { begins, may_begin });
    let (sender, outcome) = oneshot::channel();
    background.finish(async move {
        // Fails if the statement no longer waits.
        let _ = sender.send(work.await);
    });
    let done = match begun.await {
        // The permission is sent by the first poll of the wait itself: a statement that ends before that has allowed nothing.
        Ok(()) => {
            let changing = async move {
                // Fails if the work has ended already, and then there is an outcome.
                let _ = allow.send(());
                outcome.await
            };
            deadline.hand_over(changing).await
        }
        // The work ends without having asked to begin, and so without a change.
        Err(_) => outcome.await,
    };
    done.map_err(|_| QueryError::internal("work on a disk store ended early"))?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use tokio::runtime::Handle;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use nyala_sql::error::ErrorKind;

    fn deadline() -> Deadline {
        Deadline::new(CancellationToken::new(), Arc::default(), None)
    }

    #[tokio::test]
    async fn what_is_given_up_before_it_begins_is_not_done() {
        let background = Background::new(Handle::current());
        let deadline = deadline();
        let (turn, has_turn) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = |asked: Asked| async move {
            has_turn.await.unwrap();
            let checked = asked.check().is_ok();
            tell.send((checked, asked.begin().await.is_ok())).unwrap();
            Ok(())
        };
        let end = async {
            tokio::task::yield_now().await;
            deadline.token().cancel();
        };
        let (ended, ()) = tokio::join!(deadline.within(dual_write_on(&background, &deadline, work)), end);
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled);
        turn.send(()).unwrap();
        assert_eq!(told.await.unwrap(), (false, false), "nothing may be changed");
    }

    #[tokio::test]
    async fn what_has_begun_is_reported_as_what_became_of_it() {
        let background = Background::new(Handle::current());
        let deadline = deadline();
        let (change, changed) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = |asked: Asked| async move {
            asked.begin().await?;
            tell.send(()).unwrap();
            changed.await.unwrap();
            Ok(7)
        };
        let end = async {
            told.await.unwrap();
            deadline.token().cancel();
            // Lets the statement notice that it was cancelled.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            change.send(()).unwrap();
        };
        let (done, ()) = tokio::join!(deadline.within(dual_write_on(&background, &deadline, work)), end);
        assert_eq!(done.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_changes_nothing_has_its_outcome() {
        let background = Background::new(Handle::current());
        let work = |asked: Asked| async move {
            asked.check()?;
            Ok(8)
        };
        assert_eq!(deadline().within(dual_write_on(&background, &deadline(), work)).await.unwrap(), 8);
    }
}
