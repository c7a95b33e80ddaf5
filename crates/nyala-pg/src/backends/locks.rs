//! Advisory locks of the process: numbers that sessions agree on.

use std::collections::HashMap;

/// The key of an advisory lock: one BIGINT or two INTEGERs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    One(i64),
    Two(i32, i32),
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Other sessions may hold the lock in shared mode at the same time.
    pub shared: bool,
    /// The lock ends with the transaction.
    pub of_transaction: bool,
}

/// One hold of a lock: a session may hold the same lock several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    process_id: i32,
    mode: Mode,
}

/// All advisory locks.
#[derive(Debug, Default)]
pub struct Locks(HashMap<Key, Vec<Hold>>);

impl Locks {
    /// Takes a lock, unless another session holds it in a mode that excludes this one.
    pub fn try_take(&mut self, key: Key, process_id: i32, mode: Mode) -> bool {
        let holds = self.0.entry(key).or_default();
        let is_free =
            holds.iter().all(|hold| hold.process_id == process_id || hold.mode.shared && mode.shared);
        if is_free {
            holds.push(Hold { process_id, mode });
        }
        is_free
    }

    /// Releases one hold of the session, and tells whether it had one.
    pub fn release(&mut self, key: Key, process_id: i32, shared: bool) -> bool {
        let Some(holds) = self.0.get_mut(&key) else { return false };
        let mode = Mode { shared, of_transaction: false };
        let found = holds.iter().position(|hold| *hold == Hold { process_id, mode });
        if let Some(at) = found {
            holds.swap_remove(at);
        }
        if holds.is_empty() {
            self.0.remove(&key);
        }
        found.is_some()
    }

    /// Releases holds of a session: all, those of session level (`Some(false)`), or those of its transaction.
    pub fn release_all(&mut self, process_id: i32, of_transaction: Option<bool>) {
        let ends = |hold: &Hold| {
            hold.process_id == process_id && of_transaction.is_none_or(|of| hold.mode.of_transaction == of)
        };
        self.0.retain(|_, holds| {
            holds.retain(|hold| !ends(hold));
            !holds.is_empty()
        });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCLUSIVE: Mode = Mode { shared: false, of_transaction: false };
    const SHARED: Mode = Mode { shared: true, of_transaction: false };

    #[test]
    fn a_lock_is_held_as_often_as_it_was_taken() {
        let (mut locks, key) = (Locks::default(), Key::One(7));
        assert!(locks.try_take(key, 1, EXCLUSIVE) && locks.try_take(key, 1, EXCLUSIVE));
        assert!(!locks.try_take(key, 2, EXCLUSIVE) && !locks.try_take(key, 2, SHARED));
        assert!(locks.release(key, 1, false) && !locks.try_take(key, 2, EXCLUSIVE));
        assert!(locks.release(key, 1, false) && locks.try_take(key, 2, EXCLUSIVE));
        assert!(!locks.release(key, 1, false), "no longer held");
    }

    #[test]
    fn shared_locks_are_held_by_several() {
        let (mut locks, key) = (Locks::default(), Key::Two(1, 2));
        assert!(locks.try_take(key, 1, SHARED) && locks.try_take(key, 2, SHARED));
        assert!(!locks.try_take(key, 1, EXCLUSIVE));
        locks.release_all(2, None);
        assert!(locks.try_take(key, 1, EXCLUSIVE));
        locks.release_all(1, None);
        assert!(locks.is_empty());
    }

    #[test]
    fn locks_of_a_transaction_end_with_it() {
        let (mut locks, key) = (Locks::default(), Key::One(7));
        assert!(locks.try_take(key, 1, Mode { of_transaction: true, ..EXCLUSIVE }));
        assert!(!locks.release(key, 1, false));
        locks.release_all(1, Some(true));
        assert!(locks.is_empty());
    }
}
