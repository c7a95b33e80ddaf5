//! One statement, as lists, logs and the watchdog see it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::cube::build::now_ms;
use nyala_runtime::{Reason, Work};
use nyala_sql::statement::LoggedText;
use tokio_util::sync::CancellationToken;

use super::route::{BytesRead, Progress, Route, rows_read};
use crate::query::options::SessionOptions;

/// Longest text that is kept of a statement, in bytes.
pub const TEXT_BYTES: usize = 4096;

/// The phase that a statement is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Resolves names, types, cubes and operators; or runs a statement that is no query.
    Planning,
    /// Waits for a slot.
    Queued,
    /// Computes.
    Running,
    /// Waits for the client to take rows.
    Sending,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Planning, Self::Queued, Self::Running, Self::Sending];

    pub fn name(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Sending => "sending",
        }
    }
}

/// How a statement ended.
#[derive(Debug, Clone)]
pub enum Status {
    /// Only its preparation was listed, and it succeeded.
    Prepared,
    Finished,
    /// The client went away, or did not want the rest.
    Abandoned,
    Failed(String),
}

/// The end of a statement.
#[derive(Debug, Clone)]
pub struct End {
    pub status: Status,
    pub took: Duration,
}

/// Parts of a statement that exist only while it runs: operators hold memory as long as their plan exists.
#[derive(Debug, Default)]
struct Live {
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// Cancels this statement and nothing else of its session.
    cancel: Option<CancellationToken>,
}

/// A statement that runs or ran.
#[derive(Debug)]
pub struct Entry {
    pub id: u64,
    /// Its text, which shows no secrets.
    pub text: LoggedText,
    pub owner: Arc<SessionOptions>,
    pub begun: Instant,
    pub begun_ms: u64,
    schema: OnceLock<Arc<str>>,
    killed: AtomicBool,
    /// Time to parse and to prepare it before its begin, in nanoseconds.
    preparing: AtomicU64,
    phase: AtomicU8,
    /// Start of the present phase, in nanoseconds from its begin.
    since: AtomicU64,
    /// Time spent in each phase, in nanoseconds, without the present stay.
    spent: [AtomicU64; Phase::ALL.len()],
    rows: AtomicU64,
    peak_memory_bytes: AtomicUsize,
    ready_plan: AtomicBool,
    builds: AtomicBool,
    given_again: AtomicBool,
    goes_on: AtomicBool,
    ending: AtomicBool,
    account: OnceLock<Arc<Work>>,
    route: OnceLock<Arc<Route>>,
    /// Rows that it is estimated to read; 0 if that is not known.
    rows_total: AtomicU64,
    bytes_read: OnceLock<BytesRead>,
    rows_read: OnceLock<u64>,
    live: Mutex<Live>,
    end: OnceLock<End>,
}

impl Entry {
    pub fn new(id: u64, text: &str, owner: Arc<SessionOptions>, cancel: CancellationToken) -> Self {
        Self {
            id,
            text: LoggedText::of(text, TEXT_BYTES),
            owner,
            begun: Instant::now(),
            begun_ms: now_ms(),
            schema: OnceLock::new(),
            killed: AtomicBool::new(false),
            preparing: AtomicU64::new(0),
            phase: AtomicU8::new(0),
            since: AtomicU64::new(0),
            spent: Default::default(),
            rows: AtomicU64::new(0),
            peak_memory_bytes: AtomicUsize::new(0),
            ready_plan: AtomicBool::new(false),
            builds: AtomicBool::new(false),
            given_again: AtomicBool::new(false),
            goes_on: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            account: OnceLock::new(),
            route: OnceLock::new(),
            rows_total: AtomicU64::new(0),
            bytes_read: OnceLock::new(),
            rows_read: OnceLock::new(),
            live: Mutex::new(Live { plan: None, cancel: Some(cancel) }),
            end: OnceLock::new(),
        }
    }

