//! Encryption of the doors.
//!
//! It fails closed: a certificate that cannot be used keeps the server from starting, and a handshake that
//! fails ends the connection. Nothing ever falls back to plain text.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nyala_model::config::TlsConfig;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Timeout, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use super::certificate::Certificate;

/// How long a client may take to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the server cannot encrypt.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Only one of certificate and key is configured.
    #[error("`server.tls.{given}` is set, but `server.tls.{missing}` is not")]
    Incomplete {
        /// The key that is set.
        given: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// A file cannot be read, or holds no certificate or key.
    #[error("`{path}`, the value of `server.tls.{key}`, cannot be used: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// The configuration key it came from.
        key: &'static str,
        /// The reason.
        reason: String,
    },
    /// Certificate and key do not fit each other, or do not suit the protocol.
    #[error("certificate and key of `server.tls` cannot be used: {0}")]
    Unfit(#[from] rustls::Error),
}

/// Sets the encryption library of this process. Call it first thing: connections to S3 and the doors need one,
/// and each would choose for itself, or fail.
pub fn install_provider() {
    // It fails only if there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Certificate and key, ready for connections.
#[derive(Clone)]
pub struct Tls {
    certificate: Arc<Certificate>,
    config: Arc<ServerConfig>,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// The configured certificate and key; none if no certificate is named.
    ///
    /// # Errors
    /// Files that are missing or cannot be used.
    pub fn load(config: &TlsConfig) -> Result<Option<Self>, TlsError> {
        let set = |path: &PathBuf| !path.as_os_str().is_empty();
        match (set(&config.certificate), set(&config.key)) {
            (false, false) => return Ok(None),
            (true, false) => return Err(TlsError::Incomplete { given: "certificate", missing: "key" }),
            (false, true) => return Err(TlsError::Incomplete { given: "key", missing: "certificate" }),
            (true, true) => {}
        }
        let certificate = Arc::new(Certificate::load(config)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Certificate>::clone(&certificate));
        Ok(Some(Self::new(certificate, server)))
    }

    fn new(certificate: Arc<Certificate>, config: ServerConfig) -> Self {
        let config = Arc::new(config);
        Self { certificate, acceptor: TlsAcceptor::from(Arc::clone(&config)), config }
    }

    /// The same certificate, offered together with a protocol: clients of some protocols refuse a server that does not offer theirs (ALPN).
    #[must_use]
    pub fn offering(&self, protocol: &[u8]) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        Self::new(Arc::clone(&self.certificate), config)
    }

    /// Sets the metrics of the time in which the certificate is valid. [`Self::follow_files`] sets them for each renewed one.
    pub fn measure(&self) {
        self.certificate.measure();
    }

    /// Takes renewed certificates from the files for the connections of all doors, for as long as it is polled.
    pub async fn follow_files(&self) {
        self.certificate.follow().await;
    }

    /// A connection that will agree on encryption when it is first read or written.
    pub fn open(&self, socket: TcpStream) -> Stream {
        Stream::Opening(Box::pin(timeout(HANDSHAKE, self.acceptor.accept(socket))))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// A socket, in plain text or encrypted.
pub enum Stream {
    Plain(TcpStream),
    /// A Unix socket within this machine, never encrypted.
    Local(UnixStream),
    /// Client and server are agreeing on encryption.
    Opening(Pin<Box<Timeout<Accept<TcpStream>>>>),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// Client and server did not agree on encryption.
    Failed,
}

impl Stream {
    /// Whether the traffic cannot be read on the way.
    pub fn is_private(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self::Opening(accept) = self else {
            let failed = matches!(self, Self::Failed);
            return Poll::Ready(if failed { Err(io::ErrorKind::NotConnected.into()) } else { Ok(()) });
        };
        let result = match ready!(accept.as_mut().poll(cx)) {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no agreement on encryption in time")),
        };
        Poll::Ready(match result {
            Ok(stream) => {
                *self = Self::Encrypted(Box::new(stream));
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, "no agreement on encryption");
                *self = Self::Failed;
                Err(error)
            }
        })
    }
}

/// Calls a method of whichever stream is open.
macro_rules! opened {
    ($self:ident, $cx:ident, $method:ident ( $($argument:expr),* )) => {{
        ready!($self.poll_ready($cx))?;
        match $self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).$method($cx $(, $argument)*),
            Self::Local(stream) => Pin::new(stream).$method($cx $(, $argument)*),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).$method($cx $(, $argument)*),
            Self::Opening(_) | Self::Failed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }};
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        opened!(self, cx, poll_read(buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        opened!(self, cx, poll_write(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        opened!(self, cx, poll_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        // Sockets and encrypted streams are both write-vectored.
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        opened!(self, cx, poll_flush())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        opened!(self, cx, poll_shutdown())
    }
}
