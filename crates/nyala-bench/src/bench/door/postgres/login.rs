//! Login: tokio-postgres logs in over a socket, encrypted if the URL asks for it, and gives the socket back.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::BytesMut;
use nyala_client::tls::PostgresServer;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Error, NoTls};

use super::{Failure, broken};

/// A connection to a server.
pub type Socket = Box<dyn Duplex>;

/// A stream for reading and writing.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for S {}

/// Logs in; gives the socket, on which the server waits for queries, and the server's version if it tells.
pub async fn log_in(server: &PostgresServer) -> Result<(Socket, Option<String>), Failure> {
    let socket = open(server).await.map_err(|error| Failure::Broken(error.to_string()))?;
    let lent = Lent(Arc::new(Mutex::new(Some(socket))));
    let (version, back) = log_in_over(server, lent.clone()).await.map_err(|error| broken(&error))?;
    Ok((back.ok_or_else(|| Failure::Broken("the socket is gone".to_owned()))?, version))
}

async fn log_in_over(server: &PostgresServer, lent: Lent) -> Result<(Option<String>, Option<Socket>), Error> {
    let mut config = server.config().clone();
    // `open` has negotiated encryption already.
    config.ssl_mode(SslMode::Disable);
    // Dropping both sends nothing to the server. They have read all messages up to the server's first wait for a query.
    let (_client, connection) = config.connect_raw(lent.clone(), NoTls).await?;
    let version = connection.parameter("server_version").map(str::to_owned);
    Ok((version, lent.socket().take()))
}

/// A socket to the server, encrypted as the URL asks.
async fn open(server: &PostgresServer) -> io::Result<Socket> {
    let config = server.config();
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.as_str(),
        #[cfg(unix)]
        Some(Host::Unix(folder)) => {
            return Ok(Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?));
        }
        None => "localhost",
    };
    let mut socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    if config.get_ssl_mode() == SslMode::Disable {
        return Ok(Box::new(socket));
    }
    if agrees_to_encrypt(&mut socket).await? {
        return Ok(Box::new(server.connector().encrypt(host, socket).await?));
    }
    match config.get_ssl_mode() {
        SslMode::Require => Err(io::Error::other("the server does not encrypt")),
        _ => Ok(Box::new(socket)),
    }
}

async fn agrees_to_encrypt(socket: &mut TcpStream) -> io::Result<bool> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).await?;
    Ok(socket.read_u8().await? == b'S')
}

/// A socket that is lent until it is taken back.
#[derive(Clone)]
struct Lent(Arc<Mutex<Option<Socket>>>);

impl Lent {
    fn socket(&self) -> MutexGuard<'_, Option<Socket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(Pin<&mut Socket>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match self.socket().as_mut() {
            Some(socket) => act(Pin::new(socket)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Lent {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_read(cx, into))
    }
}

impl AsyncWrite for Lent {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| socket.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_shutdown(cx))
    }
}
