//! Running a physical plan on the query threads and streaming its rows to the client.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio_util::sync::CancellationToken;

use super::activity::{Entry, Phase, Running, fail};
use super::answer::{Answer, Batches, RowStream};
use super::history::Recording;
use super::resources::line::Slot;
use super::resources::threads::{Threads, from_panic};
use super::results::Source;

/// Batches computed ahead of the client.
const BATCHES_AHEAD: usize = 2;

/// How long a statement that must end waits for the outcome of a change that is under way.
const CONFIRMATION: Duration = Duration::from_secs(10);

thread_local! {
    /// Whether the future polled last on this thread waits for work of [`handed_over`].
    static HANDED_OVER: Cell<bool> = const { Cell::new(false) };
}

/// The time and the cancel tokens that end a statement.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    /// Ends the statement at once.
    pub(super) cancel: CancellationToken,
    /// Cancelled when the server stops, and `cancel` with it. Each session shares one copy: copying a token takes a
    /// lock, which all queries would otherwise share.
    pub(super) stopping: Arc<CancellationToken>,
    /// Ends the statement when reached.
    pub(super) at: Option<Instant>,
}

impl Deadline {
    /// The result of `work`, or the reason why it must end. Work that is ready at once is not interrupted. Work of
    /// [`handed_over`] is waited for a while, so that no client is told that rows were not written which were.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        let mut work = pin!(work);
        let mut handed_over = false;
        let watched = poll_fn(|context| {
            HANDED_OVER.set(false);
            let polled = work.as_mut().poll(context);
            handed_over = HANDED_OVER.take();
            polled
        });
        let error = tokio::select! {
            biased;
            done = watched => return done,
            error = self.reached() => error,
        };
        if !handed_over {
            return Err(error);
        }
        tokio::time::timeout(CONFIRMATION, work).await.unwrap_or_else(|_| Err(unconfirmed()))
    }

    /// Fails with the reason if the statement must have ended by now.
    pub(super) fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(self.cancelled());
        }
        match self.at {
            Some(at) if at <= Instant::now() => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// Waits until the statement must end; returns the reason.
    pub(super) async fn reached(&self) -> QueryError {
        let reached = async {
            tokio::select! {
                () = self.cancel.cancelled() => self.cancelled(),
                () = self.passed() => timed_out(),
            }
        };
        // Also if `work` has used up the task's cooperative budget, as it may at every poll.
        tokio::task::unconstrained(reached).await
    }

    fn cancelled(&self) -> QueryError {
        if self.stopping.is_cancelled() {
            return QueryError::new(ErrorKind::ShuttingDown, "the server stopped before the statement ended")
                .hint("connect again when it is back");
        }
        QueryError::cancelled()
    }

    async fn passed(&self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }
}

/// Marks `work` that goes on, and has its effect, after its statement has stopped waiting.
pub(super) async fn handed_over<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        HANDED_OVER.set(polled.is_pending());
        polled
    })
    .await
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

/// Counters of the engine.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) running: AtomicU64,
    pub(super) total: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) cube_hits: AtomicU64,
    pub(super) cube_misses: AtomicU64,
}

/// A physical plan, and the context it is started in.
pub(super) struct Start {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) task: Arc<TaskContext>,
    pub(super) deadline: Deadline,
    pub(super) recording: Recording,
    /// Given back when no task computes the plan any more, which may be after the client has gone.
    pub(super) slot: Option<Slot>,
    /// Set if the result cache may keep the answer.
    pub(super) source: Option<Source>,
}

impl Start {
    /// Starts the plan on the threads of small queries.
    pub(super) fn small(self, threads: &Threads, running: Running) -> Answer {
        self.start(running, threads.execution())
    }

    /// Starts the plan on the threads of short queries.
    pub(super) fn short(self, threads: &Threads, running: Running) -> Answer {
        let handle = threads.short_for(running.entry().account());
        self.start(running, handle)
    }

    /// Starts the plan on the threads of large queries.
    pub(super) fn large(self, threads: &Threads, running: Running) -> Answer {
        let handle = threads.large_for(running.entry().account());
        self.start(running, handle)
    }

    fn start(mut self, mut running: Running, handle: &Handle) -> Answer {
        let schema = self.plan.schema();
        let (sender, receiver) = channel(BATCHES_AHEAD);
        let (counters, entry) = (Arc::clone(running.counters()), Arc::clone(running.entry()));
        entry.enter(Phase::Running);
        let (deadline, source) = (self.deadline.clone(), self.source.clone());
        let scope = running.scope().holding(self.slot.take());
        running.compute(handle.spawn(async move {
            let work = AssertUnwindSafe(scope.run(self.pump(&sender, &counters, &entry)));
            let done = work.catch_unwind().await.unwrap_or_else(|panic| Err(from_panic(panic.as_ref())));
            entry.has_computed();
            // The slot is free by now: a client that reads nothing must not keep it.
            if let Err(error) = done {
                fail(&counters, &entry, &error);
                let _ = sender.send(Err(error)).await;
            }
        }));
        Answer::Rows(RowStream::new(schema, Batches::Sent(receiver), running, Some(deadline)).from(source))
    }

