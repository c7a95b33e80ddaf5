//! Checks passwords and tokens, and gives the identity that they prove.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nyala_engine::{Engine, Identity, check_password};
use nyala_model::access::PasswordEntry;
use nyala_model::config::Authentication;
use tokio::sync::Semaphore;

use super::credentials::Credentials;
use super::proofs::Proofs;
use super::shared_tokens::SharedTokens;
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

/// Checks the credentials of clients of all doors.
pub struct Authenticator {
    engine: Arc<Engine>,
    mode: Authentication,
    tokens: Tokens,
    /// None if this node shares its users with no other.
    shared_tokens: Option<SharedTokens>,
    proofs: Proofs,
    checks: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Authenticator {
    /// An authenticator for the roles of this engine's catalog. `secret` is known to all nodes that share these roles.
    pub fn new(engine: Arc<Engine>, mode: Authentication, secret: Option<&str>) -> Self {
        let (checks, waiting) = (Arc::new(Semaphore::new(CHECKS)), Arc::new(Semaphore::new(WAITING)));
        let shared_tokens = secret.map(SharedTokens::new);
        let (tokens, proofs) = (Tokens::default(), Proofs::default());
        Self { engine, mode, tokens, shared_tokens, proofs, checks, waiting }
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
            Some(Credentials::Bearer(token)) => self.bearer(&token).map(Identity::Role).ok_or(Refusal::Wrong),
        }
    }

    /// The role behind a token, which is worth no more than the role's password.
    fn bearer(&self, token: &str) -> Option<String> {
        match self.tokens.find(token) {
            Some(given) => (self.hash_of(&given.role) == Some(given.password)).then_some(given.role),
            None => self.shared_tokens.as_ref()?.role(token, |role| self.hash_of(role)),
        }
    }

    /// The hash that a password over HTTP is compared with.
    fn hash_of(&self, role: &str) -> Option<String> {
        self.password_of(role).and_then(|password| password.argon2)
    }

    /// A token for a user with the right password, and its lifetime.
    pub(crate) async fn token(
        &self,
        credentials: Option<Credentials>,
        ends: Ends,
    ) -> Result<(String, Duration), Refusal> {
        let Some(Credentials::Basic { user, password }) = credentials else { return Err(Refusal::Missing) };
        let hash = self.check(&user, password).await?;
        let token = match (&self.shared_tokens, ends) {
            (Some(shared), Ends::OnTime) => shared.give(&user, &hash),
            _ => self.tokens.give(&user, &hash, ends).ok_or(Refusal::Busy)?,
        };
        Ok((token, LIFETIME))
    }

    /// Forgets the token of a session that has ended, by its digest.
    pub(crate) fn end_session(&self, key: &[u8]) {
        self.tokens.end_with_session(key);
    }

    /// Gives the hash that the password fits.
    async fn check(&self, user: &str, password: String) -> Result<String, Refusal> {
        let hash = self.hash_of(user);
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
