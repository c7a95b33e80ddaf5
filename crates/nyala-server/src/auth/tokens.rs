//! Tokens in the place of passwords, for as long as this process lives.
//!
//! A token is 256 random bits, of which only a digest is kept. It ends with its time, and with the password it
//! was given for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// How long a token is good for.
pub const LIFETIME: Duration = Duration::from_secs(3600);
/// Most tokens at a time; those that were not used for the longest time make room.
const MAX_TOKENS: usize = 10_000;
/// Most tokens of one role: each of its connections over Flight SQL has one.
const MAX_OF_ROLE: usize = 1_000;

/// When a token ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// After its lifetime.
    OnTime,
    /// When it was not used for a lifetime, or its session ends: drivers get a token when they connect, and never another one.
    WithSession,
}

type Digest = Vec<u8>;

/// Tokens that were given.
#[derive(Default)]
pub struct Tokens(Mutex<HashMap<Digest, Given>>);

/// The role and the password behind a token.
#[derive(Clone)]
pub struct Given {
    /// The role.
    pub role: String,
    /// The hash of the password that was shown.
    pub password: String,
    until: Instant,
    used: Instant,
    ends: Ends,
}

impl Tokens {
    /// A new token; none if the system gives no random numbers.
    pub fn give(&self, role: &str, password: &str, ends: Ends) -> Option<String> {
        let mut random = [0_u8; 32];
        SystemRandom::new().fill(&mut random).ok()?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let now = Instant::now();
        let (role_name, password) = (role.to_owned(), password.to_owned());
        let given = Given { role: role_name, password, until: now + LIFETIME, used: now, ends };
        let mut tokens = self.lock();
        // Makes room among the role's own tokens first, so that a role that asks often evicts no token of another.
        if tokens.values().filter(|given| given.role == role).count() >= MAX_OF_ROLE {
            make_room(&mut tokens, |given| given.role == role, MAX_OF_ROLE);
        }
        if tokens.len() >= MAX_TOKENS {
            make_room(&mut tokens, |_| true, MAX_TOKENS);
        }
        tokens.insert(key(&token), given);
        Some(token)
    }

    /// The role and the password behind a token; none if the token is unknown or has expired.
    pub fn find(&self, token: &str) -> Option<Given> {
        let (mut tokens, now) = (self.lock(), Instant::now());
        let given = tokens.get_mut(&key(token)).filter(|given| given.until > now)?;
        given.used = now;
        if given.ends == Ends::WithSession {
            given.until = now + LIFETIME;
        }
        Some(given.clone())
    }

    /// Forgets a token whose session has ended, by its digest.
    pub fn end_with_session(&self, key: &[u8]) {
        let mut tokens = self.lock();
        if tokens.get(key).is_some_and(|given| given.ends == Ends::WithSession) {
            tokens.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Given>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes expired tokens, then the least used of `which` if at least `most` of them remain.
fn make_room(tokens: &mut HashMap<Digest, Given>, which: impl Fn(&Given) -> bool, most: usize) {
    let now = Instant::now();
    tokens.retain(|_, given| given.until > now);
    let those = tokens.iter().filter(|(_, given)| which(given));
    if those.clone().count() < most {
        return;
    }
    let oldest = those.min_by_key(|(_, given)| given.used).map(|(key, _)| key.clone());
    oldest.and_then(|key| tokens.remove(&key));
}

/// The digest of a token: neither the map nor the time of a look-up reveals anything about a token.
pub fn key(token: &str) -> Digest {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_is_known_and_another_is_not() {
        let tokens = Tokens::default();
        let token = tokens.give("ann", "hash", Ends::OnTime).unwrap();
        assert_ne!(tokens.give("ann", "hash", Ends::OnTime).unwrap(), token);
        assert_eq!(tokens.find(&token).map(|given| given.role), Some("ann".to_owned()));
        assert!(tokens.find("").is_none());
        assert!(tokens.find(&token.to_uppercase()).is_none());
        assert!(!tokens.lock().keys().any(|key| key == token.as_bytes()));
    }

    #[test]
    fn who_asks_for_many_pushes_out_its_own() {
        let tokens = Tokens::default();
        let other = tokens.give("other", "hash", Ends::OnTime).unwrap();
        let first = tokens.give("ann", "hash", Ends::OnTime).unwrap();
        let used = tokens.give("ann", "hash", Ends::OnTime).unwrap();
        let give = || {
            let given = tokens.give("ann", "hash", Ends::OnTime).unwrap();
            assert!(tokens.find(&used).is_some(), "what is used stays");
            given
        };
        let given: Vec<String> = (0..MAX_OF_ROLE - 1).map(|_| give()).collect();
        assert!(tokens.find(&first).is_none());
        assert!(given.iter().chain([&other]).all(|token| tokens.find(token).is_some()));
    }

    #[test]
    fn a_token_of_a_session_ends_with_it() {
        let tokens = Tokens::default();
        let of_session = tokens.give("ann", "hash", Ends::WithSession).unwrap();
        let other = tokens.give("ann", "hash", Ends::OnTime).unwrap();
        for token in [&of_session, &other] {
            tokens.end_with_session(&key(token));
        }
        assert!(tokens.find(&of_session).is_none() && tokens.find(&other).is_some());
    }
}
