//! The engine of one process, as its parts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::execution::runtime_env::RuntimeEnv;
use nyala_catalog::{Catalog, CatalogError, Permit};
use nyala_cube::cube::build::{Background, Builds, RETIREMENT, SegmentHome};
use nyala_cube::scan::DamageReports;
use nyala_model::config::{BuildConfig, QueryConfig};
use nyala_model::{JobEntry, NodeId};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::activity::{PhaseTimes, Registry, Watched};
use super::answer::Placement;
use super::answer::ResultCache;
use super::answer::{Answer, Completion};
use super::audit::Audit;
use super::counters::Counters;
use super::folders::Folders;
use super::fragments::Fragments;
use super::history::History;
use super::nodes::{CuboidNodes, Nodes, OtherNodes, StatementsOf, not_reached};
use super::options::SessionOptions;
use super::resources::MemoryGuard;
use super::resources::admission::Admission;
use super::resources::threads::Threads;
use super::snapshots::{CatalogCopies, FileChecks, Snapshots};

/// How long a stop waits for cancelled work, then for its clean-up, and for each message to other nodes.
const AFTER_CANCEL: Duration = Duration::from_secs(2);
/// How often a stop looks whether the last query has ended.
const SHUTDOWN_POLL: Duration = Duration::from_millis(20);

/// The query engine of one process. Shared by all sessions.
#[derive(Debug)]
pub struct Engine {
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) file_checks: Arc<FileChecks>,
    pub(crate) catalog_copies: Arc<CatalogCopies>,
    pub(crate) runtime: Runtime,
    pub(crate) placement: Option<Arc<dyn Placement>>,
    pub(crate) elsewhere: Arc<dyn OtherNodes>,
    pub(crate) observed: Observed,
    pub(crate) building: Building,
    pub(crate) store_changes: StoreChanges,
    pub(crate) results: Arc<ResultCache>,
    pub(crate) node: NodeId,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) fragments: Fragments,
    pub(crate) cuboid_homes: Arc<CuboidNodes>,
    pub(crate) data_dir: PathBuf,
    pub(crate) query_config: QueryConfig,
}

/// The threads of the engine, and the rules by which statements share them.
#[derive(Debug)]
pub struct Runtime {
    pub threads: Threads,
    pub admission: Arc<Admission>,
    /// Work that goes on after its statement has ended.
    pub background: Background,
    /// Cancelled when the engine stops; every statement's token descends from it.
    pub stopping: CancellationToken,
    /// Set just before `stopping` is cancelled. Every statement checks it, and checking a token takes a lock.
    closed: AtomicBool,
    /// Why the engine is closed, if not because the server stops.
    closed_because: OnceLock<QueryError>,
    /// Ends large statements before the system ends the process.
    _guard: MemoryGuard,
}

/// The statements that run and ran: for lists, metrics, advice and the audit log.
#[derive(Debug)]
pub struct Observed {
    pub counters: Arc<Counters>,
    pub registry: Arc<Registry>,
    pub history: History,
    pub audit: Audit,
}

/// Builds of cubes: the running ones, and the memory and configuration of all.
#[derive(Debug)]
pub struct Building {
    pub jobs: Arc<Builds>,
    pub damage: Arc<DamageReports>,
    pub config: BuildConfig,
    pub runtime: Arc<RuntimeEnv>,
    /// The environment of builds that ran out of the memory of `runtime`.
    pub frugal_runtime: Arc<RuntimeEnv>,
}

/// Changes of disk stores and of the columns of live tables.
#[derive(Debug, Default)]
pub struct StoreChanges {
    /// The lock that a change holds.
    pub one_at_a_time: Mutex<()>,
    /// Folders of disk stores that are being opened or closed.
    pub folders: Folders,
}

impl Runtime {
    pub fn new(threads: Threads, admission: Arc<Admission>, guard: MemoryGuard) -> Self {
        let background = Background::new(threads.execution().clone());
        let stopping = CancellationToken::new();
        let (closed, closed_because) = (AtomicBool::new(false), OnceLock::new());
        Self { threads, admission, background, stopping, closed, closed_because, _guard: guard }
    }

    /// Refuses work once the engine is stopping.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.closed_because.get().cloned().unwrap_or_else(|| {
                QueryError::new(ErrorKind::ShuttingDown, "the server is stopping")
                    .hint("connect again when it is back")
            }));
        }
        Ok(())
    }

    /// Runs `work` on the threads of small statements until the engine stops.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.threads.execution().spawn(stopping.run_until_cancelled_owned(work));
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.stopping.cancel();
    }
}

impl Observed {
    /// Counts aggregations that cuboids answer.
    pub fn count_hits(&self, aggregations: usize) {
        self.counters.cube_hits.fetch_add(aggregations as u64, Ordering::Relaxed);
    }
}

