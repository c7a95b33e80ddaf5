//! Checks passwords and tokens, and gives the identity that they prove.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nyala_engine::{Engine, Identity, check_password};
use nyala_model::access::PasswordEntry;
use nyala_model::config::Authentication;
use tokio::sync::Semaphore;

use super::credentials::Credentials;
use super::proofs::Proofs;
use super::tokens::{Ends, LIFETIME, Tokens};

/// Passwords that are checked at the same time: each takes 19 MiB and a core.
const CHECKS: usize = 2;
/// Passwords that may wait to be checked. More are turned away, so that guessing cannot fill the memory.
const WAITING: usize = 64;

/// Why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No proof was brought.
    Missing,
    /// The user, password or token is wrong; the client is not told which, because names of users are secret.
    Wrong,
    /// Too many passwords are being checked.
    Busy,
}

impl Refusal {
    /// The reason, as the client is told it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "who asks is not said",
            Self::Wrong => "wrong user, password or token",
            Self::Busy => "too many passwords are being checked",
        }
    }
}

/// Checks the credentials of clients of both doors.
pub struct Authenticator {
    engine: Arc<Engine>,
    mode: Authentication,
    tokens: Tokens,
    proofs: Proofs,
    checks: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Authenticator {
    /// An authenticator for the roles of this engine's catalog.
    pub fn new(engine: Arc<Engine>, mode: Authentication) -> Self {
        let (checks, waiting) = (Arc::new(Semaphore::new(CHECKS)), Arc::new(Semaphore::new(WAITING)));
        Self { engine, mode, tokens: Tokens::default(), proofs: Proofs::default(), checks, waiting }
    }

    /// Whether the server asks for no credentials.
    pub(crate) fn is_open(&self) -> bool {
        self.mode == Authentication::None
    }

    /// The hashes of a role's password; none if there is no such role, it may not connect or has no password.
    pub(crate) fn password_of(&self, role: &str) -> Option<PasswordEntry> {
        let catalog = self.engine.catalog().snapshot();
        catalog.roles.get(role).filter(|role| role.login).and_then(|role| role.password.clone())
    }

    /// The identity that these credentials prove.
    pub(crate) async fn identify(&self, credentials: Option<Credentials>) -> Result<Identity, Refusal> {
        if self.is_open() {
            return Ok(Identity::Owner);
        }
        match credentials {
            None => Err(Refusal::Missing),
            Some(Credentials::Basic { user, password }) => {
                self.check(&user, password).await?;
                Ok(Identity::Role(user))
            }
            Some(Credentials::Bearer(token)) => {
                let given = self.tokens.find(&token).ok_or(Refusal::Wrong)?;
                // A token is worth no more than the password behind it.
                let current = self.password_of(&given.role).and_then(|password| password.argon2);
                if current != Some(given.password) {
                    return Err(Refusal::Wrong);
                }
                Ok(Identity::Role(given.role))
            }
        }
    }

    /// A token for a user with the right password, and its lifetime.
    pub(crate) async fn token(
        &self,
        credentials: Option<Credentials>,
        ends: Ends,
    ) -> Result<(String, Duration), Refusal> {
        let Some(Credentials::Basic { user, password }) = credentials else { return Err(Refusal::Missing) };
        let hash = self.check(&user, password).await?;
        let token = self.tokens.give(&user, &hash, ends).ok_or(Refusal::Busy)?;
        Ok((token, LIFETIME))
    }

    /// Forgets the token of a session that has ended, by its digest.
    pub(crate) fn end_session(&self, key: &[u8]) {
        self.tokens.end_with_session(key);
    }

    /// Gives the hash that the password fits.
    async fn check(&self, user: &str, password: String) -> Result<String, Refusal> {
        let hash = self.password_of(user).and_then(|password| password.argon2);
        // An unknown user is checked against a dummy hash, so that the answer takes as long as for a wrong password.
        let (known, hash) = (hash.is_some(), hash.unwrap_or_else(|| NOBODY.clone()));
        if known && self.proofs.holds(user, &password, &hash) {
            return Ok(hash);
        }
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let turn = Arc::clone(&self.checks).acquire_owned().await.map_err(|_| Refusal::Busy)?;
        let tried = hash.clone();
        let check = move || {
            // A check goes on after its client has hung up, and keeps its permits until it ends.
            let _places = (waiting, turn);
            check_password(&password, &tried).then_some(password)
        };
        match tokio::task::spawn_blocking(check).await {
            Ok(Some(password)) if known => {
                self.proofs.keep(user, &password, &hash);
                Ok(hash)
            }
            _ => Err(Refusal::Wrong),
        }
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A dummy hash that no password fits, with the parameters of all others.
static NOBODY: LazyLock<String> = LazyLock::new(|| {
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm9i$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        .to_owned()
});
