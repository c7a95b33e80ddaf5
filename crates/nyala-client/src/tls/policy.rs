//! The encryption policy in a URL.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use percent_encoding::percent_decode_str;

use crate::report::Hinted;

/// Level of protection, as in `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Plain text.
    Disable,
    /// Encryption if the server has it: no protection from an active attacker.
    Prefer,
    /// Encryption without a check of the server.
    Require,
    /// Encryption, and a certificate by a trusted authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must name the requested host.
    VerifyFull,
}

/// Authorities that may sign a server's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Authorities {
    /// The authorities that the operating system trusts.
    #[default]
    System,
    /// The authorities of a PEM file.
    File(PathBuf),
}

/// The encryption policy of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Level of protection.
    pub mode: Mode,
    /// Trusted authorities.
    pub authorities: Authorities,
}

impl Policy {
    /// The policy for a server that must prove its name, as in `https://`.
    pub fn verified(ca: Option<&Path>) -> Self {
        let authorities = ca.map_or(Authorities::System, |file| Authorities::File(file.to_owned()));
        Self { mode: Mode::VerifyFull, authorities }
    }

    /// The policy for a server whose certificate is not checked, as with `sslmode=require`.
    pub fn anybody() -> Self {
        Self { mode: Mode::Require, authorities: Authorities::System }
    }

    /// Takes `sslmode` and `sslrootcert` out of a PostgreSQL URL; returns the rest. `ca` is the default
    /// of `sslrootcert`.
    pub fn of_url(url: &str, ca: Option<&Path>, default: Mode) -> Result<(String, Self)> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root, mut rest) = (None, ca.map(Path::to_owned), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value =
                || percent_decode_str(value).decode_utf8().map_err(|error| anyhow!("`{key}`: {error}"));
            match key {
                "sslmode" => mode = Some(named(&value()?)?),
                "sslrootcert" => root = Some(PathBuf::from(value()?.into_owned())),
                _ => rest.push(pair),
            }
        }
        let rest = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        Ok((rest, settled(mode, default, root)?))
    }
}

/// Follows libpq: a file of authorities raises `require` to `verify-ca`. `system` needs `verify-full`: it has
/// too many authorities for a check without the name.
fn settled(mode: Option<Mode>, default: Mode, root: Option<PathBuf>) -> Result<Policy> {
    match root {
        Some(root) if root.as_os_str() == "system" => match mode {
            None | Some(Mode::VerifyFull) => {
                Ok(Policy { mode: Mode::VerifyFull, authorities: Authorities::System })
            }
            Some(_) => Err(Hinted::error(
                "`sslrootcert=system` needs `sslmode=verify-full`",
                "anybody can get a certificate that a public authority has signed",
            )),
        },
        Some(root) => {
            let mode = match mode {
                Some(Mode::Require) => Mode::VerifyCa,
                Some(mode) => mode,
                None => Mode::VerifyFull,
            };
            Ok(Policy { mode, authorities: Authorities::File(root) })
        }
        None => Ok(Policy { mode: mode.unwrap_or(default), authorities: Authorities::System }),
    }
}

fn named(word: &str) -> Result<Mode> {
    Ok(match word {
        "disable" => Mode::Disable,
        "prefer" => Mode::Prefer,
        "require" => Mode::Require,
        "verify-ca" => Mode::VerifyCa,
        "verify-full" => Mode::VerifyFull,
        _ => {
            return Err(Hinted::error(
                format!("`sslmode={word}` is not known"),
                "write disable, prefer, require, verify-ca or verify-full",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report;

    #[test]
    fn words_of_a_url_mean_what_they_mean_to_libpq() {
        let check = |url: &str, ca: Option<&str>, rest: &str, mode, root: Option<&str>| {
            let (left, policy) = Policy::of_url(url, ca.map(Path::new), Mode::Prefer).unwrap();
            let authorities = root.map_or(Authorities::System, |root| Authorities::File(root.into()));
            assert_eq!((left.as_str(), policy), (rest, Policy { mode, authorities }), "{url}");
        };
        check("postgres://h/d", None, "postgres://h/d", Mode::Prefer, None);
        check("postgres://h/d?sslmode=disable", None, "postgres://h/d", Mode::Disable, None);
        check("postgres://h/d?a=b&sslmode=require&c=d", None, "postgres://h/d?a=b&c=d", Mode::Require, None);
        // A file of authorities turns `require` into `verify-ca`.
        let url = "postgres://h/d?sslmode=require&sslrootcert=/a%20b/ca.pem";
        check(url, None, "postgres://h/d", Mode::VerifyCa, Some("/a b/ca.pem"));
        check(url, Some("/other"), "postgres://h/d", Mode::VerifyCa, Some("/a b/ca.pem"));
        check("postgres://h/d", Some("ca"), "postgres://h/d", Mode::VerifyFull, Some("ca"));
        check("postgres://h/d?sslmode=verify-ca", Some("ca"), "postgres://h/d", Mode::VerifyCa, Some("ca"));
        check("postgres://h/d?sslrootcert=system", None, "postgres://h/d", Mode::VerifyFull, None);
    }

    #[test]
    fn what_would_protect_less_than_it_seems_is_refused() {
        let check = |query: &str, words: &str| {
            let error = Policy::of_url(&format!("postgres://h/d?{query}"), None, Mode::Prefer).unwrap_err();
            assert!(report::text(&error).contains(words), "{query}: {error}");
        };
        check("sslmode=verify", "`sslmode=verify` is not known");
        check("sslmode=allow", "disable, prefer, require");
        check("sslrootcert=system&sslmode=require", "needs `sslmode=verify-full`");
        check("sslrootcert=%ff", "`sslrootcert`");
    }
}