    /// Runs the plan on the thread that polls the rows. Only for little work in one partition.
    pub(super) fn here(self, running: Running) -> Result<Answer> {
        running.entry().enter(Phase::Running);
        let schema = self.plan.schema();
        let stream = execute_stream(self.plan, self.task)?;
        let here = Here { stream, recording: self.recording, given: None };
        let rows = RowStream::new(schema, Batches::Here(Box::new(here)), running, Some(self.deadline));
        Ok(Answer::Rows(rows.from(self.source)))
    }

    /// Moves batches to the client. The work ends when the client has gone, or when the statement must end, also while
    /// the client does not read: it may have stopped reading for ever.
    async fn pump(
        mut self,
        sender: &Sender<Result<RecordBatch>>,
        counters: &Counters,
        entry: &Entry,
    ) -> Result<()> {
        let account = entry.account();
        let mut stream = execute_stream(self.plan, self.task)?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            if !entry.goes_on() {
                counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
            }
            self.recording.add_rows(rows);
            entry.add_rows(rows);
            // The client's connection frees the batch.
            account.hand_over(batch.get_array_memory_size());
            if let Err(full) = sender.try_send(Ok(batch)) {
                if !entry.goes_on() {
                    entry.enter(Phase::Sending);
                }
                let waited = Instant::now();
                tokio::select! {
                    sent = sender.send(full.into_inner()) => if sent.is_err() {
                        return Ok(());
                    },
                    error = self.deadline.reached() => return Err(error),
                    ended = account.ended() => return Err(ended.into()),
                }
                self.recording.leave_out(waited.elapsed());
                entry.enter(Phase::Running);
            }
        }
        Ok(())
    }
}

/// A plan that is computed when its rows are polled.
pub(super) struct Here {
    stream: SendableRecordBatchStream,
    recording: Recording,
    /// When the client got the last batch.
    given: Option<Instant>,
}

impl Here {
    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        running: &Running,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(given) = self.given.take() {
            self.recording.leave_out(given.elapsed());
            running.entry().enter(Phase::Running);
        }
        let next = loop {
            let next = AssertUnwindSafe(|| self.stream.poll_next_unpin(context));
            match std::panic::catch_unwind(next) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Some(Ok(batch)))) if batch.num_rows() == 0 => {}
                Ok(Poll::Ready(next)) => break next.map(|batch| batch.map_err(QueryError::from)),
                Err(panic) => break Some(Err(from_panic(panic.as_ref()))),
            }
        };
        match &next {
            Some(Ok(batch)) => {
                running.counters().rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                running.entry().add_rows(batch.num_rows());
                self.recording.add_rows(batch.num_rows());
                self.given = Some(Instant::now());
                // Until the client asks for more.
                running.entry().enter(Phase::Sending);
            }
            Some(Err(error)) => running.fail(error),
            None => {}
        }
        Poll::Ready(next)
    }
}

/// An answer that is computed already. Without a deadline for callers that take all batches at once.
pub(super) fn ready(
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    running: Running,
    deadline: Option<Deadline>,
) -> Answer {
    let (sender, receiver) = channel(batches.len().max(1));
    for batch in batches {
        // The channel has room for all of them.
        let _ = sender.try_send(Ok(batch));
    }
    Answer::Rows(RowStream::new(schema, Batches::Sent(receiver), running, deadline))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_was_handed_over_is_waited_for_and_all_else_ends() {
        let deadline = || Deadline { cancel: CancellationToken::new(), stopping: Arc::default(), at: None };
        let cancelled = deadline();
        cancelled.cancel.cancel();
        let refused = cancelled.within(async { Ok(()) }).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Cancelled, "it has not begun");

        let late = deadline();
        let (sender, receiver) = oneshot::channel();
        let work = late.within(async { Ok(handed_over(receiver).await.unwrap()) });
        let end = async {
            tokio::task::yield_now().await;
            late.cancel.cancel();
            tokio::time::sleep(Duration::from_millis(20)).await;
            sender.send(7).unwrap();
        };
        let (done, ()) = tokio::join!(work, end);
        assert_eq!(done.unwrap(), 7, "it is written, whoever wants it to end");

        let after = deadline();
        let work = after.within(async {
            handed_over(async { tokio::task::yield_now().await }).await;
            std::future::pending::<Result<()>>().await
        });
        let end = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            after.cancel.cancel();
        };
        let (ended, ()) = tokio::join!(work, end);
        assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled, "what was handed over is done");
    }
}
