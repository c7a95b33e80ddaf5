//! Connections before their login: few from each address, few altogether, for a short time, and the oldest gives way
//! to a newcomer.
//!
//! They are counted apart from `server.max_connections`, so that sockets without a login (half-open, slow, or
//! forgotten ones) keep out only other sockets of their kind. A login takes some milliseconds, so the oldest
//! connection is the least likely to be about to finish one.
//!
//! ```text
//! accept ─▶ admit ──▶ TLS, start-up, password / head of a request ──▶ logged in: a place of `max_connections`
//!              │            ▲
//!              └─ evicts ───┘ the oldest of the address, or of all
//! ```

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge};
use nyala_model::config::ServerConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Sockets beyond the bound that may be open for the moment that evicted connections take to close.
const CLOSING_SOCKETS: usize = 64;

/// Pause between two log lines about evictions: a flood of connections must not be one of log lines.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The source of a connection. Each source has a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An address; of IPv6 the network, of which a single machine usually has all addresses.
    Address(IpAddr),
    /// A user of this machine, over a Unix socket.
    User(u32),
}

impl Origin {
    /// The origin of a connection of the network.
    pub fn of(peer: SocketAddr) -> Self {
        match peer.ip().to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Self::Address(IpAddr::V6(network.into()))
            }
            address => Self::Address(address),
        }
    }
}

/// Why a connection was ended before its client had logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was the oldest when a newer one needed its place.
    Evicted,
    /// `server.login_timeout_ms` is over.
    Late,
}

/// The connections to one door before their login.
#[derive(Debug)]
pub struct PendingConnections {
    limits: Limits,
    waiting: Mutex<Waiting>,
    sockets: Arc<Semaphore>,
    counted: Counted,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    total: usize,
    per_address: usize,
    timeout: Duration,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Number of the next connection: lower numbers are older.
    next: u64,
    connections: HashMap<u64, (Origin, CancellationToken)>,
    by_age: BTreeSet<u64>,
    by_origin: HashMap<Origin, BTreeSet<u64>>,
    warned: Option<Instant>,
}

impl Waiting {
    fn insert(&mut self, origin: Origin) -> (u64, CancellationToken) {
        let (number, evicted) = (self.next, CancellationToken::new());
        self.next += 1;
        self.connections.insert(number, (origin, evicted.clone()));
        self.by_age.insert(number);
        self.by_origin.entry(origin).or_default().insert(number);
        (number, evicted)
    }

    /// Forgets a connection; none if it was evicted before.
    fn remove(&mut self, number: u64) -> Option<CancellationToken> {
        let (origin, evicted) = self.connections.remove(&number)?;
        self.by_age.remove(&number);
        if let Some(numbers) = self.by_origin.get_mut(&origin) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
        Some(evicted)
    }

    /// The connection that gives way to one from `origin`, if one has to.
    fn victim(&self, origin: Origin, limits: Limits) -> Option<u64> {
        let same = self.by_origin.get(&origin).filter(|numbers| numbers.len() >= limits.per_address);
        let all = Some(&self.by_age).filter(|numbers| numbers.len() >= limits.total);
        same.or(all)?.first().copied()
    }

    fn evict(&mut self, number: u64) -> bool {
        let evicted = self.remove(number);
        evicted.inspect(CancellationToken::cancel).is_some()
    }

    /// Whether the log was silent about evictions for long enough.
    fn may_warn(&mut self) -> bool {
        let now = Instant::now();
        let due = self.warned.is_none_or(|warned| now.duration_since(warned) >= WARNING_INTERVAL);
        if due {
            self.warned = Some(now);
        }
        due
    }
}

/// The metrics of one door.
#[derive(Debug)]
struct Counted {
    waiting: Gauge,
    evicted: Counter,
    late: Counter,
}

impl Counted {
    fn of(door: &'static str) -> Self {
        ::metrics::describe_gauge!(
            "nyala_pending_connections",
            "Connections whose clients have not logged in, by door."
        );
        ::metrics::describe_counter!(
            "nyala_pending_closed_total",
            "Connections closed before their clients had logged in, by door and reason."
        );
        let closed = |reason: &'static str| ::metrics::counter!("nyala_pending_closed_total", "door" => door, "reason" => reason);
        Self {
            waiting: ::metrics::gauge!("nyala_pending_connections", "door" => door),
            evicted: closed("evicted"),
            late: closed("timeout"),
        }
    }
}

impl PendingConnections {
    /// No connections yet. `door` names the door in metrics, `config` has the bounds.
    pub fn new(door: &'static str, config: &ServerConfig) -> Arc<Self> {
        let total = config.max_pending_connections.min(Semaphore::MAX_PERMITS / 2);
        let limits = Limits {
            total,
            per_address: config.max_pending_per_address,
            timeout: Duration::from_millis(config.login_timeout_ms),
        };
        Arc::new(Self {
            limits,
            waiting: Mutex::default(),
            sockets: Arc::new(Semaphore::new(total + CLOSING_SOCKETS)),
            counted: Counted::of(door),
        })
    }

