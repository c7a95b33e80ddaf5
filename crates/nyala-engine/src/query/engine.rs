//! The engine of one process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Catalog;
use nyala_cube::cube::build::{Background, Builds, remove_leftovers};
use nyala_cube::live::LiveStores;
use nyala_cube::scan::{DamageReports, HotCuboids, Stores};
use nyala_model::config::{BuildConfig, Config, QueryConfig};
use nyala_model::{JobEntry, JobState};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{PlanBudget, StatementLimits};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::activity::{self, Registry};
use super::answer::{Answer, Completion};
use super::audit::Audit;
use super::catalog_copies::{self, CatalogCopies};
use super::catalog_watch;
use super::cubes::damage;
use super::cubes::freshness::{self, FileChecks};
use super::history::History;
use super::live;
use super::plans::PlanCache;
use super::resources::admission::Admission;
use super::resources::threads::Threads;
use super::resources::{Memory, MemoryGuard, process_limit_bytes, runtime, thread_count};
use super::results::ResultCache;
use super::run::Counters;
use super::session::{Session, SessionOptions};
use super::system::SystemSchema;
use crate::session::{BaseState, ContextSource, SessionExtension, SnapshotContext};

/// How long a stop waits for cancelled work, and then for its clean-up.
const AFTER_CANCEL: Duration = Duration::from_secs(2);
/// How often a stop looks whether the last query has ended.
const SHUTDOWN_POLL: Duration = Duration::from_millis(20);

/// The query engine of one process. Shared by all sessions.
#[derive(Debug)]
pub struct Engine {
    catalog: Arc<Catalog>,
    pub(super) source: ContextSource,
    pub(super) current: ArcSwap<SnapshotContext>,
    /// Serialises the opening of new snapshots; queries never take it.
    pub(super) opening: Mutex<()>,
    /// Serialises changes of disk stores and of the columns of live tables.
    pub(super) stores_change: Mutex<()>,
    /// Folders of disk stores that are being opened or closed.
    pub(super) folders: live::Folders,
    pub(super) file_checks: FileChecks,
    pub(super) damage: Arc<DamageReports>,
    pub(super) catalog_copies: CatalogCopies,
    pub(super) threads: Threads,
    /// Ends large statements before the system ends the process.
    _guard: MemoryGuard,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry>,
    pub(super) admission: Admission,
    pub(super) builds: Arc<Builds>,
    pub(super) background: Background,
    pub(super) history: History,
    pub(super) plans: PlanCache,
    pub(super) results: Arc<ResultCache>,
    pub(super) audit: Audit,
    pub(super) data_dir: PathBuf,
    pub(super) build_runtime: Arc<RuntimeEnv>,
    /// For builds that ran out of the memory of `build_runtime`.
    pub(super) frugal_runtime: Arc<RuntimeEnv>,
    pub(super) build_config: BuildConfig,
    pub(super) query_config: QueryConfig,
    /// Cancelled when the engine stops; every statement's token descends from it.
    pub(super) stopping: CancellationToken,
    /// Set just before `stopping` is cancelled. Every statement checks it, and checking a token takes a lock.
    closed: AtomicBool,
}

