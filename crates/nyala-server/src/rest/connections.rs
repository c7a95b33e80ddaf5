//! Accepts HTTP connections up to a limit; the ones beyond are told so.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use crate::keepalive::notice_death;
use crate::tls::{Stream, Tls};

/// A listener that keeps at most so many connections open.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
    /// With it, every connection is encrypted.
    tls: Option<Tls>,
}

impl Connections {
    /// Wraps a bound listener.
    pub fn new(listener: TcpListener, max_connections: usize, tls: Option<Tls>) -> Self {
        let free = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        Self { listener, free, tls }
    }
}

impl Connections {
    /// The next connection there is room for. Dropping the future loses none.
    pub(super) async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The trait's version, which waits and goes on when the process is out of descriptors.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            // Answers are written in one go; waiting for more to send only delays them.
            let _ = stream.set_nodelay(true);
            notice_death(&stream);
            match Arc::clone(&self.free).try_acquire_owned() {
                Ok(permit) => {
                    let stream = match &self.tls {
                        Some(tls) => tls.open(stream),
                        None => Stream::Plain(stream),
                    };
                    return (Connection::new(stream, permit), peer);
                }
                Err(_) => {
                    tracing::warn!(%peer, "refused an HTTP connection: `server.max_connections` are open");
                    // A refusal in plain text would look like an attack to whoever expects encryption.
                    if self.tls.is_none() {
                        tokio::spawn(refuse(stream));
                    }
                }
            }
        }
    }
}

const REFUSAL: &str = "{\"error\":{\"code\":\"too_many_connections\",\
\"message\":\"the server has as many connections as it may\",\
\"hint\":\"reuse connections, or raise `server.max_connections`\"}}\n";

/// Answers without looking at the request. What the client sent is read before closing, because
/// unread bytes would make the system reset the connection and the answer with it.
async fn refuse(mut stream: TcpStream) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\nretry-after: 1\r\n\r\n{REFUSAL}",
        REFUSAL.len()
    );
    let farewell = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut sink = [0_u8; 4096];
        while stream.read(&mut sink).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // Whether the client heard it is the client's affair.
    let _ = tokio::time::timeout(Duration::from_secs(1), farewell).await;
}

/// The client's address, for handlers.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// How long a client may take to say anything, which tells the version of HTTP it speaks.
const GREETING: Duration = Duration::from_secs(10);
/// So much of it.
const GREETING_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// An open connection, which frees its place when it is dropped.
pub(super) struct Connection {
    stream: Stream,
    /// Ends the connection, until the client has said enough.
    greeting: Option<Pin<Box<Sleep>>>,
    received: usize,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: Stream, permit: OwnedSemaphorePermit) -> Self {
        let greeting = Some(Box::pin(tokio::time::sleep(GREETING)));
        Self { stream, greeting, received: 0, _permit: permit }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) else {
            let late = self.greeting.as_mut().is_some_and(|greeting| greeting.as_mut().poll(cx).is_ready());
            return if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending };
        };
        self.received += buf.filled().len() - before;
        if self.received >= GREETING_BYTES {
            self.greeting = None;
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
