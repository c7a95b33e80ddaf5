//! Priorities of threads, by time slices.
//!
//! ```text
//! class        computes                                            slice
//! Serving      network, answers from cuboids                       0.1 ms    the kernel's least
//! Short        planning, queries of a tenth of a second            1 ms
//! Large        builds and other queries                            20 ms
//! Background   recovery of values and upkeep of disk stores        100 ms    the kernel's most
//! ```
//!
//! A thread that wakes while every processor is busy runs at once if its *slice* is shorter than that of a
//! running thread, and otherwise waits for up to one whole slice of it (Linux 6.12 or newer: `SCHED_NORMAL`
//! with `sched_runtime`). A slice sets how long a thread computes at a time, not how much it gets: beside
//! another program each class has the share of any program. Priorities and `sched_yield` cost large queries
//! that share, and without preemption in the kernel a priority counts on ticks only. Older kernels ignore
//! slices; a dashboard beside a large query then waits for a tick or two.

mod slice;

use std::time::Duration;

/// The task of a thread, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadClass {
    /// Serves clients: network, small queries.
    Serving,
    /// Computes queries that take a tenth of a second.
    Short,
    /// Computes builds and large queries.
    Large,
    /// Reads values of live tables after a start and maintains disk stores, beside the statements.
    Background,
}

impl ThreadClass {
    fn slice(self) -> Duration {
        match self {
            Self::Serving => Duration::from_micros(100),
            Self::Short => Duration::from_millis(1),
            Self::Large => Duration::from_millis(20),
            Self::Background => Duration::from_millis(100),
        }
    }
}

/// Adds the calling thread to a class. Where the system has no slices, nothing changes.
pub fn join_class(class: ThreadClass) {
    slice::set(class.slice());
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The slice that the kernel shows, if it was built to.
    fn own_slice() -> Option<Duration> {
        let shown = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
        let line = shown.lines().find(|line| line.starts_with("se.slice"))?;
        Some(Duration::from_nanos(line.rsplit(' ').next()?.parse().ok()?))
    }

    /// Whether the kernel is 6.12 or newer.
    fn has_slices() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 12))
    }

    #[test]
    fn a_thread_has_the_slice_of_its_class() {
        for class in [ThreadClass::Serving, ThreadClass::Short, ThreadClass::Large, ThreadClass::Background] {
            let slice = std::thread::spawn(move || {
                let before = own_slice();
                join_class(class);
                (before, own_slice())
            });
            let (before, after) = slice.join().unwrap();
            if before.is_some() && has_slices() {
                assert_eq!(after, Some(class.slice()), "{class:?}");
            }
        }
    }
}