impl Engine {
    /// Opens the engine over a data folder, which must exist and be locked by the caller. Files that a
    /// crashed build left behind are removed. `extensions` add schemas and functions to every session.
    pub fn open(
        config: &Config,
        catalog: Arc<Catalog>,
        extensions: Vec<Arc<dyn SessionExtension>>,
    ) -> BoxFuture<'_, Result<Arc<Self>>> {
        Self::start(config, catalog, extensions).boxed()
    }

    async fn start(
        config: &Config,
        catalog: Arc<Catalog>,
        mut extensions: Vec<Arc<dyn SessionExtension>>,
    ) -> Result<Arc<Self>> {
        let system = Arc::new(SystemSchema::default());
        extensions.insert(0, Arc::clone(&system) as _);
        let stores = Arc::new(Stores::new(&config.data_dir, config.storage.clone(), own_files(config))?);
        remove_leftovers(&catalog, &config.data_dir).await?;
        end_lost_jobs(&catalog).await?;
        let partitions = thread_count(&config.query);
        let threads = Threads::start(partitions)?;
        let guard = MemoryGuard::start(process_limit_bytes(&config.query), threads.works());
        let memory = Memory::divide(config);
        let live = Arc::new(LiveStores::start(
            &config.data_dir,
            &catalog.snapshot(),
            config.live.memory_limit_bytes,
        ));
        let runtime = runtime(&config.data_dir, &config.query, &memory, &stores)?;
        let hot = HotCuboids::new(memory.hot_cuboids, partitions, threads.loading().clone());
        let (reports, found_damage) = DamageReports::new();
        let damage = Arc::new(reports);
        let base = BaseState::new(
            &runtime,
            hot.as_ref(),
            &damage,
            (config.query.batch_rows, partitions),
            PlanBudget::from(&config.query),
            &extensions,
        )?;
        let limits = StatementLimits::from(&config.query);
        let source = ContextSource { live, runtime, stores, hot, extensions, limits, base };
        let context = SnapshotContext::open(catalog.snapshot(), &source, None).await?;
        let build_runtime = RuntimeEnvBuilder::from_runtime_env(&source.runtime)
            .with_memory_pool(memory.for_builds())
            .build_arc()?;
        let (background, stopping) = (Background::new(threads.execution().clone()), CancellationToken::new());
        let frugal_runtime = RuntimeEnvBuilder::from_runtime_env(&source.runtime)
            .with_memory_pool(memory.for_frugal_builds())
            .build_arc()?;
        let engine = Arc::new(Self {
            audit: Audit::open(&config.server.audit_log)?,
            history: History::start(&catalog, &background, stopping.clone()),
            plans: PlanCache::new(config.cache.plans_bytes),
            results: Arc::new(ResultCache::new(config.cache.results_bytes)),
            catalog,
            source,
            current: ArcSwap::from_pointee(context),
            opening: Mutex::new(()),
            stores_change: Mutex::new(()),
            folders: live::Folders::default(),
            file_checks: FileChecks::default(),
            damage,
            catalog_copies: CatalogCopies::new(&config.catalog, &config.data_dir),
            background,
            threads,
            _guard: guard,
            counters: Arc::default(),
            registry: Arc::new(Registry::new(millis(config.query.slow_ms))),
            admission: Admission::new(&config.admission, partitions),
            builds: Arc::default(),
            data_dir: config.data_dir.clone(),
            build_runtime,
            frugal_runtime,
            build_config: config.build.clone(),
            query_config: config.query.clone(),
            stopping,
            closed: AtomicBool::new(false),
        });
        system.attach(&engine);
        if let Some(after) = millis(config.query.stuck_after_ms) {
            engine.threads.execution().spawn(activity::watch(Arc::downgrade(&engine), after));
        }
        damage::watch(&engine, found_damage);
        live::forget_leftovers_later(&engine);
        catalog_copies::watch(&engine);
        catalog_watch::follow(&engine);
        freshness::watch(&engine, Duration::from_millis(config.cubes.check_files_ms)).await;
        Ok(engine)
    }

    /// A session for one client.
    pub fn session(self: &Arc<Self>, options: SessionOptions) -> Arc<Session> {
        Arc::new(Session::new(Arc::clone(self), options))
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Running builds as they stand now.
    pub fn build_progress(&self) -> Vec<JobEntry> {
        self.builds.entries()
    }

    /// Lets running statements end for at most `grace`, then cancels them and refuses new ones.
    pub async fn shutdown(&self, grace: Duration) {
        let idle = || self.counters.running.load(Ordering::Relaxed) == 0;
        let end = Instant::now() + grace;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.closed.store(true, Ordering::Relaxed);
        self.stopping.cancel();
        let end = Instant::now() + AFTER_CANCEL;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.background.finished(AFTER_CANCEL).await;
        let live = Arc::clone(self.live());
        // Fails only if closing panicked; then the next start recovers the stores that were not closed in order.
        let _ = tokio::task::spawn_blocking(move || live.close_all()).await;
        if tokio::time::timeout(AFTER_CANCEL, self.catalog_copies.refresh(&self.catalog)).await.is_err() {
            tracing::warn!("the newest copy of the catalog is not made: there was no time left");
        }
    }

    /// The snapshot that a query beginning now reads.
    pub(super) fn context(&self) -> Arc<SnapshotContext> {
        self.current.load_full()
    }

    pub(super) fn limits(&self) -> &StatementLimits {
        &self.source.limits
    }

    pub(super) fn stores(&self) -> &Arc<Stores> {
        &self.source.stores
    }

    /// The disk stores of live tables.
    pub(super) fn live(&self) -> &Arc<LiveStores> {
        &self.source.live
    }

    /// Takes reports of damaged cuboid files.
    pub(super) fn damage_reports(&self) -> &DamageReports {
        &self.damage
    }

    /// Opens the catalog's newest snapshot for queries that begin from now on.
    pub(super) async fn refresh(&self) -> Result<()> {
        let _one_at_a_time = self.opening.lock().await;
        let before = self.context();
        let snapshot = self.catalog.snapshot();
        if snapshot.version != before.snapshot().version {
            let context = SnapshotContext::open(snapshot, &self.source, Some(&before)).await?;
            self.publish(context);
        }
        Ok(())
    }

    /// Makes `context` the snapshot of queries that begin from now on. Cached plans of the old snapshot are dropped at
    /// once: each keeps all of it in memory.
    pub(super) fn publish(&self, context: SnapshotContext) {
        self.current.store(Arc::new(context));
        self.plans.forget();
    }

    /// Counts aggregations that cuboids answer.
    pub(super) fn count_hits(&self, aggregations: usize) {
        self.counters.cube_hits.fetch_add(aggregations as u64, Ordering::Relaxed);
    }

    /// Ends a statement of any session.
    pub fn kill(&self, id: u64) -> Result<Answer> {
        if !self.registry.find(id).is_some_and(|entry| entry.kill()) {
            return Err(QueryError::new(ErrorKind::UndefinedObject, format!("no query `{id}` is running"))
                .hint("`SELECT * FROM system.queries` lists those that are"));
        }
        Ok(Completion::of("KILL QUERY"))
    }

    /// Refuses work once the engine is stopping.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(QueryError::new(ErrorKind::ShuttingDown, "the server is stopping")
                .hint("connect again when it is back"));
        }
        Ok(())
    }
}

fn millis(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Jobs that were running when the last process died have failed.
async fn end_lost_jobs(catalog: &Catalog) -> Result<()> {
    for mut job in catalog.jobs().await? {
        if job.state == JobState::Running {
            job.state = JobState::Failed;
            job.ended_at_ms = Some(job.started_at_ms);
            job.error = Some("the server stopped while it ran; run it again".to_owned());
            catalog.update_job(&job).await?;
        }
    }
    Ok(())
}

/// Files of the server that lie outside of its data folder.
fn own_files(config: &Config) -> Vec<PathBuf> {
    let (audit, tls) = (&config.server.audit_log, &config.server.tls);
    [audit, &tls.certificate, &tls.key].into_iter().chain(&config.own_files).cloned().collect()
}
