//! All connections of the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::backend::{Backend, Notification};
use super::locks::{Key, Locks, Mode};

/// The connections of this process. Functions find other sessions here, also those of another engine in the process.
pub static BACKENDS: LazyLock<Backends> = LazyLock::new(Backends::default);

/// Connections by their numbers, and their advisory locks.
#[derive(Debug)]
pub struct Backends {
    last: AtomicI32,
    /// First use of this list, which clients are told as the start of the server, in microseconds since 1970.
    pub begun_us: i64,
    backends: Mutex<BTreeMap<i32, Arc<Backend>>>,
    locks: Mutex<Locks>,
}

impl Default for Backends {
    fn default() -> Self {
        let begun_us = chrono::Utc::now().timestamp_micros();
        Self { last: AtomicI32::new(0), begun_us, backends: Mutex::default(), locks: Mutex::default() }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backends {
    /// A number that no connection has. Positive: some clients print them, some treat 0 as none.
    pub fn next_id(&self) -> i32 {
        loop {
            let id = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
            if id > 0 && !lock(&self.backends).contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds a connection.
    pub fn add(&self, backend: Arc<Backend>) {
        lock(&self.backends).insert(backend.process_id, backend);
    }

    /// Removes a connection, and releases its locks.
    pub fn remove(&self, process_id: i32) {
        lock(&self.backends).remove(&process_id);
        self.unlock_all(process_id, None);
    }

    /// A connection by its number.
    pub fn get(&self, process_id: i32) -> Option<Arc<Backend>> {
        lock(&self.backends).get(&process_id).cloned()
    }

    /// All connections.
    pub fn all(&self) -> Vec<Arc<Backend>> {
        lock(&self.backends).values().cloned().collect()
    }

    /// Sends a notification to every connection that listens to its channel.
    pub fn notify(&self, notification: &Notification) {
        self.all().iter().for_each(|backend| backend.notify(notification));
    }

    pub(super) fn try_lock(&self, key: Key, process_id: i32, mode: Mode) -> bool {
        lock(&self.locks).try_take(key, process_id, mode)
    }

    pub(super) fn unlock(&self, key: Key, process_id: i32, shared: bool) -> bool {
        lock(&self.locks).release(key, process_id, shared)
    }

    /// Releases locks of a session: all, those of session level (`Some(false)`), or those of its transaction.
    pub fn unlock_all(&self, process_id: i32, of_transaction: Option<bool>) {
        let mut locks = lock(&self.locks);
        if !locks.is_empty() {
            locks.release_all(process_id, of_transaction);
        }
    }
}
