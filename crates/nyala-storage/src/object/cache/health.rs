//! Switches a disk off after repeated failures, so that queries do not wait for it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After so many failures in a row the disk is switched off.
const MAX_FAILURES: u32 = 8;
/// How long the disk stays off before it is tried again.
const PAUSE: Duration = Duration::from_secs(60);

/// The health of reading, or of writing.
#[derive(Debug)]
pub struct Health {
    what: &'static str,
    began: Instant,
    failures: AtomicU32,
    /// The time until which the disk is off, in milliseconds since `began`.
    off_until_ms: AtomicU64,
}

impl Health {
    /// The health of a disk that works. `what` is the operation: "read" or "write".
    pub fn new(what: &'static str) -> Self {
        let (failures, off_until_ms) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { what, began: Instant::now(), failures, off_until_ms }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the disk is to be used.
    pub fn is_on(&self) -> bool {
        let until = self.off_until_ms.load(Ordering::Relaxed);
        until == 0 || self.now_ms() >= until
    }

    /// Notes a success.
    pub fn worked(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a failure.
    pub fn failed(&self, folder: &Path, error: &io::Error) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 < MAX_FAILURES {
            return;
        }
        let pause = u64::try_from(PAUSE.as_millis()).unwrap_or(u64::MAX);
        self.off_until_ms.store(self.now_ms().saturating_add(pause), Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        tracing::warn!(
            "the block cache does not {} `{}` for {} s after {MAX_FAILURES} failures: {error}; check the disk",
            self.what,
            folder.display(),
            PAUSE.as_secs(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_switch_off() {
        let health = Health::new("read");
        let fail = |times| (0..times).for_each(|_| health.failed(Path::new("/x"), &io::Error::other("x")));
        fail(MAX_FAILURES - 1);
        health.worked();
        fail(MAX_FAILURES - 1);
        assert!(health.is_on());
        fail(1);
        assert!(!health.is_on());
    }
}
