//! Signals that ask the process to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, from the moment that this is made. A signal between two calls of [`Requests::next`] is kept.
///
/// `nyala serve` makes it first of all. As process 1 of a container it gets only signals that it listens for: `docker stop` would have no
/// effect while it opens its data folder.
pub struct Requests {
    interrupt: Signal,
    terminate: Signal,
}

impl Requests {
    /// Begins to listen.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