    /// Counts a connection that was just accepted. If a bound is reached the oldest one gives way. Waits while more
    /// evicted connections than [`CLOSING_SOCKETS`] are still open; they close as soon as they are told.
    pub async fn admit(self: &Arc<Self>, origin: Origin) -> Pending {
        let deadline = Instant::now() + self.limits.timeout;
        if self.lock().victim(origin, self.limits).is_some() {
            // The oldest may have input by now: they go on first, so that many clients at once all get in.
            yield_now().await;
        }
        let (number, evicted) = self.register(origin);
        self.counted.waiting.increment(1.0);
        let mut pending = Pending { connections: Arc::clone(self), number, evicted, deadline, socket: None };
        // The semaphore is never closed.
        pending.socket = Arc::clone(&self.sockets).acquire_owned().await.ok();
        pending
    }

    fn register(&self, origin: Origin) -> (u64, CancellationToken) {
        let mut waiting = self.lock();
        if let Some(number) = waiting.victim(origin, self.limits)
            && waiting.evict(number)
        {
            self.counted.evicted.increment(1);
            if waiting.may_warn() {
                let Limits { total, per_address, .. } = self.limits;
                tracing::warn!(
                    ?origin,
                    "too many connections that have not logged in (at most {per_address} from an address, {total} in all): the oldest are closed"
                );
            }
        }
        waiting.insert(origin)
    }

    /// Ends the oldest connection, because the system has no room for another socket.
    pub fn evict_oldest(&self) {
        let mut waiting = self.lock();
        if let Some(number) = waiting.by_age.first().copied()
            && waiting.evict(number)
        {
            self.counted.evicted.increment(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection before its login. Dropping it means that the client has logged in, or that the connection is closed.
#[derive(Debug)]
pub struct Pending {
    connections: Arc<PendingConnections>,
    number: u64,
    evicted: CancellationToken,
    deadline: Instant,
    /// Counts the socket until it is closed, or its client has logged in.
    socket: Option<OwnedSemaphorePermit>,
}

impl Pending {
    /// Resolves when the connection has to end, and gives the reason.
    pub fn ended(&self) -> impl Future<Output = Ended> + use<> {
        let (evicted, deadline) = (self.evicted.clone(), self.deadline);
        let late = self.connections.counted.late.clone();
        async move {
            tokio::select! {
                () = evicted.cancelled() => Ended::Evicted,
                () = sleep_until(deadline) => {
                    late.increment(1);
                    Ended::Late
                }
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        drop(self.socket.take());
        self.connections.lock().remove(self.number);
        self.connections.counted.waiting.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use futures::FutureExt;

    use super::*;

    fn pending(total: usize, per_address: usize) -> Arc<PendingConnections> {
        let config = ServerConfig {
            max_pending_connections: total,
            max_pending_per_address: per_address,
            login_timeout_ms: 60_000,
            ..ServerConfig::default()
        };
        PendingConnections::new("test", &config)
    }

    fn from(address: &str) -> Origin {
        Origin::of(SocketAddr::new(address.parse().unwrap(), 1))
    }

    fn is_evicted(pending: &Pending) -> bool {
        pending.ended().now_or_never() == Some(Ended::Evicted)
    }

    #[tokio::test]
    async fn the_oldest_of_an_address_gives_way_to_the_next_of_it() {
        let pending = pending(10, 2);
        let other = pending.admit(from("10.0.0.2")).await;
        let first = pending.admit(from("10.0.0.1")).await;
        let second = pending.admit(from("10.0.0.1")).await;
        assert!(!is_evicted(&first));
        let third = pending.admit(from("10.0.0.1")).await;
        assert_eq!([&first, &second, &third, &other].map(is_evicted), [true, false, false, false]);
        drop(second);
        let fourth = pending.admit(from("10.0.0.1")).await;
        assert_eq!([&third, &fourth].map(is_evicted), [false, false], "there was room");
    }

    #[tokio::test]
    async fn the_oldest_of_all_gives_way_to_an_address_with_few() {
        let pending = pending(3, 2);
        let addresses = ["10.0.0.1", "10.0.0.1", "10.0.0.2"];
        let mut open = Vec::new();
        for address in addresses {
            open.push(pending.admit(from(address)).await);
        }
        let newcomer = pending.admit(Origin::User(1000)).await;
        assert_eq!(open.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false]);
        assert!(!is_evicted(&newcomer));
        pending.evict_oldest();
        assert!(is_evicted(&open[1]));
        drop(open);
        drop(newcomer);
        let waiting = pending.lock();
        assert!(waiting.connections.is_empty() && waiting.by_age.is_empty() && waiting.by_origin.is_empty());
    }

    #[tokio::test]
    async fn sockets_are_bounded_also_while_they_close() {
        let pending = pending(1, 1);
        let mut closing = Vec::new();
        for _ in 0..=CLOSING_SOCKETS {
            closing.push(pending.admit(from("10.0.0.1")).await);
        }
        let newcomer = tokio::spawn(async move { pending.admit(from("10.0.0.1")).await });
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!newcomer.is_finished(), "65 sockets are open");
        closing.pop();
        newcomer.await.unwrap();
    }

    #[test]
    fn an_origin_is_an_address_or_a_network() {
        assert_eq!(from("::ffff:10.0.0.1"), from("10.0.0.1"));
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff:2"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_ne!(from("10.0.0.1"), from("10.0.0.2"));
    }

    #[tokio::test]
    async fn a_client_has_so_long_to_log_in() {
        let config = ServerConfig { login_timeout_ms: 1, ..ServerConfig::default() };
        let pending = PendingConnections::new("test", &config).admit(from("10.0.0.1")).await;
        assert_eq!(pending.ended().await, Ended::Late);
    }
}
