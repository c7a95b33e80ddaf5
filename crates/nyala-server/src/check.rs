//! What would keep a server from opening its doors, found without serving a client.

use std::net::SocketAddr;
use std::path::PathBuf;

use nyala_model::config::{ServerConfig, TlsConfig};

use crate::door::Listen;
use crate::error::ServeError;
use crate::net::tls::Tls;
pub use crate::net::validity::Validity;
use crate::pgwire::{check_socket, socket_folder};
pub use crate::serve::check_protected;

/// An address that a server would listen on.
#[derive(Debug)]
pub struct CheckedAddress {
    /// The configured address.
    pub address: SocketAddr,
    /// Its configuration key.
    pub key: &'static str,
    /// Whether it can be listened on.
    pub outcome: Result<(), ServeError>,
}

/// Listens at all configured addresses for a moment, at once: two keys may name the same address.
pub async fn check_addresses(server: &ServerConfig) -> Vec<CheckedAddress> {
    let (mut checked, mut held) = (Vec::new(), Vec::new());
    for listen in Listen::all(server) {
        let bound = listen.bind().await;
        let outcome = bound.map(|(listener, _)| held.push(listener));
        checked.push(CheckedAddress { address: listen.address, key: listen.key, outcome });
    }
    checked
}

/// The folder of the socket for clients of this machine, and whether it can be made there; none if none is configured.
pub async fn check_local_socket(server: &ServerConfig) -> Option<(PathBuf, Result<(), ServeError>)> {
    let folder = socket_folder(&server.postgres_socket)?;
    let checked = check_socket(&folder, server.postgres_listen.port()).await;
    Some((folder, checked))
}

/// Reads certificate and key as a server does, and tells how long the certificate is valid; none if no certificate is configured.
///
/// # Errors
/// [`ServeError::Tls`].
pub fn check_encryption(tls: &TlsConfig) -> Result<Option<Validity>, ServeError> {
    match Tls::load(tls)? {
        Some(_) => Ok(Some(Validity::load(tls)?)),
        None => Ok(None),
    }
}
