//! Memory of threads and of the process.

use std::sync::OnceLock;

/// The counters of a binary's allocator.
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    /// Bytes that the calling thread has allocated, less bytes it has freed, also of other threads.
    pub thread_bytes: fn() -> i64,
    /// Bytes in used pages. The process occupies more: freed pages return to the system seconds later, and
    /// are reused before new ones.
    pub active_bytes: fn() -> Option<u64>,
    /// Returns freed pages to the system at once.
    pub give_back: fn(),
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Registers the counters of this binary's allocator. Without it, statements seem to hold nothing. The first
/// caller wins.
///
/// The allocator keeps the count of each thread anyway, without locks, so that an allocation costs no more
/// than before. The difference over a poll is the allocation of the polled statement.
pub fn count_bytes_with(allocator: Allocator) {
    let _ = ALLOCATOR.set(allocator);
}

pub(crate) fn thread_bytes() -> i64 {
    ALLOCATOR.get().map_or(0, |allocator| (allocator.thread_bytes)())
}

/// Bytes of memory that the process needs: the used pages of its [resident](resident_bytes) memory. None if
/// the allocator does not report it.
pub fn active_bytes() -> Option<u64> {
    ALLOCATOR.get().and_then(|allocator| (allocator.active_bytes)())
}

/// Returns freed memory to the system, if the allocator keeps some.
pub fn give_back_freed() {
    if let Some(allocator) = ALLOCATOR.get() {
        (allocator.give_back)();
    }
}

/// Bytes of memory that the process occupies, without file pages, which the system reclaims on demand. None
/// if the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: u64| kib.saturating_mul(1024))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_process_occupies_what_it_writes() {
        let before = resident_bytes().unwrap();
        let written = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after >= before + (48 << 20), "{before}, {after}");
        drop(written);
    }
}
