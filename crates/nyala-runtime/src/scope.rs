//! The statement that a thread computes at this moment.
//!
//! ```text
//! statement ── Scope ─┬─ task 1 ── poll ── poll ──      each poll: the statement's bytes += allocated - freed
//!                     ├─ task 2 ── poll ──                         and its time += the poll's time
//!                     └─ task spawned by an operator: the scope of the task that spawns it
//! ```
//!
//! A resource that a scope [holds](Scope::holding), such as a slot, is released with the last of its tasks: a
//! task that is aborted in the middle of a poll computes until that poll ends.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::memory::thread_bytes;
use crate::work::{Ended, Work};

/// How long a task computes before other tasks of its threads run. A short statement ends within one turn.
const TURN: Duration = Duration::from_millis(10);
/// The turn of statements that have computed for [`LONG`]: many of them delay a short one by few turns only.
const TURN_OF_LONG: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(1);

tokio::task_local! {
    static CURRENT: Scope;
}

thread_local! {
    /// The thread's bytes when they were last added to an account.
    static SETTLED: Cell<i64> = const { Cell::new(0) };
    /// When the polled task must let other tasks run.
    static TURN_ENDS: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A statement's account, and the resources to release after its last task.
#[derive(Debug, Clone)]
pub struct Scope {
    work: Arc<Work>,
    held: Vec<Arc<dyn Held>>,
}

/// Any resource that is released by a drop.
trait Held: Any + Send + Sync + std::fmt::Debug {}

impl<T: Any + Send + Sync + std::fmt::Debug> Held for T {}

impl Scope {
    /// A scope of `work` that holds nothing.
    pub fn new(work: Arc<Work>) -> Self {
        Self { work, held: Vec::new() }
    }

    /// Keeps `held` until the last task in this scope, and in clones of it, is gone.
    #[must_use]
    pub fn holding<T: Any + Send + Sync + std::fmt::Debug>(mut self, held: T) -> Self {
        self.held.push(Arc::new(held));
        self
    }

    /// The scope that the calling thread computes in.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// The account.
    pub fn work(&self) -> &Arc<Work> {
        &self.work
    }

    /// `future`, computed in this scope.
    pub async fn run<F: Future>(self, future: F) -> F::Output {
        let work = Arc::clone(&self.work);
        // In a box of its own, so that memory freed at its end counts, too.
        let mut future = Some(Box::pin(future));
        let polls = poll_fn(move |context| {
            let account = Account::open(&work);
            let Some(running) = future.as_mut() else { return Poll::Pending };
            let polled = running.as_mut().poll(context);
            if polled.is_ready() {
                future = None;
            }
            account.close();
            polled
        });
        let mut scoped = pin!(CURRENT.scope(self, polls));
        poll_fn(|context| {
            // Charges the outer statement, if this one is its subquery, before the account changes.
            settle();
            scoped.as_mut().poll(context)
        })
        .await
    }

    /// Calls `block` in this scope.
    pub fn call<T>(self, block: impl FnOnce() -> T) -> T {
        let work = Arc::clone(&self.work);
        settle();
        CURRENT.sync_scope(self, || {
            let account = Account::open(&work);
            let value = block();
            account.close();
            value
        })
    }
}

/// A poll in progress. A panicking poll counts as no time.
struct Account<'a> {
    work: &'a Work,
    began: Instant,
    /// The end of the outer scope's turn, if there is one.
    turn_ends: Option<Instant>,
}

impl<'a> Account<'a> {
    fn open(work: &'a Work) -> Self {
        let began = Instant::now();
        let turn = if work.computed() < LONG { TURN } else { TURN_OF_LONG };
        SETTLED.set(thread_bytes());
        let turn_ends = TURN_ENDS.replace(Some(began + turn));
        Self { work, began, turn_ends }
    }

    fn close(self) {
        add_bytes(self.work);
        self.work.add_computed(self.began.elapsed());
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        TURN_ENDS.set(self.turn_ends);
    }
}

