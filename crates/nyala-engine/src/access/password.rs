//! The stored form of a password: a SCRAM verifier for PostgreSQL clients, an argon2id hash for HTTP.
//!
//! Sources: RFC 5802 and RFC 7677 (SCRAM-SHA-256), RFC 9106 (argon2).

use std::borrow::Cow;
use std::num::NonZeroU32;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nyala_model::access::PasswordEntry;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Rounds of PBKDF2: as many as PostgreSQL uses.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// Bytes of a salt.
const SALT_BYTES: usize = 16;
/// Most rounds of a verifier: with more, its role could keep the server busy at every login.
const MAX_ITERATIONS: u32 = 1_000_000;
const MECHANISM: &str = "SCRAM-SHA-256";

/// The SCRAM-SHA-256 verifier of a password; the password cannot be computed from it.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// Salt of PBKDF2.
    pub salt: Vec<u8>,
    /// Checks the client's proof.
    pub stored_key: [u8; 32],
    /// Proves the server to the client.
    pub server_key: [u8; 32],
}

impl std::fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScramVerifier")
    }
}

impl ScramVerifier {
    /// The verifier of a password.
    pub fn new(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = [0; 32];
        let normal = normalized(password);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, normal.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        Self {
            iterations: iterations.get(),
            salt: salt.to_vec(),
            stored_key: bytes(digest::digest(&digest::SHA256, &client_key).as_ref()),
            server_key: sign(&salted, b"Server Key"),
        }
    }

    /// Reads `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`; none if the text is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
        let key = |text| <[u8; 32]>::try_from(STANDARD.decode(text).ok()?).ok();
        Some(Self {
            iterations: iterations.parse().ok().filter(|count| (1..=MAX_ITERATIONS).contains(count))?,
            salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

impl std::fmt::Display for ScramVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [salt, stored, server] =
            [self.salt.as_slice(), &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

/// The stored form of a password that a statement sets. A SCRAM verifier, as psql's `\password` sends it, is kept as
/// it is. Takes some ten milliseconds and 19 MiB.
///
/// # Errors
/// The password is empty, or it cannot be hashed.
pub fn new_password(text: &str) -> Result<PasswordEntry> {
    if text.is_empty() {
        return Err(QueryError::new(ErrorKind::InvalidParameter, "a password cannot be empty")
            .hint("write PASSWORD NULL for none"));
    }
    if ScramVerifier::parse(text).is_some() {
        return Ok(PasswordEntry { scram: text.to_owned(), argon2: None });
    }
    let scram = ScramVerifier::new(text, &salt()?, ITERATIONS).to_string();
    let salt = SaltString::encode_b64(&salt()?).map_err(QueryError::internal)?;
    let argon2 = Argon2::default().hash_password(text.as_bytes(), &salt).map_err(QueryError::internal)?;
    Ok(PasswordEntry { scram, argon2: Some(argon2.to_string()) })
}

/// Whether the argon2id hash is that of this password. Takes some ten milliseconds and 19 MiB.
pub fn check_password(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

fn salt() -> Result<[u8; SALT_BYTES]> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new()
        .fill(&mut salt)
        .map_err(|_| QueryError::internal("the system gives no random numbers"))?;
    Ok(salt)
}

/// The SASLprep form of a password, which clients use too; a password without such a form is used as it is.
fn normalized(password: &str) -> Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password))
}

fn sign(key: &[u8], text: &[u8]) -> [u8; 32] {
    bytes(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref())
}

/// A SHA-256 hash as an array: it always has 32 bytes.
fn bytes(text: &[u8]) -> [u8; 32] {
    text.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// The verifier that PostgreSQL 15 made of the password `pencil` with this salt.
    #[test]
    fn verifiers_are_those_of_postgresql() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::new("pencil", &salt, ITERATIONS);
        let text = verifier.to_string();
        assert_eq!(
            text,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert_eq!(ScramVerifier::parse(&text), Some(verifier));
    }

    #[test]
    fn what_is_no_verifier_is_a_password() {
        let good = new_password("SCRAM-SHA-256 is fine").unwrap();
        assert!(ScramVerifier::parse(&good.scram).is_some());
        let argon2 = good.argon2.unwrap();
        assert!(argon2.starts_with("$argon2id$"), "{argon2}");
        assert!(check_password("SCRAM-SHA-256 is fine", &argon2));
        assert!(!check_password("SCRAM-SHA-256 is fine ", &argon2));
        assert_eq!(new_password(&good.scram).unwrap().argon2, None);
        for text in ["", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:YQ==$YQ==:YQ==", "SCRAM-SHA-256$4096:$a:b"] {
            assert_eq!(ScramVerifier::parse(text), None, "{text}");
        }
        assert!(new_password("").is_err());
    }
}
