//! Sessions of clients. The protocol has none of its own: a session belongs to the token that a client sends with each
//! call, or where clients send none, to their connection.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nyala_engine::{Engine, Session, SessionOptions};
use ring::digest::{SHA256, digest};

use super::opaque::Opaque;
use super::statements::Statements;
use super::types::Types;
use crate::http::OpenConnection;

/// A session that nobody uses ends after this time. A handle that a client keeps longer has to be prepared again.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Most sessions at a time.
const MAX_SESSIONS: usize = 10_000;

/// What a session belongs to.
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
        Self::Token(digest(&SHA256, token.as_bytes()).as_ref().to_vec())
    }
}

/// Who calls: put into the request by the login.
#[derive(Debug, Clone)]
pub struct Caller {
    pub owner: Owner,
    pub options: SessionOptions,
    pub connection: OpenConnection,
}

/// One session.
pub struct FlightSession {
    pub session: Opaque<Arc<Session>>,
    pub statements: Statements,
    types: Mutex<Types>,
    used: Mutex<Instant>,
    /// Calls and answers under way.
    calls: AtomicUsize,
    /// With which it ends, if it belongs to one.
    connection: Option<OpenConnection>,
}

impl FlightSession {
    /// The types of its answers.
    pub fn types(&self) -> Types {
        *self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_types(&self, types: Types) {
        *self.types.lock().unwrap_or_else(PoisonError::into_inner) = types;
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_over(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_closed = self.connection.as_ref().is_some_and(|connection| !connection.is_open());
        is_closed || (used.elapsed() > IDLE && self.calls.load(Ordering::Relaxed) == 0)
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
pub struct Sessions(Mutex<HashMap<Owner, Arc<FlightSession>>>);

impl Sessions {
    /// The session of a caller, which begins with its first call; none if there are too many.
    pub fn of(&self, engine: &Arc<Engine>, caller: &Caller) -> Option<InUse> {
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(&caller.owner) {
            return Some(InUse::begin(session));
        }
        if sessions.len() >= MAX_SESSIONS {
            return None;
        }
        let connection = match caller.owner {
            Owner::Token(_) => None,
            Owner::Connection(..) => Some(caller.connection.clone()),
        };
        let session = Arc::new(FlightSession {
            session: Opaque::new(engine.session(caller.options.clone())),
            statements: Statements::default(),
            types: Mutex::new(Types::Common),
            used: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
            connection,
        });
        let in_use = InUse::begin(&session);
        sessions.insert(caller.owner.clone(), session);
        Some(in_use)
    }

    /// Ends the session of a caller; false if there is none.
    pub fn close(&self, owner: &Owner) -> bool {
        let session = self.lock().remove(owner);
        session.inspect(|session| session.end()).is_some()
    }

    /// Ends the sessions that nobody uses, and those of connections that are gone.
    pub fn sweep(&self) {
        let mut over = Vec::new();
        self.lock().retain(|_, session| {
            let is_over = session.is_over();
            if is_over {
                over.push(Arc::clone(session));
            }
            !is_over
        });
        // Without the lock: what a session holds is dropped with it.
        over.iter().for_each(|session| session.end());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Arc<FlightSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
