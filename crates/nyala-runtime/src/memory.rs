//! How much memory threads and the process hold.

use std::sync::OnceLock;

/// What the allocator of a binary counts.
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    /// Bytes that the calling thread allocated so far less those it freed, whoever allocated them.
    pub thread_bytes: fn() -> i64,
    /// Bytes in pages that hold something. The process occupies more: pages that were freed are given back to the system seconds later,
    /// and used again before new ones are.
    pub active_bytes: fn() -> Option<u64>,
    /// Gives pages that were freed back to the system at once.
    pub give_back: fn(),
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Says how the allocator of this binary counts. Without it, statements hold nothing as far as is known. The first caller counts.
///
/// The allocator keeps the count of each thread anyway, without locks, so that an allocation costs no more than before: the
/// difference over a poll is what the polled statement allocated.
pub fn count_bytes_with(allocator: Allocator) {
    let _ = ALLOCATOR.set(allocator);
}

pub(crate) fn thread_bytes() -> i64 {
    ALLOCATOR.get().map_or(0, |allocator| (allocator.thread_bytes)())
}

/// Bytes of memory that the process cannot do without: of what it [occupies](resident_bytes), what holds something. None where
/// the allocator does not tell.
pub fn active_bytes() -> Option<u64> {
    ALLOCATOR.get().and_then(|allocator| (allocator.active_bytes)())
}

/// Gives memory that was freed back to the system, where the allocator keeps some.
pub fn give_back_freed() {
    if let Some(allocator) = ALLOCATOR.get() {
        (allocator.give_back)();
    }
}

/// Bytes of memory that the process occupies, without pages of files, which the system takes back when it needs them. None where
/// the system does not tell.
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
