//! The listening end of connections between nodes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::{
    CONNECT_WITHIN, CONNECTION_WINDOW, MAX_HEADERS, MAX_RESETS, PING_EVERY, PING_WITHIN, STREAM_WINDOW,
    TAKEN_WITHIN,
};
use crate::identity::{Identity, speaks};

/// Handshakes at once; further connections wait to be accepted.
const HANDSHAKES: usize = 64;

/// Connections that the system accepts before this process does.
const BACKLOG: u32 = 128;

/// The address that other nodes will connect to. Until [`Self::listen`] the system refuses their connections, so that no node waits for a
/// process that starts.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpSocket,
    tls: Arc<ServerConfig>,
}

/// The address that other nodes connect to.
#[derive(Debug)]
pub struct Listening {
    tcp: TcpListener,
    tls: Arc<ServerConfig>,
}

impl Listener {
    /// Takes an address.
    ///
    /// # Errors
    /// The address is taken or not of this machine.
    pub fn bind(address: SocketAddr, identity: &Identity) -> io::Result<Self> {
        let tcp = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Connections of the previous process may still be closing.
        tcp.set_reuseaddr(true)?;
        tcp.bind(address)?;
        Ok(Self { tcp, tls: Arc::clone(&identity.server) })
    }

    /// The address; if it was asked for with port 0, the port is the one that the system chose.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Lets connections come. They wait until they are [served](serve).
    ///
    /// # Errors
    /// Another process listens there by now.
    pub fn listen(self) -> io::Result<Listening> {
        Ok(Listening { tcp: self.tcp.listen(BACKLOG)?, tls: self.tls })
    }
}

/// Serves `routes` to nodes that prove that they know the secret, until `stop` is ready; requests that run then may end.
///
/// # Errors
/// The socket fails.
pub async fn serve(
    listener: Listening,
    routes: Routes,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (sender, accepted) = mpsc::channel(HANDSHAKES);
    let accepting = tokio::spawn(accept(listener, sender));
    let served = Server::builder()
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_WITHIN))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_max_pending_accept_reset_streams(Some(MAX_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_RESETS))
        .add_routes(routes)
        .serve_with_incoming_shutdown(Accepted(accepted), stop)
        .await;
    accepting.abort();
    served
}

async fn accept(listener: Listening, sender: mpsc::Sender<NodeStream>) {
    let (acceptor, handshakes) = (TlsAcceptor::from(listener.tls), Arc::new(Semaphore::new(HANDSHAKES)));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (tcp, address) = match listener.tcp.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // One connection failed, or there are no file descriptors left: then a pause helps.
                tracing::debug!(%error, "a connection of a node is not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(CONNECT_WITHIN, shake_hands(acceptor, tcp)).await {
                // The server may be stopping.
                Ok(Ok(stream)) => drop(sender.send(stream).await),
                Ok(Err(error)) => {
                    tracing::warn!(%address, %error, "a connection to the nodes' port is refused")
                }
                Err(_) => {
                    tracing::warn!(%address, "a connection to the nodes' port is refused: it does not say who it is")
                }
            }
        });
    }
}

async fn shake_hands(acceptor: TlsAcceptor, tcp: TcpStream) -> io::Result<NodeStream> {
    tcp.set_nodelay(true)?;
    let stream = acceptor.accept(tcp).await?;
    if !speaks(stream.get_ref().1.alpn_protocol()) {
        return Err(io::Error::other("it speaks no protocol of nodes"));
    }
    Ok(NodeStream { stream, fails: None })
}

/// Connections that are accepted, as a stream.
struct Accepted(mpsc::Receiver<NodeStream>);

impl Stream for Accepted {
    type Item = io::Result<NodeStream>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|stream| stream.map(Ok))
    }
}

/// A connection of a node. Writing to a node that takes nothing fails after a while. The library would not end such a connection: before it
/// closes one that answers no pings it says farewell, and waits until the node has taken all that was written before. What runs
/// for the node would go on for as long.
struct NodeStream {
    stream: TlsStream<TcpStream>,
    /// The deadline of a write that makes no progress; none while writes succeed.
    fails: Option<Pin<Box<Sleep>>>,
}

impl NodeStream {
    /// The outcome of writing, or an error if the node has taken nothing for too long.
    fn taken<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.fails = None;
            return written;
        }
        let fails = self.fails.get_or_insert_with(|| Box::pin(tokio::time::sleep(TAKEN_WITHIN)));
        fails.as_mut().poll(context).map(|()| Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl Connected for NodeStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for NodeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for NodeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.taken(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(context);
        self.taken(context, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_shutdown(context);
        self.taken(context, written)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::NodeId;
    use rustls::ClientConfig;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::identity::server_name;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn identity(secret: &str, name: &str) -> Identity {
        Identity::new(secret, &NodeId(name.to_owned())).unwrap()
    }

    /// Whether node `n1` accepts a client that wants to connect to node `meant`, and whether the client accepts `n1` as that node.
    async fn shaken(client: ClientConfig, meant: &str) -> (bool, bool) {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(address, &identity(SECRET, "n1")).unwrap();
        let address = listener.address().unwrap();
        let Listening { tcp, tls } = listener.listen().unwrap();
        let serving = async {
            let (stream, _) = tcp.accept().await.unwrap();
            shake_hands(TlsAcceptor::from(tls), stream).await
        };
        let connecting = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = server_name(&NodeId(meant.to_owned())).unwrap();
            TlsConnector::from(Arc::new(client)).connect(name, stream).await
        };
        // Both ends stay open until both are done.
        let (served, connected) = tokio::join!(serving, connecting);
        (served.is_ok(), connected.is_ok())
    }

    #[tokio::test]
    async fn a_node_of_another_protocol_is_refused_whatever_it_knows() {
        let client = identity(SECRET, "n2").client;
        let speaking = |protocols: &[&str]| {
            let mut changed = client.as_ref().clone();
            changed.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
            changed
        };
        assert_eq!(shaken(client.as_ref().clone(), "n1").await, (true, true));
        assert_eq!(shaken(speaking(&["nyala/1"]), "n1").await, (true, true));
        for protocols in [&["nyala/2"][..], &["h2"], &["nyala/2", "h2"], &[]] {
            assert!(!shaken(speaking(protocols), "n1").await.0, "{protocols:?}");
        }
    }

    #[tokio::test]
    async fn a_node_at_the_address_of_another_is_not_taken_for_it() {
        let client = identity(SECRET, "n2").client;
        assert!(!shaken(client.as_ref().clone(), "n3").await.1);
        let stranger = identity("fedcba9876543210fedcba9876543210", "n2").client;
        assert_eq!(shaken(stranger.as_ref().clone(), "n1").await, (false, false));
    }

    #[tokio::test]
    async fn connections_are_refused_until_the_node_serves() {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(address, &identity(SECRET, "n1")).unwrap();
        let address = listener.address().unwrap();
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listening = listener.listen().unwrap();
        TcpStream::connect(address).await.unwrap();
    }
}
