//! Detects clients that vanished: their machine sleeps, or a router has forgotten the connection.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long a connection may be silent before the system sends a keepalive probe.
const SILENT: Duration = Duration::from_secs(60);
/// How often the system sends another probe. After nine probes without an answer Linux closes the connection.
const AGAIN: Duration = Duration::from_secs(10);

/// Has the system close the connection when the client's machine is gone. The client's statement ends with it.
pub fn notice_death(socket: &TcpStream) {
    let keepalive = TcpKeepalive::new().with_time(SILENT).with_interval(AGAIN);
    if let Err(error) = SockRef::from(socket).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "a connection is not asked whether its client lives");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn the_system_asks() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!SockRef::from(&client).keepalive().unwrap());
        notice_death(&client);
        assert!(SockRef::from(&client).keepalive().unwrap());
    }
}
