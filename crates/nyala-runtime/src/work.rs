//! The account of one statement: memory, processor time, and whether it must end.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use tokio::sync::Notify;

/// Why a statement must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its client, an administrator, its timeout or the end of the server.
    Cancelled,
    /// The process was about to exceed its memory limit, and this statement held the most.
    Memory {
        /// Bytes that the statement held.
        held: u64,
        /// Bytes that the process may use.
        limit: u64,
    },
}

/// The error of work after its statement must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(pub Reason);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Reason::Cancelled => f.write_str("the statement was cancelled"),
            Reason::Memory { held, limit } => write!(
                f,
                "the process nears its memory limit of {limit} bytes, and this statement holds the most, {held} bytes"
            ),
        }
    }
}

impl std::error::Error for Ended {}

/// Resources that one statement has used so far, on all its threads.
#[derive(Debug, Default)]
pub struct Work {
    must_end: AtomicBool,
    reason: OnceLock<Reason>,
    /// Bytes allocated less bytes freed while its tasks were polled. Below zero if it frees memory of others.
    bytes: AtomicI64,
    peak_bytes: AtomicU64,
    computed_ns: AtomicU64,
    /// Notified when it must end.
    ends: Notify,
}

impl Work {
    /// Makes the statement end at its next check. The first reason wins.
    pub fn end(&self, reason: Reason) {
        let _ = self.reason.set(reason);
        self.must_end.store(true, Release);
        self.ends.notify_waiters();
    }

    /// Waits until the statement must end.
    pub async fn ended(&self) -> Ended {
        loop {
            // Registers before the check, so that no notice is lost in between.
            let mut told = pin!(self.ends.notified());
            told.as_mut().enable();
            if let Err(ended) = self.check() {
                return ended;
            }
            told.await;
        }
    }

    /// Why the statement must end, if it must.
    pub fn reason(&self) -> Option<Reason> {
        if self.must_end.load(Acquire) { self.reason.get().copied() } else { None }
    }

    /// Fails if the statement must end.
    pub fn check(&self) -> Result<(), Ended> {
        self.reason().map_or(Ok(()), |reason| Err(Ended(reason)))
    }

    /// Bytes that the statement holds, by the counts of its threads.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Relaxed)).unwrap_or(0)
    }

    /// The largest number of bytes it has held.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Relaxed)
    }

    /// Time of the polls of its tasks, summed over threads.
    pub fn computed(&self) -> Duration {
        Duration::from_nanos(self.computed_ns.load(Relaxed))
    }

    /// Subtracts memory that another thread will free, such as rows on their way to the client.
    pub fn hand_over(&self, bytes: usize) {
        self.allocated(i64::try_from(bytes).unwrap_or(i64::MAX).saturating_neg());
    }

    /// Adds a thread's allocated bytes, less its freed bytes.
    pub fn allocated(&self, bytes: i64) {
        if bytes == 0 {
            return;
        }
        let held = self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if bytes > 0 && held > 0 {
            self.peak_bytes.fetch_max(held.unsigned_abs(), Relaxed);
        }
    }

    pub(crate) fn add_computed(&self, time: Duration) {
        self.computed_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let work = Work::default();
        assert!(work.check().is_ok());
        work.end(Reason::Memory { held: 7, limit: 9 });
        work.end(Reason::Cancelled);
        assert_eq!(work.check(), Err(Ended(Reason::Memory { held: 7, limit: 9 })));
    }

    #[test]
    fn bytes_are_what_is_held_now_and_the_peak_what_was_held_at_once() {
        let work = Work::default();
        work.allocated(100);
        work.allocated(-60);
        work.hand_over(20);
        assert_eq!((work.bytes(), work.peak_bytes()), (20, 100));
        work.allocated(-50);
        assert_eq!(work.bytes(), 0, "it freed more than it allocated");
    }
}
