//! The threads of a store: one commits, one keeps the files in order, one reads values after a start.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Phase;
use super::inner::Inner;
use super::queue::lock;
use super::upkeep::Effort;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::turn::Turn;

/// How often it is looked whether something is due.
const UPKEEP: Duration = Duration::from_millis(100);

/// So long at most it waits at a start until values are in memory: readers wait for them, and sealing would read and
/// write beside.
const VALUES_FIRST: Duration = Duration::from_secs(60);

/// How long after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Stop {
    stopped: AtomicBool,
    /// Whether there is something to do before it is time.
    due: AtomicBool,
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Stop {
    /// Sleeps until it is time, until there is something to do if `awaiting` that, or until all stops.
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

/// Threads that end when this is dropped, after what is queued is committed.
#[derive(Debug)]
pub(crate) struct Threads {
    inner: Arc<Inner>,
    stop: Arc<Stop>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn start(inner: &Arc<Inner>) -> Result<Self> {
        let stop = Arc::new(Stop::default());
        let mut threads = Self { inner: inner.clone(), stop: stop.clone(), handles: Vec::new() };
        let (own, upkeep) = (inner.clone(), stop.clone());
        threads.spawn("nyala-commit", move || commit_loop(&own, &upkeep))?;
        let (own, stopping) = (inner.clone(), stop);
        threads.spawn("nyala-upkeep", move || {
            let started = Instant::now();
            while !stopping.stopped.load(Relaxed) {
                stopping.sleep(UPKEEP, true);
                let reading = own.progress.report().phase < Phase::Ready && started.elapsed() < VALUES_FIRST;
                if reading && !own.log_is_long() {
                    continue;
                }
                if let Err(error) = own.maintain(Effort::Due) {
                    tracing::warn!(%error, store = %own.folder.path().display(), "upkeep of a disk store failed");
                    stopping.sleep(AFTER_FAILURE, false);
                }
            }
        })?;
        let own = inner.clone();
        threads.spawn("nyala-values", move || own.load_all(own.options.load_values, Turn::Last))?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        let spawned = builder.spawn(work).map_err(|error| OplogError::Io {
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

/// However the committer ends, nobody waits for it afterwards.
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
        inner.commit_waiting();
        if inner.log_is_long() {
            upkeep.awake();
        }
        if synced.elapsed() < interval {
            continue;
        }
        if let Err(error) = inner.sync_if_due() {
            tracing::error!(%error, store = %inner.folder.path().display(), "a disk store could not be synced");
        }
        synced = Instant::now();
    }
}
