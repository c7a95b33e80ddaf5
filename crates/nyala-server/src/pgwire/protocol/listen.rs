//! Listens for PostgreSQL clients at an address of the network, and at a socket in a folder of this machine.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::SocketAddr as Address;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use crate::net::Accept;
use crate::net::keepalive::notice_death;
use crate::net::pending::Origin;

/// As in PostgreSQL, the permissions of the folder decide which users may connect, not those of the socket.
const MODE: u32 = 0o777;

/// How long a server at an existing socket may take to answer.
const PROBE: Duration = Duration::from_secs(1);

/// The listeners of both places. [`Listener::accept`] gives the clients of either.
#[derive(Debug)]
pub struct Listener {
    network: TcpListener,
    local: Option<LocalSocket>,
}

/// A client's end of the connection, as the log and `system.queries` name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Network(SocketAddr),
    /// A client on this machine; its process id, if it can be seen from here.
    Local(Option<i32>),
}

impl Peer {
    /// The origin that bounds the connection until its client has logged in.
    pub(crate) fn origin(self, socket: &Socket) -> Origin {
        match (self, socket) {
            (Self::Network(address), _) => Origin::of(address),
            // Users without readable credentials share one bound.
            (Self::Local(_), Socket::Local(socket)) => {
                Origin::User(socket.peer_cred().map_or(u32::MAX, |credentials| credentials.uid()))
            }
            (Self::Local(_), Socket::Network(_)) => Origin::User(u32::MAX),
        }
    }
}

/// A connection, not encrypted yet.
#[derive(Debug)]
pub enum Socket {
    Network(TcpStream),
    Local(UnixStream),
}

impl Listener {
    /// Wraps sockets that are listening already.
    pub fn new(network: TcpListener, local: Option<LocalSocket>) -> Self {
        Self { network, local }
    }

    /// The next connection. Dropping the future loses none.
    async fn next(&self) -> io::Result<(Socket, Peer)> {
        tokio::select! {
            accepted = self.network.accept() => {
                let (socket, peer) = accepted?;
                // Answers are flushed whole; waiting for more would only delay them.
                let _ = socket.set_nodelay(true);
                notice_death(&socket);
                Ok((Socket::Network(socket), Peer::Network(peer)))
            }
            accepted = accept_local(self.local.as_ref()) => {
                let socket = accepted?;
                let process = socket.peer_cred().ok().and_then(|credentials| credentials.pid());
                // The number is 0 for a process in another container.
                Ok((Socket::Local(socket), Peer::Local(process.filter(|process| *process > 0))))
            }
        }
    }
}

impl Accept for Listener {
    type Connection = (Socket, Peer);

    async fn accept(&self) -> io::Result<((Socket, Peer), Origin)> {
        let (socket, peer) = self.next().await?;
        let origin = peer.origin(&socket);
        Ok(((socket, peer), origin))
    }
}

async fn accept_local(socket: Option<&LocalSocket>) -> io::Result<UnixStream> {
    match socket {
        Some(socket) => socket.listener.accept().await.map(|(socket, _)| socket),
        None => std::future::pending().await,
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => address.fmt(f),
            Self::Local(Some(process)) => write!(f, "local:{process}"),
            Self::Local(None) => f.write_str("local"),
        }
    }
}

/// A socket in a folder, which clients name as their host. The file of the socket is removed when this is dropped.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Marks the file as this server's. The lock file stays, since another server may have it open already.
    _lock: File,
}

impl LocalSocket {
    /// Listens in `folder` under the name that clients look for with `port`. The file of a killed server is replaced.
    ///
    /// # Errors
    /// Another server listens there, the name is taken by another file, or the system does not allow it.
    pub async fn bind(folder: &Path, port: u16) -> io::Result<Self> {
        let (path, lock) = files(folder, port)?;
        let lock = take(File::options().write(true).create(true).truncate(false).open(lock)?)?;
        if is_stale(&path).await? {
            fs::remove_file(&path)?;
        }
        let socket = Self { listener: UnixListener::bind(&path)?, path, _lock: lock };
        fs::set_permissions(&socket.path, fs::Permissions::from_mode(MODE))?;
        Ok(socket)
    }

    /// Checks that nothing keeps a server from listening in `folder`, without making a file there.
    ///
    /// # Errors
    /// The folder is missing, another server listens there, or the name is taken by another file.
    pub async fn check(folder: &Path, port: u16) -> io::Result<()> {
        fs::metadata(folder)?;
        let (path, lock) = files(folder, port)?;
        match File::open(lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => drop(take(opened?)?),
        }
        is_stale(&path).await.map(drop)
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the socket's file stays");
        }
    }
}

/// The file of a socket, and the file that its server locks. A path that is too long is refused before a file is made.
fn files(folder: &Path, port: u16) -> io::Result<(PathBuf, PathBuf)> {
    let path = folder.join(format!(".s.PGSQL.{port}"));
    Address::from_pathname(&path)?;
    Ok((path, folder.join(format!(".s.PGSQL.{port}.lock"))))
}

fn take(file: File) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AddrInUse.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether there is the socket file of an ended server; an error if it may be in use. The lock keeps out other servers of this
/// kind, but not PostgreSQL.
async fn is_stale(path: &Path) -> io::Result<bool> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(false) };
    if !found.file_type().is_socket() {
        let message = format!("`{}` is there and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    match timeout(PROBE, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        // A server answers there, or is too busy to answer.
        Ok(Ok(_)) | Err(_) => Err(io::ErrorKind::AddrInUse.into()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::AddrInUse.into()),
        Ok(Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn only_the_file_of_a_socket_that_nobody_listens_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.7");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as a server that was killed leaves it");
        LocalSocket::check(folder.path(), 7).await.unwrap();
        assert!(
            path.exists() && fs::read_dir(folder.path()).unwrap().count() == 1,
            "a check changes nothing"
        );
        let socket = LocalSocket::bind(folder.path(), 7).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);

        let taken = LocalSocket::bind(folder.path(), 7).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let taken = LocalSocket::check(folder.path(), 7).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        LocalSocket::bind(folder.path(), 8).await.unwrap();
        drop(socket);
        assert!(!path.exists(), "it goes with the server");

        let postgresql = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let taken = LocalSocket::bind(folder.path(), 7).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "somebody listens who knows no lock of ours");
        drop(postgresql);

        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        let other = LocalSocket::bind(folder.path(), 7).await.unwrap_err();
        assert!(other.to_string().contains("is no socket"), "{other}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
