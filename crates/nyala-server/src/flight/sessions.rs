//! Sessions of clients. The protocol has none of its own: a session belongs to the token that a client sends with each
//! call, or where clients send none, to their connection.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nyala_engine::{Engine, Session, SessionOptions};

use super::calls::OpenSession;
use super::opaque::Opaque;
use super::statements::Statements;
use super::types::Types;
use crate::auth::token_key;
use crate::http::OpenConnection;

/// The session of a token ends after this time without a call.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Most sessions at a time.
const MAX_SESSIONS: usize = 10_000;
/// Most sessions of one user, so that one user cannot take all of them.
const MAX_OF_USER: usize = 1_000;
/// Sessions that ended unused and are remembered: the next call must not begin another one without its settings.
const MAX_REMEMBERED: usize = 10_000;

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The digest of a token.
    Token(Vec<u8>),
    /// A connection, by its number, and the user of its calls.
    Connection(u64, String),
}

impl Owner {
    /// The owner of the sessions of a token.
    pub fn of_token(token: &str) -> Self {
        Self::Token(token_key(token))
    }
}

/// The sender of a call. The login puts it into the request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub owner: Owner,
    pub options: SessionOptions,
    pub connection: OpenConnection,
    /// The types of a session that begins with this call.
    pub types: Types,
}

/// Why a caller has no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSession {
    /// All sessions that the server or this user may have are in use.
    TooMany,
    /// The session ended, because it was not used.
    Ended,
}

/// One session.
pub struct FlightSession {
    user: String,
    pub session: Opaque<Arc<Session>>,
    pub statements: Statements,
    types: Mutex<Types>,
    used: Mutex<Instant>,
    /// Calls and answers under way.
    calls: AtomicUsize,
    /// The connection that the session ends with; none if a token owns the session.
    connection: Option<OpenConnection>,
    _counted: OpenSession,
}

impl FlightSession {
    /// The types of the session's answers.
    pub fn types(&self) -> Types {
        *self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_types(&self, types: Types) {
        *self.types.lock().unwrap_or_else(PoisonError::into_inner) = types;
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The time of the last call; none while there are calls.
    fn unused_since(&self) -> Option<Instant> {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (self.calls.load(Ordering::Relaxed) == 0).then_some(used)
    }

    fn is_over(&self) -> bool {
        match &self.connection {
            // The server bounds the connection and watches it, so that the session needs no limit of its own.
            Some(connection) => !connection.is_open(),
            None => self.unused_since().is_some_and(|used| used.elapsed() > IDLE),
        }
    }

    fn end(&self) {
        self.statements.end_all();
        self.session.cancel();
    }
}

impl fmt::Debug for FlightSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightSession").finish_non_exhaustive()
    }
}

/// A session in the hands of a call or an answer, which keep it from ending as unused.
#[derive(Debug)]
pub struct InUse(Arc<FlightSession>);

impl InUse {
    fn begin(session: &Arc<FlightSession>) -> Self {
        session.calls.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(session))
    }
}

impl Deref for InUse {
    type Target = FlightSession;

    fn deref(&self) -> &FlightSession {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.touch();
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All sessions of the door.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    open: HashMap<Owner, Arc<FlightSession>>,
    /// Owners of sessions that ended unused, the first one first.
    ended: VecDeque<Owner>,
}

impl All {
    /// Takes out the session that was not used for the longest time, of one user or of all; none if all are in use.
    fn take_least_used(&mut self, user: Option<&str>) -> Option<Arc<FlightSession>> {
        let those = self.open.iter().filter(|(_, session)| user.is_none_or(|user| session.user == user));
        let unused = those.filter_map(|(owner, session)| Some((session.unused_since()?, owner)));
        let owner = unused.min_by_key(|(used, _)| *used)?.1.clone();
        let session = self.open.remove(&owner);
        self.remember(owner);
        session
    }

    fn remember(&mut self, owner: Owner) {
        if matches!(owner, Owner::Token(_)) {
            if self.ended.len() >= MAX_REMEMBERED {
                self.ended.pop_front();
            }
            self.ended.push_back(owner);
        }
    }
}

impl Sessions {
    /// The session of a caller, which begins with its first call.
    ///
    /// # Errors
    /// There are too many, or it has ended.
    pub fn of(&self, engine: &Arc<Engine>, caller: &Caller) -> Result<InUse, NoSession> {
        let mut all = self.lock();
        if let Some(session) = all.open.get(&caller.owner) {
            return Ok(InUse::begin(session));
        }
        if all.ended.contains(&caller.owner) {
            return Err(NoSession::Ended);
        }
        let user = caller.options.user.clone();
        let of_user = all.open.values().filter(|session| session.user == user).count();
        // The session that makes room. It is ended below, once the lock is released.
        let ended = match (of_user >= MAX_OF_USER, all.open.len() >= MAX_SESSIONS) {
            (false, false) => None,
            (true, _) => Some(all.take_least_used(Some(&user)).ok_or(NoSession::TooMany)?),
            (false, true) => Some(all.take_least_used(None).ok_or(NoSession::TooMany)?),
        };
        let connection = match caller.owner {
            Owner::Token(_) => None,
            Owner::Connection(..) => Some(caller.connection.clone()),
        };
        let session = Arc::new(FlightSession {
            user,
            session: Opaque::new(engine.session(caller.options.clone())),
            statements: Statements::default(),
            types: Mutex::new(caller.types),
            used: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
            connection,
            _counted: OpenSession::count(),
        });
        let in_use = InUse::begin(&session);
        all.open.insert(caller.owner.clone(), session);
        drop(all);
        ended.inspect(|session| session.end());
        Ok(in_use)
    }

    /// Ends the session of a caller, if there is one.
    pub fn close(&self, owner: &Owner) {
        let session = self.lock().open.remove(owner);
        session.inspect(|session| session.end());
    }

    /// Ends the sessions that are not used any more, and those of connections that are gone.
    pub fn sweep(&self) {
        let mut all = self.lock();
        let over: Vec<Owner> = all
            .open
            .iter()
            .filter(|(_, session)| session.is_over())
            .map(|(owner, _)| owner.clone())
            .collect();
        let mut ended = Vec::new();
        for owner in over {
            ended.extend(all.open.remove(&owner));
            all.remember(owner);
        }
        // Sessions are ended without the lock, because dropping their statements and memory takes a while.
        drop(all);
        ended.iter().for_each(|session| session.end());
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
