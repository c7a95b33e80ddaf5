//! One connection of a client: its user, its signals, its notifications, and what functions ask of its session.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How the door reaches a connection.
pub trait Signals: Send + Sync {
    /// Cancels the running statement.
    fn cancel(&self);
    /// Ends the connection.
    fn terminate(&self);
    /// Tells the connection that notifications have come.
    fn wake(&self);
    /// Whether the connection's user may do everything at present.
    fn is_superuser(&self) -> bool;
}

/// A message of NOTIFY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The connection that sent it.
    pub process_id: i32,
    /// The channel.
    pub channel: String,
    /// The text.
    pub payload: String,
}

/// What a function of a query asks its own session to do, once the query is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sends a notification when the transaction is committed.
    Notify {
        /// The channel.
        channel: String,
        /// The text.
        payload: String,
    },
    /// Changes a setting.
    Set {
        /// The name of the setting.
        name: String,
        /// The new value; none for the default.
        value: Option<String>,
        /// Whether the change ends with the transaction.
        local: bool,
    },
    /// Lets the session wait.
    Sleep(Duration),
}

/// The statement of a connection that waits because of `pg_sleep`. The engine has run it already.
#[derive(Debug, Clone)]
pub struct Asleep {
    /// The text of the client.
    pub text: String,
    /// When the wait began, in microseconds since 1970.
    pub since_us: i64,
}

/// A connection, as long as it lives.
pub struct Backend {
    /// The process id that BackendKeyData tells the client.
    pub process_id: i32,
    /// Names this connection in calls of functions that act on it. No other connection can guess it.
    pub token: String,
    /// The name that the client gave.
    pub user: String,
    /// The role whose privileges count; none for the owner of the data.
    pub role: Option<String>,
    /// Address of the client, as in `system.queries`.
    pub client: String,
    /// Start of the connection, in microseconds since 1970.
    pub begun_us: i64,
    application: Mutex<String>,
    asleep: Mutex<Option<Asleep>>,
    signals: Box<dyn Signals>,
    has_actions: AtomicBool,
    has_transaction_locks: AtomicBool,
    actions: Mutex<Vec<Action>>,
    inbox: Mutex<Vec<Notification>>,
    channels: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("process_id", &self.process_id).finish_non_exhaustive()
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a connection, and 128 random bits.
fn token(process_id: i32) -> String {
    let chance = || RandomState::new().build_hasher().finish();
    format!("{process_id}:{:016x}{:016x}", chance(), chance())
}

impl Backend {
    /// A connection that starts now.
    pub fn new(
        process_id: i32,
        user: &str,
        role: Option<String>,
        client: &str,
        signals: Box<dyn Signals>,
    ) -> Self {
        Self {
            process_id,
            token: token(process_id),
            user: user.to_owned(),
            role,
            client: client.to_owned(),
            begun_us: chrono::Utc::now().timestamp_micros(),
            application: Mutex::default(),
            asleep: Mutex::default(),
            signals,
            has_actions: AtomicBool::new(false),
            has_transaction_locks: AtomicBool::new(false),
            actions: Mutex::default(),
            inbox: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    /// The name of the client's program.
    pub fn application(&self) -> String {
        lock(&self.application).clone()
    }

    /// Changes the name of the client's program.
    pub fn set_application(&self, name: &str) {
        name.clone_into(&mut lock(&self.application));
    }

    /// The statement with the `pg_sleep` during which the session waits.
    pub fn asleep(&self) -> Option<Asleep> {
        lock(&self.asleep).clone()
    }

    /// Begins or ends a wait.
    pub fn set_asleep(&self, text: Option<&str>) {
        let since_us = chrono::Utc::now().timestamp_micros();
        *lock(&self.asleep) = text.map(|text| Asleep { text: text.to_owned(), since_us });
    }

    /// Whether the connection's user is the owner of the data, or a superuser at present.
    pub fn is_superuser(&self) -> bool {
        self.signals.is_superuser()
    }

    /// Cancels the running statement of the connection.
    pub fn cancel(&self) {
        self.signals.cancel();
    }

    /// Ends the connection.
    pub fn terminate(&self) {
        self.signals.terminate();
    }

    /// Asks the session to do something once its statement is done.
    pub fn ask(&self, action: Action) {
        lock(&self.actions).push(action);
        self.has_actions.store(true, Ordering::Release);
    }

    /// Takes the actions that the session was asked for, in order. Takes no lock if there are none.
    pub fn take_actions(&self) -> Vec<Action> {
        match self.has_actions.swap(false, Ordering::AcqRel) {
            true => std::mem::take(&mut lock(&self.actions)),
            false => Vec::new(),
        }
    }

    /// Notes that the transaction holds a lock.
    pub fn note_transaction_lock(&self) {
        self.has_transaction_locks.store(true, Ordering::Release);
    }

    /// Tells whether the transaction holds locks, and forgets it: the transaction ends now.
    pub fn take_transaction_locks(&self) -> bool {
        self.has_transaction_locks.swap(false, Ordering::AcqRel)
    }

    /// Begins a LISTEN.
    pub fn listen(&self, channel: &str) {
        lock(&self.channels).insert(channel.to_owned());
    }

    /// Ends one LISTEN, or all.
    pub fn unlisten(&self, channel: Option<&str>) {
        let mut channels = lock(&self.channels);
        match channel {
            Some(channel) => {
                channels.remove(channel);
            }
            None => channels.clear(),
        }
    }

    /// The channels that the session listens to.
    pub fn channels(&self) -> Vec<String> {
        lock(&self.channels).iter().cloned().collect()
    }

    /// Puts a notification into the inbox, if the session listens to its channel.
    pub fn notify(&self, notification: &Notification) {
        if lock(&self.channels).contains(&notification.channel) {
            lock(&self.inbox).push(notification.clone());
            self.signals.wake();
        }
    }

    /// Takes the notifications that have come.
    pub fn take_notifications(&self) -> Vec<Notification> {
        std::mem::take(&mut lock(&self.inbox))
    }
}
