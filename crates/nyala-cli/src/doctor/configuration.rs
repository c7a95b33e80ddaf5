//! The configuration file, and the users that may read the secrets in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::check::Check;
use crate::config::Loaded;

pub const SUBJECT: &str = "configuration";

/// Permission of users who are neither the owner nor in the group of a file.
const READABLE_BY_ALL: u32 = 0o004;

/// A configuration that was loaded holds only known keys with allowed values.
pub fn check(loaded: &Loaded) -> Vec<Check> {
    let Some(file) = loaded.file() else {
        return vec![Check::ok(SUBJECT, "no file; environment and defaults")];
    };
    let mut checks = vec![Check::ok(SUBJECT, format!("`{}`", file.display()))];
    let mut secrets = loaded.secrets_in_file();
    secrets.retain(|key| *key != "catalog.url" || has_password(&loaded.config.catalog.url));
    if !secrets.is_empty() && is_readable_by_all(file) {
        let found = format!("all users may read `{}`, which sets `{}`", file.display(), secrets.join("`, `"));
        let next = format!("run `chmod o-r {}`, or set them by environment variables", file.display());
        checks.push(Check::warning("secrets", found, next));
    }
    checks
}

/// Whether every user of this machine may read a file.
pub fn is_readable_by_all(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.permissions().mode() & READABLE_BY_ALL != 0)
}

/// Whether a URL has a password, before its host or among its parameters.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, parameters) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    place.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) || parameters.contains("password=")
}

#[cfg(test)]
mod tests {
    use super::has_password;

    #[test]
    fn a_password_stands_before_the_host_or_among_the_parameters() {
        let check = |url, expected| assert_eq!(has_password(url), expected, "{url}");
        check("postgres://ann:secret@db:5432/nyala", true);
        check("postgres://db/nyala?user=ann&password=secret", true);
        check("postgres://ann@db:5432/nyala", false);
        check("postgres://db:5432/nyala", false);
        check("postgres://db:5432/nyala?user=ann@example.org", false);
    }
}
