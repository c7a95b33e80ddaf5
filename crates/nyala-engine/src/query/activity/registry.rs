//! The list of running statements, and the log of ended ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use tokio_util::sync::CancellationToken;

use super::entry::{Entry, Status};
use super::phases::Phases;
use super::watchdog::Stuck;
use crate::query::options::SessionOptions;

/// Parts of list and log, so that statements that begin or end at once seldom meet at a lock.
const PARTS: usize = 16;
/// Ended statements that each part of the log keeps, besides the usual ones.
const LOGGED: usize = 2_000 / PARTS;
/// Usual statements that each part keeps: answered by a ready plan or the result cache, and not slow.
/// Dashboards send thousands a second, which would leave no room for others. Memory that is freed this soon
/// is still in the processor's cache for the next statement.
const USUAL: usize = 256 / PARTS;

/// Every statement of this process.
#[derive(Debug)]
pub struct Registry {
    next: AtomicU64,
    parts: [Mutex<Part>; PARTS],
    stuck: Mutex<Vec<Stuck>>,
    /// When the watchdog looked last, or else when the process began to be watched.
    looked_at: Mutex<Instant>,
    phases: Phases,
    /// Statements that take this long are logged as slow; none if no statement is.
    slow: Option<Duration>,
}

/// Statements with the same id modulo [`PARTS`].
#[derive(Debug, Default)]
struct Part {
    running: HashMap<u64, Arc<Entry>>,
    /// Ended statements, the last to end at the back: usual ones here, all others in `log`.
    usual: VecDeque<Arc<Entry>>,
    log: VecDeque<Arc<Entry>>,
}

impl Part {
    /// Moves an ended statement to the log; returns the entry that had to leave the log.
    fn end(&mut self, entry: &Arc<Entry>, usual: bool) -> Option<Arc<Entry>> {
        self.running.remove(&entry.id);
        let (log, most) = if usual { (&mut self.usual, USUAL) } else { (&mut self.log, LOGGED) };
        log.push_back(Arc::clone(entry));
        if log.len() > most { log.pop_front() } else { None }
    }
}

impl Registry {
    pub fn new(slow: Option<Duration>) -> Self {
        Self {
            next: AtomicU64::new(1),
            parts: Default::default(),
            stuck: Mutex::default(),
            looked_at: Mutex::new(Instant::now()),
            phases: Phases::default(),
            slow,
        }
    }

