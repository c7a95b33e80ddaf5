//! Tells the service manager that started this process, usually systemd, whether the server is ready, alive or stopping.
//!
//! ```text
//! open ─▶ READY=1 ─▶ WATCHDOG=1, twice in each of the manager's intervals ─▶ STOPPING=1 ─▶ WATCHDOG=1 … ─▶ end
//! ```
//!
//! The protocol is that of sd_notify(3): datagrams with lines `NAME=value`, sent to the Unix socket that `NOTIFY_SOCKET`
//! names. Without that variable nothing is sent. An error of sending does not keep the server from serving.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use nyala_engine::Engine;
use tokio_util::sync::CancellationToken;

/// Time for a stop besides its grace: cancelled work ends, stores are closed, the catalog is copied.
const AFTER_GRACE: Duration = Duration::from_secs(30);

/// The way to the service manager.
#[derive(Debug)]
pub struct ServiceManager {
    /// The manager's socket; none if no manager is to be told.
    socket: Option<Socket>,
    /// The manager restarts a process that it has not heard of for so long; none if it does not watch this process.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Socket {
    datagrams: UnixDatagram,
    manager: SocketAddr,
}

impl ServiceManager {
    /// The manager that the environment names.
    pub fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let socket = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            let opened = Socket::open(&name);
            if let Err(error) = &opened {
                tracing::warn!(socket = name, %error, "the service manager cannot be told how this server is");
            }
            opened.ok()
        });
        let process = variable("WATCHDOG_PID");
        let watchdog = interval(variable("WATCHDOG_USEC").as_deref(), process.as_deref(), std::process::id());
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    /// Tells that the server takes queries. `status` is shown by `systemctl status`.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// Tells that the server has begun to stop, and lets queries end for `grace`. Asks for as much time, so that the manager
    /// need not know the configuration.
    pub fn stopping(&self, grace: Duration) {
        let micros = (grace + AFTER_GRACE).as_micros();
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}\nSTATUS=waiting for running queries"));
    }

    /// Tells that the process is alive, as long as it is: the threads that serve clients run this task, and the engine's
    /// watchdog looks at statements on its own threads. Statements without progress are no reason for a restart: all clients would pay
    /// for one that reads nothing. While the server stops, its end is bounded by other means.
    pub async fn keep_alive(self: Arc<Self>, engine: Arc<Engine>, stopping: CancellationToken) {
        let Some(interval) = self.watchdog else { return };
        loop {
            // A closed engine is not watched. If another process runs as this node, a restart would only drive that one out, and so
            // on in turns.
            let is_closed = stopping.is_cancelled() || engine.check_open().is_err();
            if is_closed || engine.is_watched() {
                self.tell("WATCHDOG=1");
            } else {
                tracing::error!(
                    "the engine's watchdog does not look any more; the service manager is not told that this server is alive"
                );
            }
            tokio::time::sleep(interval / 2).await;
        }
    }

    fn tell(&self, lines: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.datagrams.send_to_addr(lines.as_bytes(), &socket.manager) {
            tracing::warn!(%error, "the service manager was not told: {}", lines.lines().next().unwrap_or_default());
        }
    }
}

impl Socket {
    fn open(name: &str) -> io::Result<Self> {
        let datagrams = UnixDatagram::unbound()?;
        // A manager that does not read must not hold up a thread that serves clients.
        datagrams.set_nonblocking(true)?;
        Ok(Self { datagrams, manager: address(name)? })
    }
}

/// A path, or after `@` a name without a file, as Linux has them.
fn address(name: &str) -> io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        _ if name.starts_with('/') => SocketAddr::from_pathname(name),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Unix socket")),
    }
}

/// The interval of a watchdog from its texts; none if it is meant for another process, such as the shell that started this one.
fn interval(micros: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    let is_meant = process.is_none_or(|process| process.parse() == Ok(own));
    is_meant.then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_watchdog_watches_the_process_that_it_names() {
        let check = |micros, process, seconds: Option<u64>| {
            assert_eq!(
                interval(micros, process, 7),
                seconds.map(Duration::from_secs),
                "{micros:?} {process:?}"
            );
        };
        check(None, None, None);
        check(Some("3000000"), None, Some(3));
        check(Some("3000000"), Some("7"), Some(3));
        check(Some("3000000"), Some("8"), None);
        check(Some("0"), None, None);
        check(Some("soon"), Some("7"), None);
    }

    #[test]
    fn the_manager_is_told_through_a_file_or_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let mut names = vec![(path.to_str().unwrap().to_owned(), UnixDatagram::bind(&path).unwrap())];
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("nyala-test-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            names.push((format!("@{name}"), UnixDatagram::bind_addr(&address).unwrap()));
        }
        for (name, manager) in names {
            let service = ServiceManager { socket: Some(Socket::open(&name).unwrap()), watchdog: None };
            service.ready("serves");
            service.stopping(Duration::from_secs(10));
            let mut bytes = [0; 256];
            let mut next = || {
                let length = manager.recv(&mut bytes).unwrap();
                String::from_utf8_lossy(bytes.split_at(length).0).into_owned()
            };
            assert_eq!(next(), "READY=1\nSTATUS=serves");
            assert!(next().starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\n"), "{name}");
        }
        assert!(address("vsock:2:1").is_err());
    }
}
