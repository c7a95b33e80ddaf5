//! Starting a physical plan on the query threads, and streaming its rows to the client.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::sync::mpsc::{Sender, channel};

use super::here::Here;
use super::result_cache::Source;
use super::rows::{Answer, Batches, RowStream, Sent};
use crate::query::activity::{Entry, Phase, Running, fail};
use crate::query::counters::Counters;
use crate::query::deadline::Deadline;
use crate::query::history::Recording;
use crate::query::plan::cost_class::CostClass;
use crate::query::resources::fair_queue::Slot;
use crate::query::resources::memory::is_held_by_others;
use crate::query::resources::threads::{Threads, from_panic};

/// Batches computed ahead of the client.
const BATCHES_AHEAD: usize = 2;

/// Times that a query is planned anew, before it fails with the error of the last time. Nodes may be lost one after the other
/// while it runs.
const MAX_ATTEMPTS: u32 = 8;
/// Times that a query is planned anew because nodes lack memory of which this query alone needs a large part.
const MAX_WAITS: u32 = 4;
/// Wait before the second attempt. Each further one is twice as long, up to a second.
const WAIT: Duration = Duration::from_millis(25);
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Wait for memory. Each further one is twice as long, up to ten seconds.
const WAIT_FOR_MEMORY: Duration = Duration::from_secs(1);
const MAX_WAIT_FOR_MEMORY: Duration = Duration::from_secs(10);

/// How a query is planned anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// As before, with the files and the nodes as they are then.
    Divided,
    /// By this node alone.
    Alone,
}

/// Plans a query anew, before its client has a row. Gives the operators and what they are started with.
pub type PlanAnew = Box<
    dyn Fn(Again) -> BoxFuture<'static, Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)>> + Send + Sync,
>;

/// A physical plan, and the context it is started in.
pub struct Start {
    pub plan: Arc<dyn ExecutionPlan>,
    pub task: Arc<TaskContext>,
    pub deadline: Deadline,
    pub recording: Recording,
    /// The slot of the query. It is given back when no task computes the plan any more, which may be after the client has gone.
    pub slot: Option<Slot>,
    /// Set if the result cache may keep the answer.
    pub source: Option<Source>,
    /// Set if it may read files that others change.
    pub plan_anew: Option<PlanAnew>,
    /// Whether other nodes do parts of it.
    pub is_spread: bool,
    pub attempts: Attempts,
}

/// How often a query was planned anew.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    all: u32,
    /// How often because a node lacked memory: another node, or this one for the last stage.
    waits: u32,
}

impl Attempts {
    /// How a query is planned after an error; none if another attempt would fail, too. `is_spread` is [`Start::is_spread`].
    fn again_after(&mut self, error: &QueryError, is_spread: bool) -> Option<Again> {
        self.all += 1;
        if self.all > MAX_ATTEMPTS {
            return None;
        }
        match error.kind {
            ErrorKind::Changed => Some(Again::Divided),
            ErrorKind::Unreadable if is_spread && error.transient => Some(Again::Divided),
            ErrorKind::ResourcesExhausted if is_spread && (error.transient || self.waits < MAX_WAITS) => {
                self.waits += 1;
                Some(Again::Divided)
            }
            // Operators that do not work in stages may work in one process.
            ErrorKind::Internal if is_spread => Some(Again::Alone),
            _ => None,
        }
    }

    /// The wait before the next attempt.
    fn wait(self) -> Duration {
        let doubled =
            |first: Duration, times: u32| first.saturating_mul(1 << times.saturating_sub(1).min(16));
        match self.waits {
            0 => doubled(WAIT, self.all).min(MAX_WAIT),
            waits => doubled(WAIT_FOR_MEMORY, waits).min(MAX_WAIT_FOR_MEMORY),
        }
    }
}

impl Start {
    /// Starts the plan on the threads of its class.
    pub fn begin(mut self, class: CostClass, threads: &Threads, mut running: Running) -> Answer {
        let account = running.entry().account();
        let handle = match class {
            CostClass::Small => threads.execution(),
            CostClass::Short => threads.short_for(account),
            CostClass::Joins | CostClass::Long => threads.large_for(account),
        };
        let schema = self.plan.schema();
        let (sender, receiver) = channel(BATCHES_AHEAD);
        let has_all = Arc::new(AtomicBool::new(false));
        let sent = Sent::new(receiver, Arc::clone(&has_all));
        let (counters, entry) = (Arc::clone(running.counters()), Arc::clone(running.entry()));
        entry.enter(Phase::Running);
        let (deadline, source) = (self.deadline.clone(), self.source.clone());
        let scope = running.scope().holding(self.slot.take());
        running.compute(handle.spawn(async move {
            let work = AssertUnwindSafe(scope.run(self.pump(&sender, (&counters, &entry))));
            let done = work.catch_unwind().await.unwrap_or_else(|panic| Err(from_panic(panic.as_ref())));
            entry.has_computed();
            // The slot is free by now: a client that reads nothing must not keep it.
            match done {
                Ok(()) => has_all.store(true, Ordering::Release),
                Err(error) => {
                    // Work that is told to end because its client is gone has not failed.
                    if !entry.is_ending() {
                        fail(&counters, &entry, &error);
                    }
                    let _ = sender.send(Err(error)).await;
                }
            }
        }));
        Answer::Rows(RowStream::new(schema, Batches::Sent(sent), running, Some(deadline)).from(source))
    }

