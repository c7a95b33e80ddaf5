//! Tokens that all nodes with one secret take: behind a load balancer, the next request of a client may go to another node.
//!
//! ```text
//! token    base64url( end: u64, seconds since 1970 │ name of the role │ HMAC-SHA256, 32 bytes )
//! signed   end │ name of the role │ hash of the role's password, which is not in the token
//! ```
//!
//! No node keeps them. A token ends with its time, and with the password that it was given for.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac::{HMAC_SHA256, Key, sign, verify};

use super::tokens::LIFETIME;

/// The secret of the nodes also protects their connections: each purpose has a key of its own.
const PURPOSE: &[u8] = b"tokens of clients, version 1";
const END_BYTES: usize = 8;
const MAC_BYTES: usize = 32;
/// Stands between name and hash: no text in UTF-8 has this byte.
const BORDER: &[u8] = &[0xff];

/// Gives and checks tokens under one secret.
pub struct SharedTokens(Key);

impl SharedTokens {
    /// Tokens of the nodes that know this secret.
    pub fn new(secret: &str) -> Self {
        let derived = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), PURPOSE);
        Self(Key::new(HMAC_SHA256, derived.as_ref()))
    }

    /// A token for a role. `password` is the hash of the role's password.
    pub fn give(&self, role: &str, password: &str) -> String {
        self.give_until(now().saturating_add(LIFETIME.as_secs()), role, password)
    }

    fn give_until(&self, end: u64, role: &str, password: &str) -> String {
        let mut bytes = [end.to_be_bytes().as_slice(), role.as_bytes()].concat();
        let mac = sign(&self.0, &signed(&bytes, password));
        bytes.extend(mac.as_ref());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The role that a token was given to; none if it is no such token, has ended, or if the role has another password by now.
    pub fn role(&self, token: &str, password_of: impl FnOnce(&str) -> Option<String>) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (head, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        let (end, role) = head.split_first_chunk::<END_BYTES>()?;
        let role = std::str::from_utf8(role).ok()?;
        // A role that does not exist is refused as late as one that does: names of users are secret.
        let password = password_of(role).unwrap_or_default();
        verify(&self.0, &signed(head, &password), mac).ok()?;
        (u64::from_be_bytes(*end) > now()).then(|| role.to_owned())
    }
}

fn signed(head: &[u8], password: &str) -> Vec<u8> {
    [head, BORDER, password.as_bytes()].concat()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn role(tokens: &SharedTokens, token: &str, password: Option<&str>) -> Option<String> {
        tokens.role(token, |_| password.map(str::to_owned))
    }

    #[test]
    fn a_token_of_one_node_is_known_to_another() {
        let (one, other) = (SharedTokens::new(SECRET), SharedTokens::new(SECRET));
        let token = one.give("änn", "hash");
        assert_eq!(role(&other, &token, Some("hash")).as_deref(), Some("änn"));
        assert_eq!(role(&other, &token, Some("another hash")), None);
        assert_eq!(role(&other, &token, None), None);
        assert_eq!(role(&SharedTokens::new("another secret"), &token, Some("hash")), None);
    }

    #[test]
    fn a_token_ends_with_its_time() {
        let tokens = SharedTokens::new(SECRET);
        let check = |end: u64, is_good| {
            let token = tokens.give_until(end, "ann", "hash");
            assert_eq!(role(&tokens, &token, Some("hash")).is_some(), is_good, "{end}");
        };
        check(now() + 60, true);
        check(now() - 1, false);
        check(0, false);
    }

    #[test]
    fn a_changed_token_is_worth_nothing() {
        let tokens = SharedTokens::new(SECRET);
        let bytes = URL_SAFE_NO_PAD.decode(tokens.give("ann", "hash")).unwrap_or_default();
        assert!(bytes.len() > END_BYTES + MAC_BYTES);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            if let Some(byte) = changed.get_mut(place) {
                *byte ^= 1;
            }
            assert_eq!(role(&tokens, &URL_SAFE_NO_PAD.encode(changed), Some("hash")), None, "{place}");
        }
        for length in 0..bytes.len() {
            let cut: Vec<u8> = bytes.iter().copied().take(length).collect();
            assert_eq!(role(&tokens, &URL_SAFE_NO_PAD.encode(cut), Some("hash")), None, "{length}");
        }
        // The border between name and hash is signed, too.
        assert_eq!(role(&tokens, &tokens.give("annh", "ash"), Some("hash")), None);
        assert_eq!(role(&tokens, "no token", Some("hash")), None);
    }
}
