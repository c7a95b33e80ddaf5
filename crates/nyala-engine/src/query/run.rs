//! Running a physical plan on the query threads and streaming its rows to the client.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio_util::sync::CancellationToken;

use super::activity::{Entry, Phase, Running, fail};
use super::answer::{Answer, Batches, RowStream};
use super::history::Recording;
use super::line::Slot;
use super::results::Source;
use super::threads::from_panic;
use crate::error::{ErrorKind, QueryError, Result};

/// Batches computed ahead of the client.
const BATCHES_AHEAD: usize = 2;

/// When a statement must end, whatever it is doing.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    /// Ends it at once.
    pub(super) cancel: CancellationToken,
    /// Cancelled when the server stops, and `cancel` with it. Each session has one of its own to share: to copy a token takes a lock,
    /// which would be one of all queries.
    pub(super) stopping: Arc<CancellationToken>,
    /// Ends it when reached.
    pub(super) at: Option<Instant>,
}

impl Deadline {
    /// `work`, or the reason why it may not go on. Work that does not have to wait is not watched.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        tokio::select! {
            biased;
            done = work => done,
            error = self.reached() => Err(error),
        }
    }

    /// The reason why the statement must have ended by now, if it must.
    pub(super) fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(self.cancelled());
        }
        match self.at {
            Some(at) if at <= Instant::now() => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// Waits until the statement must end; gives the reason.
    pub(super) async fn reached(&self) -> QueryError {
        let reached = async {
            tokio::select! {
                () = self.cancel.cancelled() => self.cancelled(),
                () = self.passed() => timed_out(),
            }
        };
        // Also if the work beside it has used up the turn of its task: it may at each.
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

fn timed_out() -> QueryError {
    QueryError::new(ErrorKind::Timeout, "statement took longer than `statement_timeout`")
        .hint("ask for less, or raise it with SET statement_timeout")
}

/// Counts what the engine does.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) running: AtomicU64,
    pub(super) total: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) cube_hits: AtomicU64,
    pub(super) cube_misses: AtomicU64,
}

/// How a plan is run.
pub(super) struct Start {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) task: Arc<TaskContext>,
    pub(super) deadline: Deadline,
    pub(super) recording: Recording,
    /// Given back when the work has really ended, not when nobody wants it any more.
    pub(super) slot: Option<Slot>,
    /// For an answer that may be given again.
    pub(super) source: Option<Source>,
}

impl Start {
    /// Starts the plan on `handle`.
    pub(super) fn on(self, handle: &Handle, mut running: Running) -> Answer {
        let schema = self.plan.schema();
        let (sender, receiver) = channel(BATCHES_AHEAD);
        let (counters, entry) = (Arc::clone(running.counters()), Arc::clone(running.entry()));
        entry.enter(Phase::Running);
        let (deadline, source) = (self.deadline.clone(), self.source.clone());
        running.compute(handle.spawn(async move {
            let work = AssertUnwindSafe(self.pump(&sender, &counters, &entry));
            let done = work.catch_unwind().await.unwrap_or_else(|panic| Err(from_panic(panic.as_ref())));
            if let Err(error) = done {
                fail(&counters, &entry, &error);
                let _ = sender.send(Err(error)).await;
            }
        }));
        Answer::Rows(RowStream::new(schema, Batches::Sent(receiver), running, Some(deadline)).from(source))
    }

    /// Lets whoever takes the rows compute them. Only for work that is little, and in one partition.
    pub(super) fn here(self, running: Running) -> Result<Answer> {
        running.entry().enter(Phase::Running);
        let schema = self.plan.schema();
        let stream = execute_stream(self.plan, self.task)?;
        let here = Here { stream, recording: self.recording, given: None };
        let rows = RowStream::new(schema, Batches::Here(Box::new(here)), running, Some(self.deadline));
        Ok(Answer::Rows(rows.from(self.source)))
    }

    /// Moves batches to the client; a client that has gone ends the work.
    async fn pump(
        mut self,
        sender: &Sender<Result<RecordBatch>>,
        counters: &Counters,
        entry: &Entry,
    ) -> Result<()> {
        let _slot = self.slot;
        let mut stream = execute_stream(self.plan, self.task)?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
            self.recording.add_rows(rows);
            entry.add_rows(rows);
            if let Err(full) = sender.try_send(Ok(batch)) {
                entry.enter(Phase::Sending);
                let waited = Instant::now();
                if sender.send(full.into_inner()).await.is_err() {
                    return Ok(());
                }
                self.recording.leave_out(waited.elapsed());
                entry.enter(Phase::Running);
            }
        }
        Ok(())
    }
}

/// A plan that is computed as its rows are asked for.
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
            let waited = given.elapsed();
            self.recording.leave_out(waited);
            running.entry().waited_for_client(waited);
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
            }
            Some(Err(error)) => running.fail(error),
            None => {}
        }
        Poll::Ready(next)
    }
}

/// An answer that is known already.
pub(super) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>, running: Running) -> Answer {
    let (sender, receiver) = channel(batches.len().max(1));
    for batch in batches {
        // The channel has room for all of them.
        let _ = sender.try_send(Ok(batch));
    }
    Answer::Rows(RowStream::new(schema, Batches::Sent(receiver), running, None))
}
