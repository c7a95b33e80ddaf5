//! Logins: clients that may connect without a password, and passwords that are sent without encryption.

use std::path::Path;

use nyala_client::report::message;
use nyala_model::config::{Authentication, Config, ServerConfig};
use nyala_server::check::check_protected;
use nyala_storage::data_dir::catalog_file;

use super::check::{Check, State};
use super::configuration::is_readable_by_all;
use crate::first_user;

const SUBJECT: &str = "logins";
const FIRST_USER: &str = "first user";

pub fn check(config: &Config) -> Vec<Check> {
    let server = &config.server;
    let mut checks = vec![match check_protected(server) {
        Ok(()) => protection(server),
        Err(error) => Check::error(SUBJECT, error),
    }];
    let file = &server.first_password_file;
    if !file.as_os_str().is_empty() {
        // A shared catalog may have a superuser, too; a server whose catalog has one does not read the file.
        let is_new = config.catalog.url.is_empty() && !catalog_file(&config.data_dir).exists();
        checks.push(first_password(file, is_new));
    }
    checks
}

/// The protection of addresses that a server agrees to listen on.
fn protection(server: &ServerConfig) -> Check {
    let addresses = [server.postgres_listen, server.http_listen];
    let addresses = addresses.into_iter().chain(server.flight_listen).chain(server.kylin_listen);
    let is_local = addresses.map(|address| address.ip()).all(|ip| ip.is_loopback());
    let is_encrypted = !server.tls.certificate.as_os_str().is_empty();
    match (server.authentication, is_local) {
        (Authentication::None, true) => Check::ok(SUBJECT, "none; only this machine reaches the server"),
        (Authentication::None, false) => Check::warning(
            SUBJECT,
            "none, and other machines reach the server: whoever does may do everything",
            "set `server.authentication = \"password\"`, unless something else protects the addresses",
        ),
        (Authentication::Password, false) if !is_encrypted => Check::warning(
            SUBJECT,
            "by password, which is sent over HTTP without encryption",
            "set `server.tls.certificate` and `server.tls.key`, unless something else encrypts",
        ),
        (Authentication::Password, _) => Check::ok(SUBJECT, "by password"),
    }
}

/// The file with the password of the first user, which a server reads if no superuser has a password.
fn first_password(file: &Path, is_new: bool) -> Check {
    let path = file.display();
    match first_user::read_password(file) {
        Ok(_) if is_readable_by_all(file) => Check::warning(
            FIRST_USER,
            format!("all users may read its password in `{path}`"),
            format!("run `chmod o-r {path}`, or change the password after the first start"),
        ),
        Ok(_) => Check::ok(FIRST_USER, format!("its password is in `{path}`")),
        Err(error) if is_new => Check::error(FIRST_USER, error),
        Err(error) => Check {
            state: State::Warning,
            found: format!("{}; it is read if no superuser has a password", message(&error)),
            ..Check::error(FIRST_USER, error)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_encryption_matter_where_other_machines_connect() {
        let check = |listen: ([u8; 4], u16), authentication, certificate: &str, expected| {
            let mut server =
                ServerConfig { http_listen: listen.into(), authentication, ..ServerConfig::default() };
            server.tls.certificate = certificate.into();
            let found = protection(&server);
            assert_eq!(found.state, expected, "{found:?}");
        };
        let kylin =
            ServerConfig { kylin_listen: Some(([0, 0, 0, 0], 7070).into()), ..ServerConfig::default() };
        assert_eq!(protection(&kylin).state, State::Warning);
        let (here, everywhere) = (([127, 0, 0, 1], 8090), ([0, 0, 0, 0], 8090));
        check(here, Authentication::None, "", State::Ok);
        check(here, Authentication::Password, "", State::Ok);
        check(everywhere, Authentication::None, "", State::Warning);
        check(everywhere, Authentication::Password, "", State::Warning);
        check(everywhere, Authentication::Password, "server.pem", State::Ok);
    }
}
