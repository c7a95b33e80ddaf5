//! TLS handshakes with a server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::{TlsConnector, client};

use super::policy::Policy;
use super::trust::client_config;

/// Makes encrypted connections under one policy.
#[derive(Clone)]
pub struct Connector(TlsConnector);

impl Connector {
    /// Reads the certificates that the policy trusts. `protocol` is the ALPN name of the protocol.
    pub fn new(policy: &Policy, protocol: &[u8]) -> Result<Self> {
        Ok(Self(TlsConnector::from(Arc::new(client_config(policy, protocol)?))))
    }

    /// Encrypts a socket to a host.
    pub async fn encrypt<S>(&self, host: &str, socket: S) -> io::Result<Stream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = name(host).map_err(io::Error::other)?;
        self.0.connect(name, socket).await.map(Stream)
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

fn name(host: &str) -> Result<ServerName<'static>, InvalidDnsNameError> {
    ServerName::try_from(host.to_owned())
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = ToHost;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, InvalidDnsNameError> {
        // A Unix socket has no host, and is not encrypted.
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(ToHost { connector: self.0.clone(), name: name(host)? })
    }
}

/// Encrypts one connection to a host.
pub struct ToHost {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream<S>>>;

    fn connect(self, socket: S) -> Self::Future {
        self.connector.connect(self.name, socket).map(|stream| stream.map(Stream)).boxed()
    }
}

/// An encrypted connection.
pub struct Stream<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Stream<S> {
    /// No channel binding: with a verified certificate it adds nothing to a login, and Nyala offers none.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