impl Engine {
    /// The catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.snapshots.catalog()
    }

    /// Running builds as they stand now.
    pub fn build_progress(&self) -> Vec<JobEntry> {
        self.building.jobs.entries()
    }

    /// How long statements were in each phase since the start.
    pub fn phase_times(&self) -> Vec<PhaseTimes> {
        self.observed.registry.phases().read()
    }

    /// Records a login, or a refused login with its reason.
    pub fn audit_login(&self, options: &SessionOptions, refused: Option<&str>) {
        self.observed.audit.login(options, refused);
    }

    /// Where this node records and keeps segments. `permit` is the right to build a cube.
    pub(crate) fn segment_home(&self, permit: Option<Permit>) -> SegmentHome {
        SegmentHome {
            permit,
            readers: Arc::new(StatementsOf(Arc::clone(&self.nodes))),
            retirement: RETIREMENT,
            catalog: Arc::clone(self.catalog()),
            store: self.snapshots.stores().segments().clone(),
            background: self.runtime.background.clone(),
            node: self.node.clone(),
        }
    }

    /// Lists the files of `only` these tables, or of all that a built cube reads. Statements that begin afterwards are
    /// judged by the listing. Fails if a table cannot be listed.
    pub(crate) async fn check_files(&self, only: Option<&[nyala_model::QualifiedName]>) -> Result<()> {
        self.snapshots.stores().forget_lists();
        self.file_checks.check(&self.snapshots, only).await
    }

    /// Statements, builds and recoveries, for the watchdog.
    pub(crate) fn watched(&self) -> Watched {
        Watched {
            registry: Arc::clone(&self.observed.registry),
            builds: Arc::clone(&self.building.jobs),
            stores: Arc::clone(self.snapshots.live()),
        }
    }

    /// Ends a statement of any session of this node.
    pub fn kill(&self, id: u64) -> Result<Answer> {
        if self.observed.registry.find(id).is_some_and(|entry| entry.kill()) {
            return Ok(Completion::of("KILL QUERY"));
        }
        let (place, hint) = match self.catalog().is_shared() {
            true => (
                format!(" on node `{}`", self.node),
                "`SELECT node, query_id, query FROM system.queries` lists those that are; KILL QUERY … ON NODE \
                 '…' ends one of another node",
            ),
            false => (String::new(), "`SELECT * FROM system.queries` lists those that are"),
        };
        let message = format!("no query `{id}` is running{place}");
        Err(QueryError::new(ErrorKind::UndefinedObject, message).hint(hint))
    }

    /// Ends all work of this node, and takes no other: another process runs in its place. Both would change the same cubes,
    /// jobs and disk stores under one name.
    pub(super) fn give_way(&self, reason: &CatalogError) {
        tracing::error!(%reason, "this node takes no statements any more");
        let refusal = QueryError::new(ErrorKind::ShuttingDown, reason.to_string());
        // Only this function sets it, and it is called once.
        let _ = self.runtime.closed_because.set(refusal);
        self.runtime.close();
    }

    /// Whether this node takes statements; the error tells why not.
    ///
    /// # Errors
    /// The server stops, or another process runs as this node.
    pub fn check_open(&self) -> Result<()> {
        self.runtime.check_open()
    }

    /// Refuses work of other nodes as soon as this node is asked to stop. Work that runs may end; other nodes send work until they have
    /// heard that this one stops.
    pub(crate) fn check_takes_work(&self) -> Result<()> {
        match self.nodes.is_draining() || self.runtime.check_open().is_err() {
            true => Err(not_reached(&self.node, "it is stopping")),
            false => Ok(()),
        }
    }

    /// Tells other nodes the address of this one from now on, because its port for them is served.
    pub fn announce_node_port(&self) {
        self.nodes.announce_port();
    }

    /// Lets running statements end for at most `grace`, then cancels them and refuses new ones.
    pub async fn shutdown(&self, grace: Duration) {
        let idle = || self.observed.counters.running.load(Ordering::Relaxed) == 0;
        let end = Instant::now() + grace;
        // From here on this node takes no work of others, also if the catalog's database does not answer.
        tell_in_time("that it stops", self.nodes.drain()).await;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.runtime.close();
        let end = Instant::now() + AFTER_CANCEL;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.runtime.background.finished(AFTER_CANCEL).await;
        let live = Arc::clone(self.snapshots.live());
        // Fails only if closing panicked; then the next start recovers the stores that were not closed in order.
        let _ = tokio::task::spawn_blocking(move || live.close_all()).await;
        if let Some(cache) = self.snapshots.stores().cache().cloned() {
            let _ = tokio::task::spawn_blocking(move || cache.close()).await;
        }
        tell_in_time("that it is gone", self.nodes.leave()).await;
        let copied = self.catalog_copies.refresh(self.catalog());
        if tokio::time::timeout(AFTER_CANCEL, copied).await.is_err() {
            tracing::warn!("the newest copy of the catalog is not made: there was no time left");
        }
    }
}

/// Tells the other nodes something while this one stops: a database that does not answer must not keep it.
async fn tell_in_time(what: &str, telling: impl Future<Output = ()>) {
    if tokio::time::timeout(AFTER_CANCEL, telling).await.is_err() {
        tracing::warn!("the other nodes are not told {what}: the catalog's database does not answer");
    }
}
