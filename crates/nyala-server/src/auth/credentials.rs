//! Credentials in an `Authorization` header.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Some clients leave out the `=` at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A client's proof of its identity.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Name and password.
    Basic { user: String, password: String },
    /// A token that this server has given.
    Bearer(String),
}

impl Credentials {
    /// The user name; none in a token.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Basic { user, .. } => Some(user),
            Self::Bearer(_) => None,
        }
    }

    /// Reads `Basic …` (RFC 7617) or `Bearer …` (RFC 6750); none if it is neither.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ')?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Self::Bearer(rest.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = String::from_utf8(BASE64.decode(rest).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self::Basic { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_or_are_nothing() {
        let check = |header: &str, expected: Option<Credentials>| {
            assert!(Credentials::parse(header) == expected, "{header}");
        };
        let basic = |user: &str, password: &str| {
            Some(Credentials::Basic { user: user.to_owned(), password: password.to_owned() })
        };
        check("Basic YW5uOmE6Yg==", basic("ann", "a:b"));
        check("basic  YW5uOg==", basic("ann", ""));
        check("Basic YW5uOg", basic("ann", ""));
        check("Bearer abc", Some(Credentials::Bearer("abc".to_owned())));
        for nothing in ["", "Basic", "Basic !", "Basic YW5u", "Digest x", "Basic /////w=="] {
            check(nothing, None);
        }
    }
}
