//! The connecting end of connections between nodes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use nyala_model::NodeId;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::{
    CONNECT_WITHIN, CONNECTION_WINDOW, MAX_HEADERS, MAX_RESETS, PING_EVERY, PING_WITHIN, STREAM_WINDOW,
};
use crate::identity::{Identity, name_of, server_name, speaks};

/// The connections of this node to others: one to each, made when it is first used and again when it broke.
#[derive(Debug)]
pub struct Peers {
    tls: Arc<ClientConfig>,
    /// The threads that serve connections: planning threads, which ask for connections too, compute for long.
    runtime: Handle,
    known: Mutex<HashMap<NodeId, Peer>>,
}

#[derive(Debug)]
struct Peer {
    address: String,
    channel: Channel,
}

impl Peers {
    /// The connections of a node with this identity, served on `runtime`.
    pub fn new(identity: &Identity, runtime: Handle) -> Self {
        Self { tls: Arc::clone(&identity.client), runtime, known: Mutex::default() }
    }

    /// The connection to a node at `host:port`. It is made, or made anew, by the first request on it.
    ///
    /// # Errors
    /// The node has no name that a certificate can have.
    pub fn channel(&self, node: &NodeId, address: &str) -> io::Result<Channel> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(node).filter(|peer| peer.address == address) {
            return Ok(peer.channel.clone());
        }
        let channel = self.connect(node, address)?;
        known.insert(node.clone(), Peer { address: address.to_owned(), channel: channel.clone() });
        Ok(channel)
    }

    fn connect(&self, node: &NodeId, address: &str) -> io::Result<Channel> {
        let name = server_name(node).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "no certificate can have the node's name")
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let address = address.to_owned();
        // The library wants an address with a scheme. The connector encrypts, whatever the scheme says.
        let endpoint =
            Endpoint::from_shared(format!("http://{}", name_of(node))).map_err(io::Error::other)?;
        let endpoint = endpoint
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(MAX_HEADERS)
            .http2_max_concurrent_reset_streams(MAX_RESETS)
            .http2_max_local_error_reset_streams(MAX_RESETS);
        let attempts = Arc::new(Attempts::default());
        let connect = service_fn(move |_| {
            let (connector, name, address) = (connector.clone(), name.clone(), address.clone());
            let attempts = Arc::clone(&attempts);
            async move {
                attempts.check()?;
                let begun = Instant::now();
                let connecting = shake_hands(&connector, name, &address);
                let stream = tokio::time::timeout(CONNECT_WITHIN, connecting).await;
                let stream = stream.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
                if let Err(error) = &stream {
                    attempts.note(error, begun.elapsed());
                }
                Ok::<_, io::Error>(TokioIo::new(stream?))
            }
        });
        // The library spawns the connection's tasks on the runtime that is entered here.
        let _on = self.runtime.enter();
        Ok(endpoint.connect_with_connector_lazy(connect))
    }
}

/// The last attempt to connect to a node, if it failed.
///
/// The library takes the requests that wait for a connection one after the other, and makes an attempt for each. To a node that is cut off,
/// the twentieth would wait for a minute. So an attempt that failed after a while is not repeated for as long as it took: requests
/// fail for its reason meanwhile. An attempt that was refused at once may be repeated at once.
#[derive(Debug, Default)]
struct Attempts(Mutex<Option<Failed>>);

#[derive(Debug)]
struct Failed {
    until: Instant,
    kind: io::ErrorKind,
    reason: String,
}

impl Attempts {
    fn failed(&self) -> MutexGuard<'_, Option<Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails with the error of the last attempt while that attempt must not be repeated.
    fn check(&self) -> io::Result<()> {
        match self.failed().as_ref().filter(|failed| Instant::now() < failed.until) {
            Some(failed) => Err(io::Error::new(failed.kind, failed.reason.clone())),
            None => Ok(()),
        }
    }

    /// Records that an attempt failed after this time.
    fn note(&self, error: &io::Error, took: Duration) {
        let failed = Failed { until: Instant::now() + took, kind: error.kind(), reason: error.to_string() };
        *self.failed() = Some(failed);
    }
}

async fn shake_hands(
    connector: &TlsConnector,
    name: rustls::pki_types::ServerName<'static>,
    address: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let stream = connector.connect(name, tcp).await?;
    if !speaks(stream.get_ref().1.alpn_protocol()) {
        return Err(io::Error::other("it speaks no protocol of nodes"));
    }
    Ok(stream)
}
