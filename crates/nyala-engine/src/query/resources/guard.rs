//! Ends the largest statement when the process nears its memory limit, before the system ends the process.
//!
//! The pool of queries counts the reservations of operators. Other allocations, of kernels or forgotten by
//! operators, are in the [accounts](Work) of statements only. The guard compares the memory of the process
//! with its limit, and acts on accounts: a statement notices between two batches, rows or pairs, where its
//! operators ask.
//!
//! Freed memory counts as occupied until the allocator returns it some seconds later, but it is reused
//! first. So only memory in use counts, as long as the process is not close to its limit with all it
//! occupies. Much freed memory, as after a large statement was ended, is returned at once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use nyala_runtime::{Reason, Work, active_bytes, give_back_freed, resident_bytes};

use super::pressure::{available_bytes, is_stalled};

/// Memory kept free, as a part of the limit, with its bounds in bytes.
const RESERVE_PART: u64 = 8;
const MIN_RESERVE_BYTES: u64 = 64 << 20;
const MAX_RESERVE_BYTES: u64 = 1 << 30;
/// With less than this part of the reserve free, memory that the allocator keeps counts too.
const CRITICAL_PART: u64 = 2;
/// A statement that holds less than this part of the limit is not ended: it would not help.
const MIN_HELD_PART: u64 = 128;
/// Fastest growth of a process, in bytes a second: the guard looks again before free memory is gone.
const FILLED_PER_SECOND: u64 = 4 << 30;
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// Shortest time between two returns of freed memory.
const GIVE_BACK_EVERY: Duration = Duration::from_millis(500);
/// Time for a statement to end before the next one is told to.
const PATIENCE: Duration = Duration::from_millis(100);

/// Accounts of running statements, except small ones.
#[derive(Debug, Default)]
pub struct Works(Mutex<Vec<Weak<Work>>>);

impl Works {
    /// Adds an account. It is dropped once nothing holds it.
    pub fn add(&self, work: &Arc<Work>) {
        let mut works = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        works.retain(|known| known.strong_count() > 0);
        if !works.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(work))) {
            works.push(Arc::downgrade(work));
        }
    }

    /// The largest account that was not told to end, of at least `min_bytes`.
    fn largest(&self, min_bytes: u64) -> Option<Arc<Work>> {
        let works = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = works.iter().filter_map(Weak::upgrade).filter(|work| work.check().is_ok());
        running.max_by_key(|work| work.bytes()).filter(|work| work.bytes() >= min_bytes)
    }
}

/// A thread that watches the memory of the process until this is dropped.
#[derive(Debug)]
pub struct MemoryGuard {
    ended: Arc<AtomicBool>,
    thread: Option<Thread>,
}

impl MemoryGuard {
    /// Watches the process for `limit` bytes, and the machine for its available memory.
    pub fn start(limit: u64, works: &Arc<Works>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let watch = Watch {
            limit,
            works: Arc::clone(works),
            told: None,
            given_back: None,
            ended: Arc::clone(&ended),
        };
        let thread = std::thread::Builder::new().name("nyala-memory".to_owned()).spawn(move || watch.run());
        let thread = match thread {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                tracing::warn!(%error, "statements are not watched for the memory limit of the process");
                None
            }
        };
        Self { ended, thread }
    }
}

impl Drop for MemoryGuard {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

struct Watch {
    limit: u64,
    works: Arc<Works>,
    /// The statement that was told to end last, and when.
    told: Option<(Weak<Work>, Instant)>,
    /// When freed memory was returned last.
    given_back: Option<Instant>,
    ended: Arc<AtomicBool>,
}

impl Watch {
    fn run(mut self) {
        while !self.ended.load(Ordering::Relaxed) {
            let Some(resident) = resident_bytes() else { return };
            let active = if resident > self.limit / 2 { active_bytes() } else { None };
            let pause = self.look((resident, active), available_bytes(Path::new("/proc/meminfo")));
            std::thread::park_timeout(pause);
        }
    }

