//! The engine of one process.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use nyala_catalog::Catalog;
use nyala_model::config::{BuildConfig, Config, QueryConfig};
use nyala_model::{JobEntry, JobState};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::activity::{self, PhaseTimes, Registry};
use super::admission::Admission;
use super::answer::{Answer, Completion};
use super::audit::Audit;
use super::freshness::{self, FileChecks};
use super::history::History;
use super::live::{self, DiskStoreStats};
use super::plans::{PlanCache, PlanCacheStats};
use super::results::{ResultCache, ResultCacheStats};
use super::run::Counters;
use super::session::{Session, SessionOptions};
use super::system::SystemSchema;
use super::threads::Threads;
use crate::cube::build::{Background, BuildStats, Builds, remove_leftovers};
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::LiveStores;
use crate::scan::{HotCuboids, HotStats, Stores};
use crate::session::{ContextSource, SessionExtension, SnapshotContext};
use crate::statement::StatementLimits;

/// Share of the machine's memory that queries may hold when nothing is configured, in per cent.
const DEFAULT_MEMORY_PERCENT: usize = 60;
/// Consumers named in an out-of-memory error.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);
/// Footers and page indexes kept, in bytes.
const METADATA_CACHE_BYTES: usize = 256 << 20;
/// How long a stop waits for cancelled work, and then for its clean-up.
const AFTER_CANCEL: Duration = Duration::from_secs(2);
/// How often a stop looks whether the last query has ended.
const SHUTDOWN_POLL: Duration = Duration::from_millis(20);

/// Everything one process answers queries with. Shared by all sessions.
#[derive(Debug)]
pub struct Engine {
    catalog: Arc<Catalog>,
    source: ContextSource,
    pub(super) current: ArcSwap<SnapshotContext>,
    /// Serialises the opening of new snapshots; queries never take it.
    pub(super) opening: Mutex<()>,
    /// Serialises changes of disk stores and of the columns of live tables.
    pub(super) stores_change: Mutex<()>,
    pub(super) file_checks: FileChecks,
    pub(super) threads: Threads,
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
    /// For builds that ran out of that memory.
    pub(super) frugal_runtime: Arc<RuntimeEnv>,
    pub(super) build_config: BuildConfig,
    pub(super) query_config: QueryConfig,
    /// Cancelled when the engine stops; every statement's token descends from it.
    pub(super) stopping: CancellationToken,
}

/// Counts since the start, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStats {
    /// Statements running now.
    pub queries_running: u64,
    /// Statements begun.
    pub queries_total: u64,
    /// Statements that ended with an error.
    pub queries_failed: u64,
    /// Rows given to clients.
    pub rows_returned: u64,
    /// Aggregations answered from a cuboid.
    pub cube_hits: u64,
    /// Aggregations over a cube's fact table that no cuboid answered.
    pub cube_misses: u64,
    /// Memory that running work has reserved, in bytes.
    pub memory_reserved_bytes: usize,
    /// Version of the catalog snapshot that new queries see.
    pub catalog_version: u64,
    /// What the cache of hot cuboids did.
    pub hot_cuboids: HotStats,
    /// What the cache of plans did.
    pub plans: PlanCacheStats,
    /// What the cache of answers did.
    pub results: ResultCacheStats,
    /// What builds did.
    pub builds: BuildStats,
}

