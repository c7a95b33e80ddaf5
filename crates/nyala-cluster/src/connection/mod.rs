//! One connection for each pair of nodes and direction: HTTP/2 over TLS with the cluster's secret, on which everything that
//! the two say to each other travels side by side.
//!
//! A peer that stops answering is found by pings, and everything on the connection fails. The next request makes a new one.

mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::Peers;
pub use server::{Listener, Listening, serve};

use std::time::Duration;

/// How often an idle or busy connection is asked for a sign of life.
const PING_EVERY: Duration = Duration::from_secs(3);
/// How long the sign of life may take.
const PING_WITHIN: Duration = Duration::from_secs(4);
/// How long a write to a node may make no progress. A node that lives always reads its connection, even while its clients stop reading:
/// each request has a flow-control window of its own.
const TAKEN_WITHIN: Duration = PING_EVERY.saturating_add(PING_WITHIN);
/// How long a connection may take, its handshakes included.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Flow-control window of one request, in bytes: as much memory is taken for a reader that stops.
const STREAM_WINDOW: u32 = 1 << 20;
/// Flow-control window of a connection, in bytes. All its requests share it, and those that stop reading must not use it up.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Requests that may be given up at once: each resets its stream, which the peer would take for an attack otherwise.
const MAX_RESETS: usize = 1 << 20;
/// Bytes of the headers of a request or an answer. The settings of a statement travel in headers, and errors do.
const MAX_HEADERS: u32 = 1 << 20;
