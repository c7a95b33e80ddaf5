//! Passwords that were right a short while ago, so that clients that send theirs with every request need not have it
//! checked every time: a check takes some ten milliseconds of a core.
//!
//! Only a keyed digest of user and password is kept, with the hash that the password fitted. With another hash the
//! proof is worth nothing: a password that was changed or a role that was dropped ends it at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac::{HMAC_SHA256, Key, sign};
use ring::rand::SystemRandom;

/// How long a proof is good for.
const LIFETIME: Duration = Duration::from_secs(60);
/// Most proofs at a time; those nearest their end make room.
const MAX_PROOFS: usize = 1000;

type Digest = Vec<u8>;

/// Proofs that passed.
pub struct Proofs {
    /// A random key of this process alone, without which the digests reveal nothing. None if the system gives no random
    /// numbers; then nothing is kept.
    key: Option<Key>,
    known: Mutex<HashMap<Digest, Proof>>,
}

struct Proof {
    /// The hash that the password fitted.
    hash: String,
    until: Instant,
}

impl Default for Proofs {
    fn default() -> Self {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new()).ok();
        Self { key, known: Mutex::default() }
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proofs").finish_non_exhaustive()
    }
}

impl Proofs {
    /// Whether a password was found to fit this hash a short while ago.
    pub fn holds(&self, user: &str, password: &str, hash: &str) -> bool {
        let Some(digest) = self.digest(user, password) else { return false };
        let known = self.lock();
        known.get(&digest).is_some_and(|proof| proof.until > Instant::now() && proof.hash == hash)
    }

    /// Records that a password fits a hash.
    pub fn keep(&self, user: &str, password: &str, hash: &str) {
        let Some(digest) = self.digest(user, password) else { return };
        let now = Instant::now();
        let mut known = self.lock();
        if known.len() >= MAX_PROOFS {
            known.retain(|_, proof| proof.until > now);
        }
        if known.len() >= MAX_PROOFS {
            let oldest = known.iter().min_by_key(|(_, proof)| proof.until).map(|(digest, _)| digest.clone());
            oldest.and_then(|digest| known.remove(&digest));
        }
        known.insert(digest, Proof { hash: hash.to_owned(), until: now + LIFETIME });
    }

    /// The digest of a user and a password. The length of the user's name tells where the password begins.
    fn digest(&self, user: &str, password: &str) -> Option<Digest> {
        let length = (user.len() as u64).to_le_bytes();
        let text = [length.as_slice(), user.as_bytes(), password.as_bytes()].concat();
        self.key.as_ref().map(|key| sign(key, &text).as_ref().to_vec())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Proof>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_user_one_password_and_one_hash() {
        let proofs = Proofs::default();
        proofs.keep("ann", "secret", "hash");
        assert!(proofs.holds("ann", "secret", "hash"));
        assert!(!proofs.holds("ann", "secret", "another hash"), "the password was changed");
        assert!(!proofs.holds("ann", "secre", "hash"));
        assert!(!proofs.holds("anns", "ecret", "hash"));
        assert!(!proofs.holds("", "annsecret", "hash"));
    }

    #[test]
    fn old_proofs_make_room() {
        let proofs = Proofs::default();
        for user in 0..2 * MAX_PROOFS {
            proofs.keep(&user.to_string(), "p", "h");
        }
        assert_eq!(proofs.lock().len(), MAX_PROOFS);
        assert!(proofs.holds(&(2 * MAX_PROOFS - 1).to_string(), "p", "h"));
        assert!(!proofs.holds("0", "p", "h"));
    }
}
