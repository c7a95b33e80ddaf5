//! How long statements stay in each phase.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::entry::{Entry, Phase};

/// Upper bounds of the buckets, in microseconds. The last bucket has none.
const BOUNDS_US: [u64; 19] = [
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// The phase before a statement begins: its text is parsed, its names and types are resolved.
pub const PREPARING: &str = "preparing";

/// Times of all statements in one phase.
#[derive(Debug, Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    fn read(&self, phase: &'static str) -> PhaseTimes {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        PhaseTimes { phase, counts, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// Times of all statements.
#[derive(Debug, Default)]
pub struct Phases {
    parsing: Histogram,
    preparing: Histogram,
    of_statements: [Histogram; Phase::ALL.len()],
}

/// How long statements have been in one phase since the start, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseTimes {
    /// `parsing`, `preparing`, `planning`, `queued`, `running` or `sending`. Here `preparing` does not include parsing.
    pub phase: &'static str,
    /// Times in each bucket: at most its bound, above the one before. The last bucket is above all bounds.
    counts: Vec<u64>,
    /// Sum of all times, in microseconds.
    pub sum_us: u64,
}

impl PhaseTimes {
    /// Upper bounds in seconds, each with the number of times up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.counts.iter().scan(0_u64, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).zip(counts)
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Phases {
    /// Records the parsing of a text.
    pub fn parsed(&self, took: Duration) {
        self.parsing.observe(took);
    }

    /// Records the preparation of a statement.
    pub fn prepared(&self, took: Duration) {
        self.preparing.observe(took);
    }

    /// Records the phases of an ended statement.
    pub fn ended(&self, entry: &Entry) {
        for (phase, histogram) in Phase::ALL.into_iter().zip(&self.of_statements) {
            let time = entry.spent(phase);
            if !time.is_zero() {
                histogram.observe(time);
            }
        }
    }

    pub fn read(&self) -> Vec<PhaseTimes> {
        let statements = Phase::ALL.into_iter().zip(&self.of_statements);
        let statements = statements.map(|(phase, histogram)| histogram.read(phase.name()));
        let before = [self.parsing.read("parsing"), self.preparing.read(PREPARING)];
        before.into_iter().chain(statements).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_at_the_first_bound_that_they_do_not_exceed() {
        let histogram = Histogram::default();
        for us in [0, 25, 26, 1_000, 40_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let times = histogram.read("running");
        let counts: Vec<u64> = times.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5]);
        assert_eq!((times.count(), times.sum_us), (5, 40_001_051));
    }
}
