//! Memory of entries that threads have removed from maps that other threads may still read.
//!
//! Concurrent maps (as of moka) drop a removed entry once no thread can still read it (`crossbeam-epoch`). The thread that removed
//! the entry keeps it first, with its other removals, and hands them over when there are many or when it is told to. So the last
//! removals of a thread that sleeps stay in memory for as long as it sleeps.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Steps of [`drop_removed`]. What was removed is dropped two epochs later at the earliest, and each step drops a few removals only.
const STEPS: usize = 16;

static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// A field of values whose memory must not stay long after their removal from such a map. While such a value exists, threads hand over
/// their removals before they sleep.
#[derive(Debug)]
#[non_exhaustive]
pub struct DroppedSoon;

impl DroppedSoon {
    /// Counts a value until this field is dropped.
    pub fn new() -> Self {
        AWAITED.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Default for DroppedSoon {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for DroppedSoon {
    fn drop(&mut self) {
        AWAITED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// To be called by each thread before it sleeps.
pub fn before_sleep() {
    if AWAITED.load(Ordering::Relaxed) > 0 {
        crossbeam_epoch::pin().flush();
    }
}

/// Drops what all threads have handed over and no thread reads any more. Epochs pass otherwise when threads have used such maps
/// some hundred times, which on an idle server takes minutes.
pub fn drop_removed() {
    for _ in 0..STEPS {
        crossbeam_epoch::pin().flush();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, mpsc};

    use super::*;

    /// Each test thread pins an epoch for a moment only, so that a few tries are enough.
    fn is_dropped(kept: &Arc<DroppedSoon>) -> bool {
        (0..1000).any(|_| {
            drop_removed();
            std::thread::yield_now();
            Arc::strong_count(kept) == 1
        })
    }

    #[test]
    fn what_a_thread_removed_before_it_slept_is_dropped() {
        let kept = Arc::new(DroppedSoon::new());
        let (removes, removed) = mpsc::channel();
        let (wakes, woken) = mpsc::channel::<()>();
        let given = Arc::clone(&kept);
        let sleeper = std::thread::spawn(move || {
            crossbeam_epoch::pin().defer(move || drop(given));
            removes.send(()).unwrap();
            woken.recv().unwrap();
            before_sleep();
            removes.send(()).unwrap();
            woken.recv().unwrap();
        });
        removed.recv().unwrap();
        assert!(!is_dropped(&kept), "the thread has not handed it over");
        wakes.send(()).unwrap();
        removed.recv().unwrap();
        assert!(is_dropped(&kept));
        wakes.send(()).unwrap();
        sleeper.join().unwrap();
    }
}
