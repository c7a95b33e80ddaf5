//! How far a generation is: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines when there is no terminal.
const LINE_EVERY_MS: u64 = 3_000;

/// Counts rows and shows them on stderr. Clones share one count.
#[derive(Clone)]
pub struct Progress(Arc<Inner>);

struct Inner {
    display: Display,
    started: Instant,
    expected_rows: AtomicU64,
    rows: AtomicU64,
}

enum Display {
    #[cfg(test)]
    Hidden,
    Bar(ProgressBar),
    Lines {
        next_ms: AtomicU64,
    },
}

impl Progress {
    /// Shows a bar when stderr is a terminal, and otherwise a line every few seconds.
    pub fn shown() -> Self {
        if stderr().is_terminal() {
            Self::new(Display::Bar(bar()))
        } else {
            Self::new(Display::Lines { next_ms: AtomicU64::new(LINE_EVERY_MS) })
        }
    }

    /// Counts, but shows nothing.
    #[cfg(test)]
    pub fn hidden() -> Self {
        Self::new(Display::Hidden)
    }

    fn new(display: Display) -> Self {
        let zero = || AtomicU64::new(0);
        Self(Arc::new(Inner { display, started: Instant::now(), expected_rows: zero(), rows: zero() }))
    }

    /// Rows generated so far.
    pub fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// Rows there will be, about.
    pub fn expected_rows(&self) -> u64 {
        self.0.expected_rows.load(Ordering::Relaxed)
    }

    /// Says how many rows there will be, about.
    pub(super) fn expect(&self, rows: u64) {
        self.0.expected_rows.fetch_add(rows, Ordering::Relaxed);
        if let Display::Bar(bar) = &self.0.display {
            bar.inc_length(rows);
        }
    }

    /// Counts rows as generated.
    pub(super) fn add(&self, rows: u64) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
        match &self.0.display {
            #[cfg(test)]
            Display::Hidden => {}
            Display::Bar(bar) => bar.inc(rows),
            Display::Lines { next_ms } => self.maybe_line(next_ms),
        }
    }

    /// Takes the bar off the terminal.
    pub(super) fn finish(&self) {
        if let Display::Bar(bar) = &self.0.display {
            bar.finish_and_clear();
        }
    }

    /// Writes a line if one is due; of several threads that find so, one does.
    fn maybe_line(&self, next_ms: &AtomicU64) {
        let elapsed = self.0.started.elapsed();
        let now_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let due_ms = next_ms.load(Ordering::Relaxed);
        let following_ms = now_ms.saturating_add(LINE_EVERY_MS);
        let due = now_ms >= due_ms
            && next_ms.compare_exchange(due_ms, following_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if due {
            // A closed stderr is no reason to stop generating.
            writeln!(stderr(), "{}", line(self.rows(), self.expected_rows(), elapsed)).ok();
        }
    }
}

fn bar() -> ProgressBar {
    let template = "{wide_bar} {human_pos} of about {human_len} rows, {per_sec:0}, ETA {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// The text of a progress line.
fn line(rows: u64, expected_rows: u64, elapsed: Duration) -> String {
    let rows_per_second = rows as f64 / elapsed.as_secs_f64().max(0.001);
    let left = expected_rows.saturating_sub(rows) as f64;
    let eta_seconds = left / rows_per_second.max(1.0);
    let percent = 100.0 * rows as f64 / expected_rows.max(1) as f64;
    format!(
        "{rows} of about {expected_rows} rows ({:.0} %), {rows_per_second:.0} rows/s, ETA {eta_seconds:.0} s",
        percent.min(100.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_share_rate_and_time_left() {
        let check = |rows, expected, seconds, text| {
            assert_eq!(line(rows, expected, Duration::from_secs(seconds)), text);
        };
        check(500, 2_000, 5, "500 of about 2000 rows (25 %), 100 rows/s, ETA 15 s");
        check(2_010, 2_000, 2, "2010 of about 2000 rows (100 %), 1005 rows/s, ETA 0 s");
        check(0, 0, 0, "0 of about 0 rows (0 %), 0 rows/s, ETA 0 s");
    }

    #[test]
    fn clones_count_together() {
        let progress = Progress::hidden();
        progress.expect(10);
        progress.clone().add(4);
        assert_eq!((progress.rows(), progress.expected_rows()), (4, 10));
    }
}
