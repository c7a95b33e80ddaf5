//! The list of what runs, and the log of what ran.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tokio_util::sync::CancellationToken;

use super::entry::{Entry, Status};
use super::phases::Phases;
use super::watchdog::Stuck;
use crate::query::session::SessionOptions;

/// Parts of the list, so that statements that begin at once seldom meet.
const PARTS: usize = 16;
/// Statements that the log keeps.
const LOGGED: usize = 2000;

/// Every statement of this process.
#[derive(Debug)]
pub(in crate::query) struct Registry {
    next: AtomicU64,
    running: [Mutex<HashMap<u64, Arc<Entry>>>; PARTS],
    log: Mutex<VecDeque<Arc<Entry>>>,
    stuck: Mutex<Vec<Stuck>>,
    phases: Phases,
    /// Statements that take longer are logged; none if they never are.
    slow: Option<Duration>,
}

impl Registry {
    pub(in crate::query) fn new(slow: Option<Duration>) -> Self {
        Self {
            next: AtomicU64::new(1),
            running: Default::default(),
            log: Mutex::default(),
            stuck: Mutex::default(),
            phases: Phases::default(),
            slow,
        }
    }

    pub(super) fn begin(
        &self,
        text: &str,
        owner: Arc<SessionOptions>,
        cancel: CancellationToken,
    ) -> Arc<Entry> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(Entry::new(id, text, owner, cancel));
        self.with_part(id, |part| part.insert(id, Arc::clone(&entry)));
        entry
    }

    pub(super) fn end(&self, entry: &Arc<Entry>) {
        self.with_part(entry.id, |part| part.remove(&entry.id));
        entry.forget_plan();
        self.log_slow(entry);
        self.phases.ended(entry);
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push_back(Arc::clone(entry));
        let oldest = if log.len() > LOGGED { log.pop_front() } else { None };
        // Its memory is given back after the lock.
        drop(log);
        drop(oldest);
    }

    fn log_slow(&self, entry: &Entry) {
        let Some(end) = entry.end().filter(|end| self.slow.is_some_and(|slow| end.took >= slow)) else {
            return;
        };
        let ms = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
        let failed = matches!(end.status, Status::Failed(_));
        tracing::warn!(id = entry.id, ms, rows = entry.rows(), failed, user = entry.owner.user, sql = %entry.text, "slow statement");
    }

    fn with_part<T>(&self, id: u64, change: impl FnOnce(&mut HashMap<u64, Arc<Entry>>) -> T) -> Option<T> {
        let part = self.running.get(usize::try_from(id).unwrap_or_default() % PARTS)?;
        Some(change(&mut part.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// How long statements were in each phase.
    pub(in crate::query) fn phases(&self) -> &Phases {
        &self.phases
    }

    /// What runs, in the order it began.
    pub(in crate::query) fn running(&self) -> Vec<Arc<Entry>> {
        let mut all = Vec::new();
        for part in &self.running {
            all.extend(part.lock().unwrap_or_else(PoisonError::into_inner).values().cloned());
        }
        all.sort_by_key(|entry| entry.id);
        all
    }

    /// One that runs.
    pub(in crate::query) fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.with_part(id, |part| part.get(&id).cloned()).flatten()
    }

    /// What ran, the last to end first.
    pub(in crate::query) fn log(&self) -> Vec<Arc<Entry>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    /// What made no progress when the watchdog looked last.
    pub(in crate::query) fn stuck(&self) -> Vec<Stuck> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_stuck(&self, stuck: Vec<Stuck>) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
    }
}
