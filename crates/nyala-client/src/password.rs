//! Passwords that are not in the URL of a server, where other users of the machine would see them in its list of processes.
//!
//! Names and rules are those of libpq: the variable `PGPASSWORD`, or else a line of the file that `PGPASSFILE` names, or of `~/.pgpass`.

use std::env;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The next step of a client that has no password for a server that asks for one.
pub const HINT: &str = "set `PGPASSWORD`, or write the line `host:port:database:user:password` into `~/.pgpass`, which its owner alone may \
                        read (`chmod 600`)";

/// The password for a login; none if neither the environment nor the file has one.
pub fn find(login: &Config) -> Option<String> {
    if let Some(password) = env::var("PGPASSWORD").ok().filter(|password| !password.is_empty()) {
        return Some(password);
    }
    let file = file()?;
    if !is_private(&file) {
        return None;
    }
    in_lines(&std::fs::read_to_string(file).ok()?, &fields(login))
}

fn file() -> Option<PathBuf> {
    match env::var_os("PGPASSFILE") {
        Some(file) => Some(PathBuf::from(file)),
        None => Some(PathBuf::from(env::var_os("HOME")?).join(".pgpass")),
    }
}

/// Whether the owner alone may read a file; one that others may read is not used.
#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS: u32 = 0o077;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & OTHERS == 0)
}

#[cfg(not(unix))]
fn is_private(file: &Path) -> bool {
    file.is_file()
}

/// Host, port, database and user.
fn fields(login: &Config) -> [String; 4] {
    let host = match login.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(folder)) => folder.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = login.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = login.get_user().unwrap_or_default().to_owned();
    let database = login.get_dbname().unwrap_or(&user).to_owned();
    [host, port, database, user]
}

/// The password of the first line that fits; `*` fits everything.
fn in_lines(text: &str, login: &[String; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let found = split(line);
        let [host, port, database, user, password, ..] = found.as_slice() else { return None };
        let mut pairs = [host, port, database, user].into_iter().zip(login);
        pairs.all(|(found, given)| found == "*" || found == given).then(|| password.clone())
    })
}

/// The fields between colons. A backslash stands before a colon or a backslash that is a part of a field.
fn split(line: &str) -> Vec<String> {
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' => fields.push(std::mem::take(&mut field)),
            '\\' => field.extend(chars.next()),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let check = |lines: &str, expected: Option<&str>| {
            let login = ["db.example", "5433", "nyala", "ann"].map(str::to_owned);
            assert_eq!(in_lines(lines, &login).as_deref(), expected, "{lines}");
        };
        check("db.example:5433:nyala:ann:secret", Some("secret"));
        check("*:*:*:ann:secret\n", Some("secret"));
        check("*:*:*:bob:no\n# *:*:*:*:no\n\n*:*:nyala:*:first\n*:*:*:*:second", Some("first"));
        check("*:*:*:*:with\\:colon\\\\ and space", Some("with:colon\\ and space"));
        for nothing in ["", "secret", "*:*:*:secret", "*:5432:*:*:secret", "db:*:*:*:secret"] {
            check(nothing, None);
        }
    }

    #[test]
    fn a_url_is_a_login() {
        let check = |url: &str, expected: [&str; 4]| {
            assert_eq!(fields(&url.parse().unwrap()), expected.map(str::to_owned), "{url}");
        };
        check("postgres://ann@db.example:5433/nyala", ["db.example", "5433", "nyala", "ann"]);
        check("postgres://ann@db.example", ["db.example", "5432", "ann", "ann"]);
        #[cfg(unix)]
        check("postgres://ann@%2Frun%2Fnyala/nyala", ["/run/nyala", "5432", "nyala", "ann"]);
    }
}
