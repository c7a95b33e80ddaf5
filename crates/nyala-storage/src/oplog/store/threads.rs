//! The threads of a store: a committer, one for upkeep of the files, one that reads values after a start.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nyala_runtime::{ThreadClass, join_class};

use super::Phase;
use super::inner::{Inner, Status};
use super::queue::lock;
use super::upkeep::Effort;
use crate::oplog::error::{OplogError, Result};

/// Interval of the checks for due upkeep.
const UPKEEP: Duration = Duration::from_millis(100);

/// Longest wait of upkeep for the values at a start: readers wait for the values, and sealing would read and write
/// at the same time.
const VALUES_FIRST: Duration = Duration::from_secs(60);

/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Stop {
    stopped: AtomicBool,
    /// Whether upkeep is due before the interval ends.
    due: AtomicBool,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Stop {
    /// Sleeps for `time`, until upkeep is due if `awaiting` that, or until the threads are stopped.
    fn sleep(&self, time: Duration, awaiting: bool) {
        let end = Instant::now() + time;
        let mut guard = lock(&self.sleeping);
        while !self.stopped.load(Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || (awaiting && self.due.swap(false, Relaxed)) {
                return;
            }
            (guard, _) = self.wake.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn awake(&self) {
        self.due.store(true, Relaxed);
        self.wake.notify_all();
    }
}

/// Threads that end when this is dropped, after queued statements are committed.
#[derive(Debug)]
pub struct Threads {
    inner: Arc<Inner>,
    stop: Arc<Stop>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub fn start(inner: &Arc<Inner>) -> Result<Self> {
        let stop = Arc::new(Stop::default());
        let mut threads = Self { inner: inner.clone(), stop: stop.clone(), handles: Vec::new() };
        let (own, upkeep) = (inner.clone(), stop.clone());
        threads.spawn("nyala-commit", ThreadClass::Serving, move || commit_loop(&own, &upkeep))?;
        let (own, stopping) = (inner.clone(), stop);
        threads.spawn("nyala-upkeep", ThreadClass::Background, move || {
            let started = Instant::now();
            while !stopping.stopped.load(Relaxed) {
                stopping.sleep(UPKEEP, true);
                let reading = own.progress.report().phase < Phase::Ready && started.elapsed() < VALUES_FIRST;
                if reading && !own.log_is_long() {
                    continue;
                }
                let done = guarded(&own, || {
                    own.maintain(Effort::Due).inspect_err(|error| {
                        let store = own.folder.path().display();
                        tracing::warn!(%error, %store, "upkeep of a disk store failed");
                    })
                });
                if !matches!(done, Some(Ok(()))) {
                    stopping.sleep(AFTER_FAILURE, false);
                }
            }
        })?;
        let own = inner.clone();
        threads.spawn("nyala-values", ThreadClass::Background, move || {
            guarded(&own, || own.load_all(own.options.load_values));
        })?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, class: ThreadClass, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        let spawned = builder.spawn(move || {
            join_class(class);
            work();
        });
        let spawned = spawned.map_err(|error| OplogError::Io {
            action: "start a thread for",
            file: self.inner.folder.path().to_owned(),
            source: Arc::new(error),
        });
        self.handles.push(spawned?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.inner.queue.close();
        self.stop.stopped.store(true, Relaxed);
        self.stop.wake.notify_all();
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                tracing::error!("a thread of a disk store panicked");
            }
        }
    }
}

/// Runs a piece of a thread's work; none if it panicked. It is not known then how much of it was done: the store takes
/// no more writes, and its thread goes on, so that waiting callers get an error.
fn guarded<T>(inner: &Inner, work: impl FnOnce() -> T) -> Option<T> {
    let panic = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => return Some(done),
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    let thread = std::thread::current();
    let reason = format!("its thread `{}` panicked: {text}", thread.name().unwrap_or_default());
    tracing::error!(store = %inner.folder.path().display(), "a disk store is read-only from now on: {reason}");
    inner.set_status(Status::ReadOnly(reason));
    None
}

/// Closes the queue however the committer ends, so that no caller waits for ever.
struct Closing<'a>(&'a Inner);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        drop(self.0.queue.take());
    }
}

fn commit_loop(inner: &Inner, upkeep: &Stop) {
    let _closing = Closing(inner);
    let interval = Duration::from_millis(inner.options.sync_interval_ms);
    let mut synced = Instant::now();
    while inner.queue.wait(interval) {
        guarded(inner, || inner.commit_waiting());
        if inner.log_is_long() {
            upkeep.awake();
        }
        if synced.elapsed() < interval {
            continue;
        }
        if let Some(Err(error)) = guarded(inner, || inner.sync_if_due()) {
            tracing::error!(%error, store = %inner.folder.path().display(), "a disk store could not be synced");
        }
        synced = Instant::now();
    }
}