impl Engine {
    /// Opens the engine over a data folder, which must exist and be locked by the caller. What a
    /// crashed build left behind is removed. `extensions` add schemas and functions to every session.
    pub async fn open(
        config: &Config,
        catalog: Arc<Catalog>,
        mut extensions: Vec<Arc<dyn SessionExtension>>,
    ) -> Result<Arc<Self>> {
        let system = Arc::new(SystemSchema::default());
        extensions.insert(0, Arc::clone(&system) as _);
        let stores = Arc::new(Stores::new(&config.data_dir, config.storage.clone())?);
        remove_leftovers(&catalog, &config.data_dir)?;
        end_lost_jobs(&catalog).await?;
        let partitions = thread_count(&config.query);
        let threads = Threads::start(partitions)?;
        let memory = Memory::divide(config);
        let live = Arc::new(LiveStores::start(
            &config.data_dir,
            &catalog.snapshot(),
            config.live.memory_limit_bytes,
        ));
        let source = ContextSource {
            live,
            runtime: runtime(&config.data_dir, &config.query, &memory, &stores)?,
            stores,
            hot: HotCuboids::new(memory.hot_cuboids, partitions, threads.loading().clone()),
            extensions,
            limits: StatementLimits::from(&config.query),
            batch_rows: config.query.batch_rows,
            partitions,
        };
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
            file_checks: FileChecks::default(),
            background,
            threads,
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
        });
        system.attach(&engine);
        if let Some(after) = millis(config.query.stuck_after_ms) {
            engine.threads.execution().spawn(activity::watch(Arc::downgrade(&engine), after));
        }
        live::forget_leftovers_later(&engine);
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

    /// The disk stores as they stand now, by name.
    pub fn disk_stores(&self) -> Vec<DiskStoreStats> {
        self.live().all().iter().map(|store| live::stats(self, store)).collect()
    }

    /// Counts since the start.
    pub fn stats(&self) -> EngineStats {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            queries_running: read(&self.counters.running),
            queries_total: read(&self.counters.total),
            queries_failed: read(&self.counters.failed),
            rows_returned: read(&self.counters.rows),
            cube_hits: read(&self.counters.cube_hits),
            cube_misses: read(&self.counters.cube_misses),
            memory_reserved_bytes: self.source.runtime.memory_pool.reserved()
                + self.build_runtime.memory_pool.reserved()
                + self.frugal_runtime.memory_pool.reserved(),
            catalog_version: self.context().snapshot().version.0,
            builds: self.builds.stats(),
            hot_cuboids: self.source.hot.as_ref().map(|hot| hot.stats()).unwrap_or_default(),
            plans: self.plans.stats(),
            results: self.results.stats(),
        }
    }

    /// How long statements were in each phase since the start.
    pub fn phase_times(&self) -> Vec<PhaseTimes> {
        self.registry.phases().read()
    }

    /// Lets running statements end for at most `grace`, then cancels them; new ones are refused.
    pub async fn shutdown(&self, grace: Duration) {
        let idle = || self.counters.running.load(Ordering::Relaxed) == 0;
        let end = Instant::now() + grace;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.stopping.cancel();
        let end = Instant::now() + AFTER_CANCEL;
        while !idle() && Instant::now() < end {
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        self.background.finished(AFTER_CANCEL).await;
        let live = Arc::clone(self.live());
        // Fails only if closing panicked; then the next start recovers what was not closed in order.
        let _ = tokio::task::spawn_blocking(move || live.close_all()).await;
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

    /// What queries see that begin from now on. Plans for what was there before are given up at once: each holds all of it in
    /// memory.
    pub(super) fn publish(&self, context: SnapshotContext) {
        self.current.store(Arc::new(context));
        self.plans.forget();
    }

    /// Counts aggregations that cuboids answer.
    pub(super) fn count_hits(&self, aggregations: usize) {
        self.counters.cube_hits.fetch_add(aggregations as u64, Ordering::Relaxed);
    }

    /// Ends a statement, whoever it belongs to.
    pub fn kill(&self, id: u64) -> Result<Answer> {
        let entry = self.registry.find(id).ok_or_else(|| {
            QueryError::new(ErrorKind::UndefinedObject, format!("no query `{id}` is running"))
                .hint("`SELECT * FROM system.queries` lists those that are")
        })?;
        entry.kill();
        Ok(Completion::of("KILL QUERY"))
    }

    /// Refuses work once the engine is stopping.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.stopping.is_cancelled() {
            return Err(QueryError::new(ErrorKind::ShuttingDown, "the server is stopping")
                .hint("connect again when it is back"));
        }
        Ok(())
    }
}

fn millis(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

fn thread_count(config: &QueryConfig) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

fn runtime(
    data_dir: &Path,
    config: &QueryConfig,
    memory: &Memory,
    stores: &Arc<Stores>,
) -> Result<Arc<RuntimeEnv>> {
    let spill = data_dir.join("tmp");
    let failed = |error: std::io::Error| {
        QueryError::new(ErrorKind::Unreadable, format!("cannot use `{}`: {error}", spill.display()))
    };
    if spill.exists() {
        std::fs::remove_dir_all(&spill).map_err(failed)?;
    }
    std::fs::create_dir_all(&spill).map_err(failed)?;
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![spill]))
        .with_max_temp_directory_size(config.spill_limit_bytes);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(memory.for_queries())
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::clone(stores) as _)
        .with_metadata_cache_limit(METADATA_CACHE_BYTES)
        // Lists are read anew, so that files added to a table are seen by the next query.
        .with_object_list_cache_limit(0)
        .build_arc()?;
    Ok(runtime)
}

/// The memory limit, in bytes, by who may use it.
struct Memory {
    hot_cuboids: usize,
    queries: usize,
    builds: usize,
}

impl Memory {
    /// Hot cuboids take their share; queries and builds have half each of what is left.
    fn divide(config: &Config) -> Self {
        let limit = memory_limit_bytes(&config.query);
        let hot_cuboids = limit / 100 * config.cache.hot_cuboids_percent;
        let half = limit.saturating_sub(hot_cuboids) / 2;
        Self { hot_cuboids, queries: half, builds: half }
    }

    /// Queries share their part so that one cannot take it all.
    fn for_queries(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(FairSpillPool::new(self.queries), NAMED_CONSUMERS))
    }

    /// Builds take from their part what they need.
    fn for_builds(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(self.builds), NAMED_CONSUMERS))
    }

    /// The same memory in fair shares. A build uses it when it has given the other back.
    fn for_frugal_builds(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(FairSpillPool::new(self.builds), NAMED_CONSUMERS))
    }
}

fn memory_limit_bytes(config: &QueryConfig) -> usize {
    match config.memory_limit_bytes {
        0 => machine_memory_bytes() / 100 * DEFAULT_MEMORY_PERCENT,
        bytes => bytes,
    }
}

/// Memory of the machine, or 4 GiB where that cannot be read.
fn machine_memory_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    total.map_or(4 << 30, |kib: usize| kib.saturating_mul(1024))
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