    /// Runs the plan on the thread that polls the rows. Only for little work in one partition.
    pub fn here(self, running: Running) -> Result<Answer> {
        running.entry().enter(Phase::Running);
        let schema = self.plan.schema();
        let stream = execute_stream(self.plan, self.task)?;
        let here = Here::new(stream, self.recording);
        let rows = RowStream::new(schema, Batches::Here(Box::new(here)), running, Some(self.deadline));
        Ok(Answer::Rows(rows.from(self.source)))
    }

    /// Plans and begins the query once more, if files changed, a node was lost or a stage had no memory, and no row has been sent. It keeps
    /// its slot meanwhile, so that fewer others begin.
    async fn begin_anew(
        &mut self,
        mut error: QueryError,
        entry: &Entry,
    ) -> Result<SendableRecordBatchStream> {
        while let Some(again) = self.again_after(&error) {
            let Some(plan) = &self.plan_anew else { break };
            let_go(&mut self.plan, entry);
            tokio::time::sleep(self.attempts.wait()).await;
            match plan(again).await {
                Ok((plan, task)) => {
                    entry.follows(&plan, false, None);
                    match execute_stream(plan, task) {
                        Ok(stream) => return Ok(stream),
                        Err(failed) => error = self.error_of(failed, entry),
                    }
                }
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// How the query is planned after an error; none if another attempt would fail, too.
    fn again_after(&mut self, error: &QueryError) -> Option<Again> {
        let again = self.attempts.again_after(error, self.is_spread)?;
        if again == Again::Alone {
            tracing::warn!(%error, "a query is run by one node, because several could not");
            self.is_spread = false;
        }
        Some(again)
    }

    /// The error of an attempt. Whether it failed because other queries held the memory is known from other nodes for their parts, and is
    /// found out here for this node's stage.
    fn error_of(&self, error: DataFusionError, entry: &Entry) -> QueryError {
        let lacked_memory =
            self.is_spread && is_held_by_others(&error, self.task.memory_pool().as_ref(), entry);
        let error = QueryError::from(error);
        QueryError { transient: error.transient || lacked_memory, ..error }
    }

    /// Moves batches to the client. The work ends when the client has gone, or when the statement must end, also while
    /// the client does not read: it may have stopped reading for ever.
    async fn pump(
        mut self,
        sender: &Sender<Result<RecordBatch>>,
        (counters, entry): (&Counters, &Entry),
    ) -> Result<()> {
        let account = entry.account();
        let mut stream = match execute_stream(Arc::clone(&self.plan), Arc::clone(&self.task)) {
            Ok(stream) => stream,
            Err(error) => {
                let error = self.error_of(error, entry);
                self.begin_anew(error, entry).await?
            }
        };
        while let Some(batch) = stream.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    // Other nodes go on with their parts for as long as there is a stream.
                    drop(stream);
                    let error = self.error_of(error, entry);
                    stream = self.begin_anew(error, entry).await?;
                    continue;
                }
            };
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            if !entry.goes_on() {
                counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
            }
            // The client has rows of this version of the files now, so that the query cannot be planned anew.
            self.plan_anew = None;
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

/// Forgets the plan of a failed attempt: its operators hold memory, as for the tables of joins, and other queries may wait for that
/// memory while this query waits for theirs.
fn let_go(plan: &mut Arc<dyn ExecutionPlan>, entry: &Entry) {
    *plan = Arc::new(EmptyExec::new(plan.schema()));
    entry.forget_plan();
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::query::activity::Registry;

    #[test]
    fn nothing_of_a_failed_attempt_is_kept_while_the_next_one_waits() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let registry = Registry::new(None);
        let running = Running::begin(
            &Arc::default(),
            &Arc::new(registry),
            "SELECT 1",
            &Arc::default(),
            CancellationToken::new(),
        );
        running.entry().follows(&plan, false, None);
        let failed = Arc::downgrade(&plan);
        let_go(&mut plan, running.entry());
        assert!(failed.upgrade().is_none());
        assert_eq!(plan.schema(), schema);
        // Nor is the plan of the next attempt kept when the client has gone in between: the plan's tasks would keep the statement listed.
        let next: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema));
        running.entry().account();
        running.entry().end_work();
        running.entry().follows(&next, false, None);
        assert_eq!(Arc::strong_count(&next), 1);
    }

    /// Attempts after the first one, while each ends with this error.
    fn further_attempts(error: &QueryError, is_spread: bool) -> usize {
        let mut attempts = Attempts::default();
        std::iter::from_fn(|| attempts.again_after(error, is_spread)).count()
    }

    #[test]
    fn a_query_of_several_nodes_waits_longer_for_memory_of_others_than_for_its_own() {
        let lack =
            |transient| QueryError { transient, ..QueryError::new(ErrorKind::ResourcesExhausted, "m") };
        assert_eq!(further_attempts(&lack(true), true), MAX_ATTEMPTS as usize);
        assert_eq!(further_attempts(&lack(false), true), MAX_WAITS as usize);
        assert_eq!(further_attempts(&lack(true), false), 0);
    }
}