    pub fn begin(&self, text: &str, owner: Arc<SessionOptions>, cancel: CancellationToken) -> Arc<Entry> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(Entry::new(id, text, owner, cancel));
        self.with_part(id, |part| part.running.insert(id, Arc::clone(&entry)));
        entry
    }

    pub fn end(&self, entry: &Arc<Entry>) {
        entry.forget_work();
        if entry.is_prepared() {
            drop(self.with_part(entry.id, |part| part.running.remove(&entry.id)));
            return;
        }
        self.log_slow(entry);
        self.phases.ended(entry);
        // The oldest entry is dropped outside of the lock.
        let usual = self.is_usual(entry);
        drop(self.with_part(entry.id, |part| part.end(entry, usual)));
    }

    /// Whether a ready plan or the result cache answered it without error, and it was not slow.
    fn is_usual(&self, entry: &Entry) -> bool {
        let quick = |took: Duration| self.slow.is_none_or(|slow| took < slow);
        let finished =
            entry.end().is_some_and(|end| matches!(end.status, Status::Finished) && quick(end.took));
        entry.was_known() && finished
    }

    fn log_slow(&self, entry: &Entry) {
        let Some(end) = entry.end().filter(|end| self.slow.is_some_and(|slow| end.took >= slow)) else {
            return;
        };
        let ms = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
        let failed = matches!(end.status, Status::Failed(_));
        tracing::warn!(id = entry.id, ms, rows = entry.rows(), failed, user = entry.owner.user, sql = %entry.text, "slow statement");
    }

    fn with_part<T>(&self, id: u64, change: impl FnOnce(&mut Part) -> T) -> Option<T> {
        let part = self.parts.get(usize::try_from(id).unwrap_or_default() % PARTS)?;
        Some(change(&mut part.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The time of statements in each phase.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Running statements, in the order they began.
    pub fn running(&self) -> Vec<Arc<Entry>> {
        let mut all = self.gather(|part| part.running.values().cloned().collect());
        all.sort_by_key(|entry| entry.id);
        all
    }

    fn gather(&self, of: impl Fn(&Part) -> Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let of = |part: &Mutex<Part>| of(&part.lock().unwrap_or_else(PoisonError::into_inner));
        self.parts.iter().flat_map(of).collect()
    }

    /// A running statement.
    pub fn find(&self, id: u64) -> Option<Arc<Entry>> {
        self.with_part(id, |part| part.running.get(&id).cloned()).flatten()
    }

    /// A statement that runs, or that ended lately.
    pub fn find_ended_too(&self, id: u64) -> Option<Arc<Entry>> {
        let find = |part: &mut Part| {
            let logged = || part.log.iter().chain(&part.usual).find(|entry| entry.id == id);
            part.running.get(&id).or_else(logged).cloned()
        };
        self.with_part(id, find).flatten()
    }

    /// Ended statements, the last to end first.
    pub fn log(&self) -> Vec<Arc<Entry>> {
        let mut all = self.gather(|part| part.log.iter().chain(&part.usual).cloned().collect());
        all.sort_by_key(|entry| std::cmp::Reverse(entry.end().map(|end| entry.begun + end.took)));
        all
    }

    /// Work without progress at the watchdog's last look.
    pub fn stuck(&self) -> Vec<Stuck> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the result of a look of the watchdog.
    pub fn set_stuck(&self, stuck: Vec<Stuck>) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
        *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The time since the watchdog's last look.
    pub fn since_look(&self) -> Duration {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;
    use crate::query::activity::entry::TEXT_BYTES;
    use crate::query::activity::fail;
    use crate::query::counters::Counters;
    use nyala_sql::error::{ErrorKind, QueryError};

    fn begin(registry: &Registry) -> (Arc<Entry>, CancellationToken) {
        let token = CancellationToken::new();
        (registry.begin("SELECT 1", Arc::default(), token.clone()), token)
    }

    #[test]
    fn the_log_has_what_ended_last_first_and_forgets_the_oldest() {
        let registry = Registry::new(None);
        let early: Vec<_> = (0..40).map(|_| begin(&registry).0).collect();
        let numbers = |entries: Vec<Arc<Entry>>| entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!(numbers(registry.running()), (1..=40).collect::<Vec<_>>());
        // Backwards, so that statements do not end in the order in which they began.
        for entry in early.iter().rev() {
            entry.end_with(Status::Finished);
            registry.end(entry);
        }
        assert!(registry.running().is_empty());
        assert_eq!(numbers(registry.log()), (1..=40).collect::<Vec<_>>());
        for _ in 0..PARTS * LOGGED {
            let (entry, _) = begin(&registry);
            entry.end_with(Status::Finished);
            registry.end(&entry);
        }
        let log = numbers(registry.log());
        assert_eq!((log.len(), *log.first().unwrap(), *log.last().unwrap()), (2_000, 2_040, 41));
    }

    #[test]
    fn what_is_usual_leaves_room_for_other_statements() {
        let registry = Registry::new(Some(Duration::from_secs(3600)));
        let end = |ready: bool, status: Status| {
            let (entry, _) = begin(&registry);
            if ready {
                entry.follows(&(Arc::new(EmptyExec::new(Arc::new(Schema::empty()))) as _), true, None);
            }
            entry.end_with(status);
            registry.end(&entry);
            entry.id
        };
        let kept = [end(false, Status::Finished), end(true, Status::Failed("no".to_owned()))];
        let last: Vec<u64> = (0..3_000).map(|_| end(true, Status::Finished)).collect();
        let mut log: Vec<u64> = registry.log().iter().map(|entry| entry.id).collect();
        log.sort_unstable();
        assert_eq!(log.split_at(2), (&kept[..], last.split_at(last.len() - PARTS * USUAL).1));
        let slow = Registry::new(Some(Duration::ZERO));
        let (entry, _) = begin(&slow);
        entry.follows(&(Arc::new(EmptyExec::new(Arc::new(Schema::empty()))) as _), true, None);
        entry.end_with(Status::Finished);
        assert!(!slow.is_usual(&entry), "it was slow");
    }

    #[test]
    fn the_log_keeps_the_beginning_of_a_long_error() {
        let registry = Registry::new(None);
        let (entry, _) = begin(&registry);
        let error = QueryError::new(ErrorKind::Data, format!("cannot cast `{}`", "é".repeat(1 << 20)));
        fail(&Counters::default(), &entry, &error);
        registry.end(&entry);
        let log = registry.log();
        let Some(Status::Failed(text)) = log.first().and_then(|entry| entry.end()).map(|end| &end.status)
        else {
            unreachable!("it failed")
        };
        assert!(text.starts_with("cannot cast `é") && text.capacity() <= TEXT_BYTES, "{} bytes", text.len());
    }

    #[test]
    fn only_what_runs_can_be_killed() {
        let registry = Registry::new(None);
        let ((entry, token), (other, other_token)) = (begin(&registry), begin(&registry));
        assert!(registry.find(entry.id).unwrap().kill());
        assert!(token.is_cancelled() && entry.was_killed());
        registry.end(&other);
        assert!(registry.find(other.id).is_none());
        assert!(!other.kill(), "it has ended");
        assert!(!other_token.is_cancelled() && !other.was_killed());
    }
}
