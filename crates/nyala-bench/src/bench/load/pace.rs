//! When queries begin.
//!
//! In a closed loop a client asks again as soon as it has its answer: a slow server is asked less, and its
//! worst moments count once for each client, however long they last. With a fixed rate queries are due at
//! times that do not depend on the server. A free client takes the next due query, and the time of a query
//! counts from when it was due, also if every client was busy then (Tene, "How not to measure latency").

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Hands out the times at which queries are due.
pub enum Pace {
    /// A query is due whenever a client asks.
    Closed,
    /// Queries are due at a rate.
    Open(Arrivals),
}

/// Arrivals at even distances.
pub struct Arrivals {
    schedule: Schedule,
    /// One permit for each arrival that is due.
    due: Arc<Semaphore>,
    taken: AtomicU64,
    _clock: Clock,
}

/// The times of arrivals.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    start: Instant,
    interval: Duration,
    count: u64,
}

/// Lets arrivals in, on a thread of its own: timers of the runtime may be a millisecond late.
struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Permits that wake every client after the last arrival.
const FINAL_PERMITS: usize = 1 << 20;
/// Longest sleep of the clock, so that it notices when it is to stop.
const MAX_SLEEP: Duration = Duration::from_millis(50);

impl Pace {
    /// Arrivals from `start` until `end`, `per_second` of them.
    pub fn open(start: Instant, end: Instant, per_second: f64) -> Self {
        let count = (end.saturating_duration_since(start).as_secs_f64() * per_second).round() as u64;
        let schedule = Schedule { start, interval: Duration::from_secs_f64(1.0 / per_second), count };
        let due = Arc::new(Semaphore::new(0));
        let clock = Clock::start(schedule, Arc::clone(&due));
        Self::Open(Arrivals { schedule, due, taken: AtomicU64::new(0), _clock: clock })
    }

    /// Waits for the next query, and gives the time it was due; none after the last.
    pub async fn next(&self, end: Instant) -> Option<Instant> {
        match self {
            Self::Closed => Some(Instant::now()).filter(|now| *now < end),
            Self::Open(arrivals) => arrivals.next().await,
        }
    }
}

impl Arrivals {
    async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.schedule.count).then(|| self.schedule.at(number))
    }
}

impl Schedule {
    /// When an arrival is due, reckoned from the start so that no error adds up.
    fn at(self, number: u64) -> Instant {
        self.start + self.interval.mul_f64(number as f64)
    }
}

impl Clock {
    fn start(schedule: Schedule, due: Arc<Semaphore>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            for number in 0..schedule.count {
                if !sleep_until(schedule.at(number), &stopped) {
                    return;
                }
                due.add_permits(1);
            }
            due.add_permits(FINAL_PERMITS);
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has no result: it only sleeps and counts.
            let _ = thread.join();
        }
    }
}

/// Sleeps until a time; false if it was stopped before.
fn sleep_until(time: Instant, stopped: &AtomicBool) -> bool {
    while !stopped.load(Ordering::Relaxed) {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(MAX_SLEEP));
    }
    false
}