    /// Records the schema in which the statement's names without a schema are looked up.
    pub fn is_in(&self, schema: Arc<str>) {
        // A session sets it once for each statement.
        let _ = self.schema.set(schema);
    }

    /// The schema in which the statement's names without a schema are looked up; none for a part of another node's statement.
    pub fn schema(&self) -> Option<&str> {
        self.schema.get().map(|schema| &**schema)
    }

    /// Records how long it took to parse and to prepare, before it began.
    pub fn was_prepared_within(&self, time: Duration) {
        self.preparing.store(nanos(time), Ordering::Relaxed);
    }

    /// Time to parse and to prepare it before it began; zero if that was done for an execution before.
    pub fn preparing(&self) -> Duration {
        Duration::from_nanos(self.preparing.load(Ordering::Relaxed))
    }

    pub fn enter(&self, phase: Phase) {
        let now = nanos(self.begun.elapsed());
        let since = self.since.swap(now, Ordering::Relaxed);
        self.add_to(self.phase(), now.saturating_sub(since));
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn add_to(&self, phase: Phase, nanos: u64) {
        if let Some(spent) = self.spent.get(phase as usize) {
            spent.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Time spent in a phase, without the present stay.
    pub fn spent(&self, phase: Phase) -> Duration {
        let nanos = self.spent.get(phase as usize).map_or(0, |spent| spent.load(Ordering::Relaxed));
        Duration::from_nanos(nanos)
    }

    pub fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(Phase::Planning)
    }

    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Records the memory that is held now, for the peak.
    pub fn holds(&self, bytes: usize) {
        self.peak_memory_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Peak memory: the bytes that its operators reserved, or that its threads allocated if more.
    pub fn peak_memory_bytes(&self) -> usize {
        let allocated = self.account.get().map_or(0, |account| account.peak_bytes());
        self.peak_memory_bytes.load(Ordering::Relaxed).max(usize::try_from(allocated).unwrap_or(usize::MAX))
    }

    /// The resource account of its threads, made by the first of them.
    pub fn account(&self) -> &Arc<Work> {
        self.account.get_or_init(Arc::default)
    }

    /// Makes the statement's threads end. The statement is listed until they have ended.
    pub fn end_work(&self) {
        if let Some(account) = self.account.get() {
            self.ending.store(true, Ordering::Release);
            account.end(Reason::Cancelled);
        }
        // Operators keep the tasks that they spawned, and these tasks keep the statement listed.
        self.forget_plan();
    }

    /// Whether its client is gone or has its answer, while threads still compute.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Records the plan that computes it, for the watchdog.
    pub fn follows(&self, plan: &Arc<dyn ExecutionPlan>, ready: bool, route: Option<Arc<Route>>) {
        self.ready_plan.store(ready, Ordering::Relaxed);
        self.live().plan = Some(Arc::clone(plan));
        // The client may have gone while the statement was planned anew.
        if self.is_ending() {
            self.forget_plan();
        }
        if let Some(route) = route {
            self.takes(route);
        }
    }

    /// Records the route that answers the statement.
    pub fn takes(&self, route: Arc<Route>) {
        // Set once for each statement.
        let _ = self.route.set(route);
    }

    /// The route that answers the statement; none if the statement is no query, or was not planned yet.
    pub fn route(&self) -> Option<&Arc<Route>> {
        self.route.get()
    }

    /// Records how many rows it is estimated to read.
    pub fn reads(&self, rows: u64) {
        self.rows_total.store(rows, Ordering::Relaxed);
    }

    /// How far it has come; none without a plan of its own, or if other nodes read for it.
    pub fn progress(&self) -> Option<Progress> {
        let plan = self.plan()?;
        let total = self.rows_total.load(Ordering::Relaxed);
        let is_spread = self.route().is_some_and(|route| !route.nodes.is_empty());
        let progress =
            Progress { rows_read: rows_read(plan.as_ref()), rows_total: (total > 0).then_some(total) };
        (!is_spread || progress.rows_read > 0).then_some(progress)
    }

    /// What it has read of remote files.
    pub fn bytes_read(&self) -> Option<BytesRead> {
        let now = || self.plan().map(|plan| BytesRead::of(plan.as_ref()));
        self.bytes_read.get().copied().or_else(now)
    }

    /// Rows that its scans have given. None without a plan of its own, or if the rows of that were not counted.
    pub fn rows_read(&self) -> Option<u64> {
        let now = || self.plan().map(|plan| rows_read(plan.as_ref()));
        self.rows_read.get().copied().or_else(now)
    }

    pub fn plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.live().plan.clone()
    }

    /// Records that the statement waits for a build: the watchdog then counts the work of all builds as its progress.
    pub fn waits_for_build(&self) {
        self.builds.store(true, Ordering::Relaxed);
    }

    pub fn builds(&self) -> bool {
        self.builds.load(Ordering::Relaxed)
    }

    /// Records that the answer comes from the result cache.
    pub fn is_given_again(&self) {
        self.given_again.store(true, Ordering::Relaxed);
    }

    /// Whether no work was planned for it: a ready plan or the result cache answered it.
    pub fn was_known(&self) -> bool {
        self.ready_plan() || self.was_given_again()
    }

    /// Whether the answer came from the result cache.
    pub fn was_given_again(&self) -> bool {
        self.given_again.load(Ordering::Relaxed)
    }

    /// Records whether the rows go to the statement itself, which writes them and ends later, and not to the client.
    pub fn set_goes_on(&self, goes_on: bool) {
        self.goes_on.store(goes_on, Ordering::Relaxed);
    }

    pub fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    /// Records that all rows are computed. The client, or the statement that writes them, has yet to take the last, or an
    /// error.
    pub fn has_computed(&self) {
        if !self.goes_on() {
            self.enter(Phase::Sending);
        }
        if let Some(plan) = self.plan() {
            // Set once: of a statement that runs several plans, the first one that ends counts.
            let _ = self.bytes_read.set(BytesRead::of(plan.as_ref()));
            let _ = self.rows_read.set(rows_read(plan.as_ref()));
        }
        self.forget_plan();
    }

    /// Forgets the plan that computes it, and with the last plan what its operators keep.
    pub fn forget_plan(&self) {
        let plan = self.live().plan.take();
        // Dropped outside of the lock.
        drop(plan);
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops plan and cancel token after the end.
    pub fn forget_work(&self) {
        let work = std::mem::take(&mut *self.live());
        // Dropped outside of the lock.
        drop(work);
    }

    pub fn ready_plan(&self) -> bool {
        self.ready_plan.load(Ordering::Relaxed)
    }

    pub fn answered_from(&self) -> Option<&str> {
        self.route()?.answered_from.as_deref()
    }

    /// Its phase, or how it ended.
    pub fn state(&self) -> &'static str {
        match self.end().map(|end| &end.status) {
            None if self.is_ending() => "ending",
            None => self.phase().name(),
            Some(_) if self.was_killed() => "killed",
            Some(Status::Prepared) => "prepared",
            Some(Status::Finished) => "finished",
            Some(Status::Abandoned) => "abandoned",
            Some(Status::Failed(_)) => "failed",
        }
    }

    /// Cancels it from outside; false if it has ended.
    pub fn kill(&self) -> bool {
        let Some(cancel) = self.live().cancel.clone() else { return false };
        self.killed.store(true, Ordering::Relaxed);
        cancel.cancel();
        true
    }

    pub fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Records the end. Only the first end counts.
    pub fn end_with(&self, status: Status) {
        if self.end.set(End { status, took: self.begun.elapsed() }).is_ok() {
            self.enter(self.phase());
        }
    }

    /// Whether it was only prepared: its executions are logged instead.
    pub fn is_prepared(&self) -> bool {
        self.end().is_some_and(|end| matches!(end.status, Status::Prepared))
    }

    pub fn end(&self) -> Option<&End> {
        self.end.get()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
