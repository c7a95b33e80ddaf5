//! CPU time and memory of client and server while queries were measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::recorder::Outcome;
use crate::bench::host::{Server, own_cpu};

/// CPU time and memory, over the time that was measured.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Length of the measured time.
    pub elapsed: Duration,
    /// Queries that ended in the measured time, whenever they began.
    pub ended: u64,
    /// Queries of these that were answered without an error.
    pub handled: u64,
    /// CPU time of this process.
    pub client_cpu: Option<Duration>,
    /// CPU time of the server.
    pub server_cpu: Option<Duration>,
    /// Proportional set size of the server at the end, with every client connected.
    pub server_memory_bytes: Option<u64>,
    /// Memory, threads, files and progress of the server in the course of a long run.
    pub course: Vec<Held>,
}

impl Usage {
    /// Takes a later run as the continuation of this one.
    pub fn add(&mut self, later: Self) {
        let both = |own: Option<Duration>, later: Option<Duration>| Some(own? + later?);
        let (begin, ended) = (self.elapsed.as_secs_f64(), self.ended);
        let errors = ended.saturating_sub(self.handled);
        self.course.extend(later.course.into_iter().map(|held| Held {
            at_seconds: held.at_seconds + begin,
            ended: held.ended + ended,
            errors: held.errors + errors,
            ..held
        }));
        self.elapsed += later.elapsed;
        self.ended += later.ended;
        self.handled += later.handled;
        self.client_cpu = both(self.client_cpu, later.client_cpu);
        self.server_cpu = both(self.server_cpu, later.server_cpu);
        self.server_memory_bytes = later.server_memory_bytes.or(self.server_memory_bytes);
    }
}

/// Memory, threads, files and progress of a server at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Held {
    /// Seconds from the begin of the measured time.
    pub at_seconds: f64,
    /// Proportional set size.
    pub memory_bytes: Option<u64>,
    /// Resident set size.
    pub resident_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Files and sockets.
    pub open_files: Option<u64>,
    /// Queries that have ended since the measured time began.
    pub ended: u64,
    /// Queries of these that gave an error, or were not answered in time.
    pub errors: u64,
}

/// Queries of a run so far, also those that are not measured.
#[derive(Debug, Default)]
pub struct Progress {
    /// Queries that ended, however they did.
    pub ended: AtomicU64,
    /// Ended queries that were answered without an error.
    pub handled: AtomicU64,
    /// Ended queries that gave an error, or were not answered in time.
    pub errors: AtomicU64,
}

impl Progress {
    /// Counts a query by its outcome.
    pub fn count(&self, outcome: &Outcome) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let kind = if matches!(outcome, Outcome::Handled(_)) { &self.handled } else { &self.errors };
        kind.fetch_add(1, Ordering::Relaxed);
    }
}

/// Shorter runs are not measured in between: measuring takes time from the server.
const LONG_RUN: Duration = Duration::from_secs(30);
/// Measurements in a run of less than twenty minutes.
const LOOKS: u32 = 120;
/// Longest time between two measurements: a peak shorter than a minute must be seen in a run of hours, too.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    ended: u64,
    handled: u64,
    client: Option<Duration>,
    server: Option<Duration>,
}

impl Reading {
    fn take(progress: &Progress, server: Option<Server>) -> Self {
        Self {
            at: Instant::now(),
            ended: progress.ended.load(Ordering::Relaxed),
            handled: progress.handled.load(Ordering::Relaxed),
            client: own_cpu(),
            server: server.and_then(Server::cpu),
        }
    }
}

/// Reads the counters at both ends of the measured time.
pub async fn watch(from: Instant, until: Instant, progress: &Progress, server: Option<Server>) -> Usage {
    tokio::time::sleep_until(from.into()).await;
    let first = Reading::take(progress, server);
    let course = follow(from, until, progress, server, first).await;
    tokio::time::sleep_until(until.into()).await;
    let last = Reading::take(progress, server);
    let between = |first: Option<Duration>, last: Option<Duration>| Some(last?.saturating_sub(first?));
    Usage {
        elapsed: last.at.saturating_duration_since(first.at),
        ended: last.ended.saturating_sub(first.ended),
        handled: last.handled.saturating_sub(first.handled),
        client_cpu: between(first.client, last.client),
        server_cpu: between(first.server, last.server),
        server_memory_bytes: server.and_then(Server::memory_bytes),
        course,
    }
}

/// Measures the server at even distances until the end.
async fn follow(
    from: Instant,
    until: Instant,
    progress: &Progress,
    server: Option<Server>,
    first: Reading,
) -> Vec<Held> {
    let pause = pause(until.saturating_duration_since(from));
    let Some((server, pause)) = server.zip(pause) else { return Vec::new() };
    let mut course = Vec::new();
    let mut next = from;
    while next < until {
        tokio::time::sleep_until(next.into()).await;
        let held = Held::look(from.elapsed(), progress, server);
        let failed = first.ended.saturating_sub(first.handled);
        course.push(Held {
            ended: held.ended.saturating_sub(first.ended),
            errors: held.errors.saturating_sub(failed),
            ..held
        });
        next += pause;
    }
    course
}

/// The time between two measurements in a run of this length; none if there are none.
fn pause(duration: Duration) -> Option<Duration> {
    (duration >= LONG_RUN).then(|| (duration / LOOKS).min(MAX_PAUSE))
}

impl Held {
    fn look(at: Duration, progress: &Progress, server: Server) -> Self {
        Self {
            at_seconds: at.as_secs_f64(),
            memory_bytes: server.memory_bytes(),
            resident_bytes: server.resident_bytes(),
            threads: server.threads(),
            open_files: server.open_files(),
            ended: progress.ended.load(Ordering::Relaxed),
            errors: progress.errors.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_looked_at_and_hours_no_less_often_than_minutes() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(seconds(29)), None);
        assert_eq!(pause(seconds(60)), Some(Duration::from_millis(500)));
        assert_eq!(pause(seconds(3600)), Some(seconds(10)));
    }
}
