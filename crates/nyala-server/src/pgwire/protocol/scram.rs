//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.
//!
//! ```text
//! client                                   server
//!   n,,n=,r=A                      ─▶
//!                                  ◀─      r=AB,s=salt,i=iterations
//!   c=biws,r=AB,p=proof            ─▶
//!                                  ◀─      v=signature
//! ```
//!
//! Neither side sends the password, and neither learns enough from the other to pose as it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nyala_engine::ScramVerifier;
use ring::digest::{SHA256, digest};
use ring::hmac;

/// The only mechanism: channel binding needs the certificate that the client sees, and a proxy may hold that.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// Why an exchange cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramError {
    /// A message that does not fit the exchange.
    Malformed(&'static str),
    /// The proof is wrong.
    Wrong,
}

/// An exchange after its first half.
pub struct Challenge {
    verifier: ScramVerifier,
    /// The client's header, which its last message must repeat.
    header: String,
    /// Both nonces.
    nonce: String,
    client_first: String,
    server_first: String,
}

impl Challenge {
    /// Reads the client's first message. `nonce` is random and printable.
    pub fn new(message: &str, verifier: ScramVerifier, nonce: &str) -> Result<Self, ScramError> {
        let malformed = ScramError::Malformed("first message");
        let mut parts = message.splitn(3, ',');
        let (flag, identity) = (parts.next().unwrap_or_default(), parts.next().ok_or(malformed)?);
        let bare = parts.next().ok_or(malformed)?;
        if flag.starts_with("p=") {
            return Err(ScramError::Malformed("channel binding was not offered"));
        }
        if !matches!(flag, "n" | "y") {
            return Err(malformed);
        }
        // The name in it is ignored, as in PostgreSQL: the user is that of the start-up message.
        let client_nonce = attribute(bare, 'r').filter(|nonce| is_nonce(nonce)).ok_or(malformed)?;
        if !bare.starts_with("n=") {
            return Err(malformed);
        }
        let nonce = format!("{client_nonce}{nonce}");
        let salt = STANDARD.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let header = format!("{flag},{identity},");
        Ok(Self { verifier, header, nonce, client_first: bare.to_owned(), server_first })
    }

    /// The server's first message.
    pub fn text(&self) -> &str {
        &self.server_first
    }

    /// Checks the client's proof, and gives the server's.
    pub fn answer(&self, message: &str) -> Result<String, ScramError> {
        let malformed = ScramError::Malformed("last message");
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(malformed)?;
        let binding = attribute(without_proof, 'c').ok_or(malformed)?;
        if binding != STANDARD.encode(&self.header) || attribute(without_proof, 'r') != Some(&self.nonce) {
            return Err(malformed);
        }
        let proof: [u8; 32] =
            STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(malformed)?;
        let text = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let signature = sign(&self.verifier.stored_key, &text);
        let client_key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        if !same(digest(&SHA256, &client_key).as_ref(), &self.verifier.stored_key) {
            return Err(ScramError::Wrong);
        }
        Ok(format!("v={}", STANDARD.encode(sign(&self.verifier.server_key, &text))))
    }
}

/// The value of `name=value` in a message.
fn attribute(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn sign(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// Compares in a time that does not depend on where they differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZeroU32;

    use super::*;

    /// The example of RFC 7677, section 3.
    fn challenge() -> Challenge {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::new("pencil", &salt, NonZeroU32::new(4096).unwrap());
        Challenge::new("n,,n=user,r=rOprNGfwEbeRWgbNEkqO", verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
            .unwrap()
    }

    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_example_of_the_standard_is_answered_as_it_says() {
        let challenge = challenge();
        assert_eq!(
            challenge.text(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let answer = challenge.answer(FINAL);
        assert_eq!(answer, Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_owned()));
    }

    #[test]
    fn whatever_is_changed_on_the_way_is_refused() {
        let check = |message: &str, expected: ScramError| {
            assert_eq!(challenge().answer(message), Err(expected), "{message}");
        };
        check(&FINAL.replace("p=dH", "p=dI"), ScramError::Wrong);
        let malformed = ScramError::Malformed("last message");
        check(&FINAL.replace("c=biws", "c=eSws"), malformed);
        check(&FINAL.replace("k0,", "k1,"), malformed);
        check(&FINAL.replace("p=dH", "p=H"), malformed);
        check("", malformed);
        let verifier = || ScramVerifier::new("x", b"salt", NonZeroU32::MIN);
        for first in [
            "",
            "n,,",
            "n,,n=,r=",
            "p=tls-server-end-point,,n=,r=a",
            "x,,n=,r=a",
            "n,,r=a",
            "n,,n=,r=a\u{e9}",
        ] {
            assert!(Challenge::new(first, verifier(), "b").is_err(), "{first}");
        }
        assert!(Challenge::new("y,,n=,r=a", verifier(), "b").is_ok());
    }
}