fn add_bytes(work: &Work) {
    let now = thread_bytes();
    work.allocated(now.wrapping_sub(SETTLED.replace(now)));
}

/// Adds the thread's allocations and frees in this poll to the account of its statement, and fails if the
/// statement must end. For loops within one poll; does nothing outside of statements.
pub fn check() -> Result<(), Ended> {
    CURRENT
        .try_with(|scope| {
            add_bytes(&scope.work);
            scope.work.check()
        })
        .unwrap_or(Ok(()))
}

/// As [`check`], but never ends the statement.
pub fn settle() {
    let _ = CURRENT.try_with(|scope| add_bytes(&scope.work));
}

/// Whether the polled task has computed long enough to let other tasks of its threads run: it then wakes
/// itself, and returns [`Poll::Pending`]. Never outside of statements.
pub fn turn_is_over() -> bool {
    TURN_ENDS.get().is_some_and(|ends| ends <= Instant::now())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use futures::FutureExt;

    use super::*;
    use crate::memory::{Allocator, count_bytes_with};
    use crate::work::Reason;

    thread_local! {
        static BYTES: Cell<i64> = const { Cell::new(0) };
    }

    fn allocate(bytes: i64) {
        BYTES.set(BYTES.get() + bytes);
    }

    #[derive(Debug)]
    struct Slot(Arc<AtomicUsize>);

    impl Drop for Slot {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[tokio::test]
    async fn bytes_count_for_the_statement_that_is_polled() {
        count_bytes_with(Allocator { thread_bytes: || BYTES.get(), active_bytes: || None, give_back: || () });
        let (outer, inner) = (Arc::new(Work::default()), Arc::new(Work::default()));
        allocate(1000);
        let within = Arc::clone(&inner);
        Scope::new(Arc::clone(&outer))
            .run(async move {
                allocate(10);
                tokio::task::yield_now().await;
                allocate(5);
                Scope::new(within).run(async { allocate(200) }).await;
            })
            .await;
        allocate(1000);
        assert_eq!((outer.bytes(), inner.bytes()), (15, 200));
        assert_eq!(
            Scope::new(Arc::clone(&inner)).call(|| {
                allocate(-50);
                7
            }),
            7
        );
        assert_eq!(inner.bytes(), 150);
    }

    #[tokio::test]
    async fn what_a_scope_holds_is_given_back_with_its_last_task() {
        let given_back = Arc::new(AtomicUsize::new(0));
        let scope = Scope::new(Arc::default()).holding(Slot(Arc::clone(&given_back)));
        let (ends, end) = tokio::sync::oneshot::channel::<()>();
        let main = tokio::spawn(scope.run(async move {
            let own = Scope::current().unwrap();
            (tokio::spawn(own.run(end.map(drop))),)
        }));
        let (child,) = main.await.unwrap();
        assert_eq!(given_back.load(Relaxed), 0, "a task of it is there still");
        ends.send(()).unwrap();
        child.await.unwrap();
        assert_eq!(given_back.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn work_asks_whether_its_statement_must_end() {
        assert!(check().is_ok(), "no statement, no end");
        let work = Arc::new(Work::default());
        let told = Arc::clone(&work);
        let asked = Scope::new(work).run(async move {
            let before = check();
            told.end(Reason::Cancelled);
            (before, check())
        });
        assert_eq!(asked.await, (Ok(()), Err(Ended(Reason::Cancelled))));
    }

    #[tokio::test]
    async fn a_turn_ends() {
        assert!(!turn_is_over());
        let asked = Scope::new(Arc::default()).run(async {
            let before = turn_is_over();
            std::thread::sleep(TURN);
            let after = turn_is_over();
            tokio::task::yield_now().await;
            (before, after, turn_is_over())
        });
        assert_eq!(asked.await, (false, true, false));
    }
}
