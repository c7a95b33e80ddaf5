//! Statements on their way to the log.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::oplog::error::{OplogError, Result};
use crate::oplog::labels::Labelled;
use crate::oplog::log::Record;
use crate::oplog::meta::{Alteration, TableSpec};
use crate::oplog::table::SharedTable;
use crate::oplog::write::PreparedWrite;

/// The effect of a committed statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// LSN of the statement, which is the version of the rows it wrote.
    pub lsn: u64,
    /// Rows that were not there before.
    pub inserted: u64,
    /// Rows that took the place of a row with the same key.
    pub replaced: u64,
    /// Rows that were there and are deleted.
    pub deleted: u64,
    /// The effect of an earlier statement with the same label. This statement then had none.
    pub before: Option<Labelled>,
}

/// A promise that a statement will be committed or refused. Wait for it, or poll it as a future; dropping it does
/// not take the statement back.
#[derive(Debug)]
pub struct Ticket(Arc<TicketState>);

/// The committer's end of a ticket. If it is dropped without an outcome, as when a thread panics, the waiting caller gets an error.
#[derive(Debug)]
pub struct Promise(Arc<TicketState>);

#[derive(Debug, Default)]
struct TicketState {
    outcome: Mutex<(Option<Result<Committed>>, Option<Waker>)>,
    done: Condvar,
}

impl Promise {
    pub fn complete(self, outcome: Result<Committed>) {
        self.0.complete(outcome);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let reason = "the store stopped before it was done".to_owned();
        self.0.complete(Err(OplogError::Unconfirmed { reason }));
    }
}

impl TicketState {
    /// Sets the outcome, unless there is one: the first outcome counts.
    fn complete(&self, outcome: Result<Committed>) {
        let waker = {
            let mut state = lock(&self.outcome);
            if state.0.is_some() {
                return;
            }
            state.0 = Some(outcome);
            state.1.take()
        };
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ticket {
    pub(crate) fn new() -> (Self, Promise) {
        let state: Arc<TicketState> = Arc::default();
        (Self(state.clone()), Promise(state))
    }

    /// Blocks until the statement is committed or refused.
    pub fn wait(&self) -> Result<Committed> {
        let mut state = lock(&self.0.outcome);
        loop {
            if let Some(outcome) = &state.0 {
                return outcome.clone();
            }
            state = self.0.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Ticket {
    type Output = Result<Committed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.outcome);
        match &state.0 {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A request to the committer.
#[derive(Debug)]
pub enum Request {
    Write { table: Arc<SharedTable>, write: PreparedWrite, record: Record },
    Truncate { table: Arc<SharedTable> },
    Expire { table: Arc<SharedTable>, before_ms: u64 },
    Create { spec: TableSpec },
    Drop { table: Arc<SharedTable> },
    Alter { table: Arc<SharedTable>, change: Alteration },
}

#[derive(Debug)]
pub struct Pending {
    pub request: Request,
    pub promise: Promise,
}

impl Pending {
    fn bytes(&self) -> usize {
        match &self.request {
            Request::Write { record, .. } => record.bytes() as usize,
            _ => 0,
        }
    }
}

#[derive(Debug, Default)]
struct QueueState {
    pending: VecDeque<Pending>,
    bytes: usize,
    closed: bool,
}

/// The reason why a statement was not queued.
#[derive(Debug)]
pub enum Unqueued {
    /// Too many bytes are waiting.
    Full,
    /// The queue is closed; the statement comes back.
    Closed(Box<Pending>),
}

/// Statements in the order in which they came.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    emptied: Condvar,
}

impl Queue {
    /// Adds a statement; waits while too many bytes are waiting already. Gives it back if the queue is closed.
    pub fn push(&self, pending: Pending, limit: usize) -> Option<Pending> {
        let mut state = lock(&self.state);
        while state.bytes > limit && !state.closed {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.add(state, pending)
    }

    /// Adds a statement, unless that would have to wait.
    pub fn try_push(&self, pending: Pending, limit: usize) -> Result<(), Unqueued> {
        let state = lock(&self.state);
        if state.bytes > limit && !state.closed {
            return Err(Unqueued::Full);
        }
        match self.add(state, pending) {
            None => Ok(()),
            Some(pending) => Err(Unqueued::Closed(Box::new(pending))),
        }
    }

    fn add(&self, mut state: MutexGuard<'_, QueueState>, pending: Pending) -> Option<Pending> {
        if state.closed {
            return Some(pending);
        }
        state.bytes += pending.bytes();
        state.pending.push_back(pending);
        self.filled.notify_one();
        None
    }

    /// Takes all waiting statements.
    pub fn take(&self) -> VecDeque<Pending> {
        let mut state = lock(&self.state);
        state.bytes = 0;
        self.emptied.notify_all();
        std::mem::take(&mut state.pending)
    }

    /// Waits for statements, so long at most; false once the queue is closed and empty.
    pub fn wait(&self, at_most: Duration) -> bool {
        let state = lock(&self.state);
        if !state.pending.is_empty() {
            return true;
        }
        if state.closed {
            return false;
        }
        drop(self.filled.wait_timeout(state, at_most));
        true
    }

    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Takes no more statements.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
