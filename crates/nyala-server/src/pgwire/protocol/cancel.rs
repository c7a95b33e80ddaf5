//! Finds the session that a cancel request means.
//!
//! A client cancels over a second connection, naming the process id and the secret that its first
//! connection was told at start-up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nyala_engine::Session;

/// Identifies a connection in a cancel request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelKey {
    /// Called a process id by the protocol; a running number here.
    pub process_id: i32,
    /// Known to that client only.
    pub secret: i32,
}

/// All sessions that can be cancelled.
#[derive(Debug, Default)]
pub struct CancelMap {
    last_id: AtomicI32,
    sessions: Mutex<HashMap<i32, (i32, Arc<Session>)>>,
}

impl CancelMap {
    /// Makes a session cancellable until the guard is dropped.
    pub fn register(self: &Arc<Self>, session: Arc<Session>) -> Registration {
        let mut sessions = self.lock();
        let mut process_id = self.next_id();
        while sessions.contains_key(&process_id) {
            process_id = self.next_id();
        }
        let key = CancelKey { process_id, secret: random() };
        sessions.insert(process_id, (key.secret, session));
        Registration { key, map: Arc::clone(self) }
    }

    /// Cancels the running statement of the session with this key. A wrong key has no effect and gets no answer.
    pub fn cancel(&self, key: CancelKey) -> bool {
        let session = self
            .lock()
            .get(&key.process_id)
            .filter(|(secret, _)| *secret == key.secret)
            .map(|(_, session)| Arc::clone(session));
        if let Some(session) = &session {
            session.cancel();
        }
        session.is_some()
    }

    /// Positive numbers only: some clients print them, some treat 0 as "none".
    fn next_id(&self) -> i32 {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        id.max(1)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, (i32, Arc<Session>)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's place in the map.
pub struct Registration {
    pub key: CancelKey,
    map: Arc<CancelMap>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.map.lock().remove(&self.key.process_id);
    }
}

/// A number that cannot be guessed: the standard library keys its hasher from the system's randomness.
fn random() -> i32 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}
