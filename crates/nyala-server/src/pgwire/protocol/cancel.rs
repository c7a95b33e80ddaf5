//! Finds the session that a cancel request means, and the ways in which other sessions reach it.
//!
//! A client cancels over a second connection, naming the process id and the secret that its first
//! connection was told at start-up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nyala_engine::{Identity, Session};
use nyala_pg::backends::{BACKENDS, Backend, Signals};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Identifies a connection in a cancel request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelKey {
    /// A running number, which the protocol calls a process id.
    pub process_id: i32,
    /// A number that only this client knows.
    pub secret: i32,
}

/// Handles by which other sessions reach a connection.
#[derive(Clone)]
pub struct Reach {
    session: Arc<Session>,
    /// Ends the connection once its client pauses.
    pub end: CancellationToken,
    /// Ends the connection after its present message, whether or not its client has sent more.
    terminated: Arc<AtomicBool>,
    /// Wakes the connection while it waits in a command of the door.
    pub interrupted: Arc<Notify>,
    /// Wakes the connection when notifications have come.
    pub mail: Arc<Notify>,
}

impl Signals for Reach {
    fn cancel(&self) {
        self.session.cancel();
        self.interrupted.notify_waiters();
    }

    fn terminate(&self) {
        self.terminated.store(true, Ordering::Release);
        self.end.cancel();
        self.cancel();
    }

    fn wake(&self) {
        self.mail.notify_one();
    }

    fn is_superuser(&self) -> bool {
        self.session.is_superuser()
    }
}

impl Reach {
    /// Whether another session ended the connection.
    pub fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }
}

/// All sessions that can be cancelled.
#[derive(Debug, Default)]
pub struct CancelMap {
    secrets: Mutex<HashMap<i32, i32>>,
}

impl CancelMap {
    /// Makes a session reachable until the guard is dropped. The session's options have its number among [`BACKENDS`].
    pub fn register(self: &Arc<Self>, session: &Arc<Session>, end: CancellationToken) -> Registration {
        let options = session.options();
        let key = CancelKey { process_id: options.process_id, secret: random() };
        let reach = Reach {
            session: Arc::clone(session),
            end,
            terminated: Arc::default(),
            interrupted: Arc::default(),
            mail: Arc::default(),
        };
        let role = match &options.identity {
            Identity::Owner => None,
            Identity::Role(role) => Some(role.clone()),
        };
        let signals = Box::new(reach.clone());
        let backend = Arc::new(Backend::new(key.process_id, &options.user, role, &options.client, signals));
        backend.set_application(&options.application);
        BACKENDS.add(Arc::clone(&backend));
        self.lock().insert(key.process_id, key.secret);
        Registration { key, backend, reach, map: Arc::clone(self) }
    }

    /// Cancels the running statement of the session with this key. A wrong key has no effect and gets no answer.
    pub fn cancel(&self, key: CancelKey) -> bool {
        let is_right = self.lock().get(&key.process_id) == Some(&key.secret);
        let backend = BACKENDS.get(key.process_id).filter(|_| is_right);
        if let Some(backend) = &backend {
            backend.cancel();
        }
        backend.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, i32>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's place in the map.
pub struct Registration {
    pub key: CancelKey,
    pub backend: Arc<Backend>,
    pub reach: Reach,
    map: Arc<CancelMap>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.map.lock().remove(&self.key.process_id);
        BACKENDS.remove(self.key.process_id);
    }
}

/// A number that cannot be guessed: the standard library keys its hasher from the system's randomness.
fn random() -> i32 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}
