//! Addresses that a server listens on: whether they are free, and of this machine.

use std::path::Path;

use nyala_model::config::{Config, ServerConfig};
use nyala_server::check::{check_addresses, check_local_socket};
use nyala_server::serve::ServeError;
use nyala_storage::probe_folder;

use super::check::Check;
use super::folders::may_be_in_use;

const LOCAL: &str = "local socket";

/// Listens at each address for a moment. Nothing is tried while a server may be starting in the data folder: it would find its
/// addresses taken, and stop.
pub async fn check(config: &Config) -> Vec<Check> {
    if may_be_in_use(&config.data_dir) {
        return vec![Check::not_tried("addresses")];
    }
    try_all(&config.server).await
}

async fn try_all(server: &ServerConfig) -> Vec<Check> {
    let mut checks = Vec::new();
    for checked in check_addresses(server).await {
        let subject = subject(checked.key);
        checks.push(match checked.outcome {
            Ok(()) => Check::ok(subject, format!("`{}` is free", checked.address)),
            Err(error) => Check::error(subject, error),
        });
    }
    if let Some((folder, checked)) = check_local_socket(server).await {
        checks.push(match checked.and_then(|()| may_write(&folder)) {
            Ok(()) => Check::ok(LOCAL, format!("`{}` is free", folder.display())),
            Err(error) => Check::error(LOCAL, error),
        });
    }
    checks
}

/// The protocol of the address that a key sets.
fn subject(key: &str) -> &'static str {
    match key {
        "server.http_listen" => "HTTP",
        "server.flight_listen" => "Flight SQL",
        "server.kylin_listen" => "Kylin's API",
        _ => "PostgreSQL",
    }
}

fn may_write(folder: &Path) -> Result<(), ServeError> {
    match probe_folder(folder) {
        Ok(_) => Ok(()),
        Err(source) => Err(ServeError::Socket { folder: folder.to_owned(), source }),
    }
}