    /// Acts if little memory is free; returns the time until the next look.
    fn look(&mut self, (resident, active): (u64, Option<u64>), available: Option<u64>) -> Duration {
        let reserve = (self.limit / RESERVE_PART).clamp(MIN_RESERVE_BYTES, MAX_RESERVE_BYTES);
        let unoccupied = self.limit.saturating_sub(resident).min(available.unwrap_or(u64::MAX));
        let reusable = resident.saturating_sub(active.unwrap_or(resident));
        if unoccupied < reserve.saturating_mul(2) && reusable > reserve {
            self.give_back();
        }
        let critical = reserve / CRITICAL_PART;
        let is_critical = unoccupied < critical;
        let free = if is_critical { unoccupied } else { unoccupied.saturating_add(reusable) };
        let stalled = free < reserve.saturating_mul(2) && is_stalled(Path::new("/"));
        if free < reserve || stalled {
            self.end_largest();
            return MIN_PAUSE;
        }
        // A statement may allocate pieces that are larger than any freed one.
        let above = (free - reserve).min(unoccupied.saturating_sub(critical));
        Duration::from_millis(above / (FILLED_PER_SECOND / 1000)).clamp(MIN_PAUSE, MAX_PAUSE)
    }

    /// Gives freed memory back to the system, but not too often: a statement that allocates much then gets each page anew.
    fn give_back(&mut self) {
        if self.given_back.is_none_or(|at| at.elapsed() > GIVE_BACK_EVERY) {
            give_back_freed();
            self.given_back = Some(Instant::now());
        }
    }

    fn end_largest(&mut self) {
        let waits = |(work, at): &(Weak<Work>, Instant)| work.strong_count() > 0 && at.elapsed() < PATIENCE;
        if self.told.as_ref().is_some_and(waits) {
            return;
        }
        let Some(work) = self.works.largest(self.limit / MIN_HELD_PART) else { return };
        let (held, limit) = (work.bytes(), self.limit);
        tracing::warn!(held, limit, "the process nears its memory limit; its largest statement is ended");
        work.end(Reason::Memory { held, limit });
        self.told = Some((Arc::downgrade(&work), Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn watch(works: &Arc<Works>) -> Watch {
        Watch {
            limit: 4 << 30,
            works: Arc::clone(works),
            told: None,
            given_back: None,
            ended: Arc::default(),
        }
    }

    /// An account that holds so many MiB.
    fn holding(works: &Works, mib: i64) -> Arc<Work> {
        let work = Arc::new(Work::default());
        work.allocated(mib << 20);
        works.add(&work);
        work
    }

    #[test]
    fn the_largest_statement_ends_when_little_is_free() {
        let works = Arc::new(Works::default());
        let (small, large) = (holding(&works, 100), holding(&works, 900));
        let mut watch = watch(&works);
        assert_eq!(watch.look((1 << 30, None), None), MAX_PAUSE);
        assert!(large.check().is_ok());
        assert_eq!(watch.look(((4 << 30) - (100 << 20), None), None), MIN_PAUSE);
        assert!(large.check().is_err() && small.check().is_ok());
        watch.look(((4 << 30) - (100 << 20), None), None);
        assert!(small.check().is_ok(), "the large one may need a moment");
        drop(large);
        watch.look(((4 << 30) - (100 << 20), None), None);
        assert!(small.check().is_err(), "that was not enough");
    }

    #[test]
    fn statements_that_hold_little_go_on() {
        let works = Arc::new(Works::default());
        let small = holding(&works, 1);
        watch(&works).look((4 << 30, None), Some(0));
        assert!(small.check().is_ok());
    }

    #[test]
    fn freed_memory_counts_only_when_the_limit_is_close() {
        let works = Arc::new(Works::default());
        let large = holding(&works, 900);
        let mut watch = watch(&works);
        watch.look(((4 << 30) - (300 << 20), Some(1 << 30)), None);
        assert!(large.check().is_ok(), "what was freed is used again");
        watch.look(((4 << 30) - (100 << 20), Some(1 << 30)), None);
        assert!(large.check().is_err());
    }

    #[test]
    fn the_machine_counts_as_well_as_the_limit() {
        let works = Arc::new(Works::default());
        let large = holding(&works, 900);
        watch(&works).look((1 << 30, None), Some(10 << 20));
        assert!(large.check().is_err());
    }

    #[test]
    fn the_guard_looks_more_often_the_less_is_free() {
        let works = Arc::new(Works::default());
        let mut watch = watch(&works);
        let pause = |watch: &mut Watch, free: u64| watch.look(((4 << 30) - free, None), None);
        assert_eq!(pause(&mut watch, 600 << 20), Duration::from_millis(21));
        assert_eq!(pause(&mut watch, 513 << 20), MIN_PAUSE);
        let mut with_freed = |free: u64| watch.look(((4 << 30) - free, Some(1 << 30)), None);
        assert_eq!(with_freed(300 << 20), Duration::from_millis(10));
        assert_eq!(with_freed(130 << 20), MIN_PAUSE);
    }
}
