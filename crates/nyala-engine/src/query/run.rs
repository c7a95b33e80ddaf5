//! Running a physical plan on the query threads and streaming its rows to the client.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, RowStream};
use super::history::Recording;
use super::threads::from_panic;
use crate::error::{ErrorKind, QueryError, Result};

/// Batches computed ahead of the client.
const BATCHES_AHEAD: usize = 2;

/// When a statement must end, whatever it is doing.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    /// Ends it at once.
    pub(super) cancel: CancellationToken,
    /// Cancelled when the server stops, and `cancel` with it.
    pub(super) stopping: CancellationToken,
    /// Ends it when reached.
    pub(super) at: Option<Instant>,
}

impl Deadline {
    /// `work`, or the reason why it may not go on.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            error = self.reached() => Err(error),
            done = work => done,
        }
    }

    /// Waits until the statement must end; gives the reason.
    pub(super) async fn reached(&self) -> QueryError {
        tokio::select! {
            () = self.cancel.cancelled() => self.cancelled(),
            () = self.passed() => {
                QueryError::new(ErrorKind::Timeout, "statement took longer than `statement_timeout`")
                    .hint("ask for less, or raise it with SET statement_timeout")
            }
        }
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

/// A query that counts as running until this is dropped, which also stops it.
#[derive(Debug)]
pub(super) struct Running {
    counters: Arc<Counters>,
    task: Option<JoinHandle<()>>,
}

impl Running {
    pub(super) fn begin(counters: &Arc<Counters>) -> Self {
        counters.running.fetch_add(1, Ordering::Relaxed);
        counters.total.fetch_add(1, Ordering::Relaxed);
        Self { counters: Arc::clone(counters), task: None }
    }
}

impl Running {
    pub(super) fn count_failure(&self) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the work at its next point of rest.
    pub(super) fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.counters.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts `plan` on the query threads.
pub(super) fn start(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    handle: &Handle,
    deadline: Deadline,
    recording: Recording,
    mut running: Running,
) -> Answer {
    let schema = plan.schema();
    let (sender, receiver) = channel(BATCHES_AHEAD);
    let counters = Arc::clone(&running.counters);
    running.task = Some(handle.spawn(async move {
        let work = AssertUnwindSafe(pump(plan, context, &sender, &counters, recording));
        let done = work.catch_unwind().await.unwrap_or_else(|panic| Err(from_panic(panic.as_ref())));
        if let Err(error) = done {
            counters.failed.fetch_add(1, Ordering::Relaxed);
            let _ = sender.send(Err(error)).await;
        }
    }));
    Answer::Rows(RowStream::new(schema, receiver, running, Some(deadline)))
}

/// Moves batches to the client; a client that has gone ends the work.
async fn pump(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    sender: &Sender<Result<RecordBatch>>,
    counters: &Counters,
    mut recording: Recording,
) -> Result<()> {
    let mut stream = execute_stream(plan, context)?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        counters.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        recording.add_rows(batch.num_rows());
        let sent = Instant::now();
        if batch.num_rows() > 0 && sender.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
        recording.leave_out(sent.elapsed());
    }
    Ok(())
}

/// An answer that is known already.
pub(super) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>, running: Running) -> Answer {
    let (sender, receiver) = channel(batches.len().max(1));
    for batch in batches {
        // The channel has room for all of them.
        let _ = sender.try_send(Ok(batch));
    }
    Answer::Rows(RowStream::new(schema, receiver, running, None))
}
