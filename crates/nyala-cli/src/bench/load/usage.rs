//! What client and server used while queries were measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bench::host::{Server, own_cpu};

/// CPU time and memory, over the time that was measured.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// How long was looked.
    pub elapsed: Duration,
    /// Queries that ended meanwhile, whenever they began.
    pub ended: u64,
    /// CPU time of this process.
    pub client_cpu: Option<Duration>,
    /// CPU time of the server.
    pub server_cpu: Option<Duration>,
    /// Proportional set size of the server at the end, with every client connected.
    pub server_memory_bytes: Option<u64>,
    /// What the server held in the course of a long run.
    pub course: Vec<Held>,
}

/// What a server holds at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Held {
    /// Seconds from the begin of the measured time.
    pub at_seconds: f64,
    /// Proportional set size.
    pub memory_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Files and sockets.
    pub open_files: Option<u64>,
}

/// Shorter runs are not looked at in between: looking takes time from the server.
const LONG_RUN: Duration = Duration::from_secs(30);
/// Looks at a long run.
const LOOKS: u32 = 120;

/// A moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    ended: u64,
    client: Option<Duration>,
    server: Option<Duration>,
}

impl Reading {
    fn take(ended: &AtomicU64, server: Option<Server>) -> Self {
        Self {
            at: Instant::now(),
            ended: ended.load(Ordering::Relaxed),
            client: own_cpu(),
            server: server.and_then(Server::cpu),
        }
    }
}

/// Reads at both ends of the time that is measured.
pub async fn watch(from: Instant, until: Instant, ended: &AtomicU64, server: Option<Server>) -> Usage {
    tokio::time::sleep_until(from.into()).await;
    let first = Reading::take(ended, server);
    let course = follow(from, until, server).await;
    tokio::time::sleep_until(until.into()).await;
    let last = Reading::take(ended, server);
    let between = |first: Option<Duration>, last: Option<Duration>| Some(last?.saturating_sub(first?));
    Usage {
        elapsed: last.at.saturating_duration_since(first.at),
        ended: last.ended.saturating_sub(first.ended),
        client_cpu: between(first.client, last.client),
        server_cpu: between(first.server, last.server),
        server_memory_bytes: server.and_then(Server::memory_bytes),
        course,
    }
}

/// Looks at the server at even distances until the end.
async fn follow(from: Instant, until: Instant, server: Option<Server>) -> Vec<Held> {
    let duration = until.saturating_duration_since(from);
    let Some(server) = server.filter(|_| duration >= LONG_RUN) else { return Vec::new() };
    let mut course = Vec::new();
    for look in 0..LOOKS {
        tokio::time::sleep_until((from + duration * look / LOOKS).into()).await;
        course.push(Held {
            at_seconds: from.elapsed().as_secs_f64(),
            memory_bytes: server.memory_bytes(),
            threads: server.threads(),
            open_files: server.open_files(),
        });
    }
    course
}
