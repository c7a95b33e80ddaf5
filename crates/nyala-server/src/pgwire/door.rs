//! The door for PostgreSQL's protocol.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::protocol::{Listener, LocalSocket, serve};
use crate::door::{Common, Door, Listen};
use crate::error::ServeError;

/// PostgreSQL's protocol at an address, and at a socket in a folder if one is configured.
#[derive(Debug)]
pub struct PostgresDoor {
    address: SocketAddr,
    listener: Listener,
    common: Common,
}

impl PostgresDoor {
    /// Binds the address, and the socket.
    pub async fn bind(common: &Common) -> Result<Self, ServeError> {
        let (network, address) = Listen::postgres(&common.config).bind().await?;
        let local = match socket_folder(&common.config.postgres_socket) {
            Some(folder) => Some(bind_local(&folder, address.port()).await?),
            None => None,
        };
        Ok(Self { address, listener: Listener::new(network, local), common: common.clone() })
    }
}

impl Door for PostgresDoor {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        let Common { engine, authenticator, config, tls, .. } = self.common;
        serve(engine, authenticator, self.listener, config, tls, shutdown).boxed()
    }
}

/// The folder of the socket, if one is configured, as clients must name it: they take other paths for names of machines.
pub fn socket_folder(folder: &Path) -> Option<PathBuf> {
    let named = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    named.map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()))
}

/// Checks the place of the socket in a folder, and makes nothing there.
pub async fn check_socket(folder: &Path, port: u16) -> Result<(), ServeError> {
    let checked = LocalSocket::check(folder, port).await;
    checked.map_err(|source| ServeError::Socket { folder: folder.to_owned(), source })
}

async fn bind_local(folder: &Path, port: u16) -> Result<LocalSocket, ServeError> {
    let socket = LocalSocket::bind(folder, port).await;
    socket.map_err(|source| ServeError::Socket { folder: folder.to_owned(), source })
}
