//! Opening the engine: its parts are made, then its background tasks begin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Catalog;
use nyala_cube::live::LiveStores;
use nyala_cube::scan::{DamageReports, HotCuboids, Stores};
use nyala_model::config::{Config, StorageConfig};
use nyala_model::{JobState, NodeId};
use nyala_sql::error::Result;
use nyala_sql::statement::StatementLimits;
use nyala_storage::data_dir::{BLOCK_CACHE, node_id};
use nyala_storage::object::StoreKind;
use nyala_storage::object::cache::{BlockCache, CacheOptions};
use nyala_storage::{StorageError, place_of_cuboids};
use tokio::runtime::Handle;

use super::activity::{self, Registry};
use super::answer::Placement;
use super::answer::ResultCache;
use super::audit::Audit;
use super::cubes::place::Place;
use super::cubes::{damage, leftovers, upkeep};
use super::engine::{Building, Engine, Observed, Runtime, StoreChanges};
use super::fragments::Fragments;
use super::history::History;
use super::live;
use super::nodes::{Alone, CuboidNodes, NodeCaches, Nodes, OtherNodes};
use super::resources::admission::Admission;
use super::resources::threads::Threads;
use super::resources::{Memory, MemoryGuard, process_limit_bytes, runtime, thread_count};
use super::snapshots::{self, CatalogCopies, FileChecks, Snapshots};
use super::system::SystemSchema;
use crate::session::{BaseState, ContextSource, SessionExtension};

/// Parts of an engine that others add.
#[derive(Debug)]
pub struct Extensions {
    /// Add schemas, functions and rules to every session.
    pub sessions: Vec<Arc<dyn SessionExtension>>,
    /// Has other nodes do parts of queries; none if every query runs in this process.
    pub placement: Option<Arc<dyn Placement>>,
    /// The way to other nodes.
    pub elsewhere: Arc<dyn OtherNodes>,
}

impl Default for Extensions {
    fn default() -> Self {
        Self { sessions: Vec::new(), placement: None, elsewhere: Arc::new(Alone) }
    }
}

impl Extensions {
    /// Additions to sessions only.
    pub fn of_sessions(sessions: Vec<Arc<dyn SessionExtension>>) -> Self {
        Self { sessions, ..Self::default() }
    }
}

impl Engine {
    /// Opens the engine over a data folder, which must exist and be locked by the caller. Files that a
    /// crashed build left behind are removed.
    pub fn open(
        config: &Config,
        catalog: Arc<Catalog>,
        extensions: Extensions,
    ) -> BoxFuture<'_, Result<Arc<Self>>> {
        open(config, catalog, extensions).boxed()
    }
}

async fn open(config: &Config, catalog: Arc<Catalog>, extensions: Extensions) -> Result<Arc<Engine>> {
    let Extensions { mut sessions, placement, elsewhere } = extensions;
    let system = Arc::new(SystemSchema::default());
    sessions.insert(0, Arc::clone(&system) as _);
    let node = node_id(&config.data_dir)?;
    end_lost_jobs(&catalog, &node).await?;
    let partitions = thread_count(&config.query);
    let threads = Threads::start(partitions)?;
    let guard = MemoryGuard::start(process_limit_bytes(&config.query), threads.works());
    let memory = Memory::divide(config);
    let (reports, found_damage) = DamageReports::new();
    let damage = Arc::new(reports);
    let source = source(config, (&catalog, &node), sessions, (&memory, &threads, &damage))?;
    check_place(config, &catalog).await?;
    let store = source.stores.segments().clone();
    let owner = catalog.cluster().await?.unwrap_or_else(|| node.clone());
    let place = Place { catalog: Arc::clone(&catalog), store, node: node.clone(), owner };
    let is_taken = place.take_now().await?;
    let snapshots = Snapshots::open(Arc::clone(&catalog), source, config.cache.plans_bytes).await?;
    let with_memory = |pool: Arc<dyn MemoryPool>| -> Result<Arc<RuntimeEnv>> {
        let builder = RuntimeEnvBuilder::from_runtime_env(&snapshots.source().runtime);
        Ok(builder.with_memory_pool(pool).build_arc()?)
    };
    let building = Building {
        jobs: Arc::default(),
        damage,
        config: config.build.clone(),
        runtime: with_memory(memory.for_builds())?,
        frugal_runtime: with_memory(memory.for_frugal_builds())?,
    };
    let admission = Arc::new(Admission::new(&config.admission, partitions));
    let runtime = Runtime::new(threads, Arc::clone(&admission), guard);
    let observed = Observed {
        counters: Arc::default(),
        registry: Arc::new(Registry::new(millis(config.query.slow_ms))),
        history: History::start((&catalog, &node), &runtime.background, runtime.stopping.clone()),
        audit: Audit::open(&config.server.audit_log)?,
    };
    let snapshots = Arc::new(snapshots);
    let nodes = Nodes::new(
        Arc::clone(&catalog),
        Arc::clone(&snapshots),
        (Arc::clone(&observed.registry), admission),
        (node.clone(), elsewhere.address(), config.node.executor),
    );
    let nodes = Arc::new(nodes);
    let cuboid_homes = Arc::new(CuboidNodes::new(&nodes));
    let engine = Arc::new(Engine {
        snapshots,
        cuboid_homes,
        nodes,
        fragments: Fragments::default(),
        file_checks: Arc::new(FileChecks::default()),
        catalog_copies: Arc::new(CatalogCopies::new(&config.catalog, &config.data_dir)),
        runtime,
        placement,
        elsewhere,
        observed,
        building,
        store_changes: StoreChanges::default(),
        results: Arc::new(ResultCache::new(config.cache.results_bytes)),
        node,
        data_dir: config.data_dir.clone(),
        query_config: config.query.clone(),
    });
    system.attach(&engine);
    if let (true, Some(cache)) = (engine.catalog().is_shared(), engine.snapshots.stores().cache()) {
        cache.ask_first(Arc::new(NodeCaches::new(
            &engine.nodes,
            Arc::clone(&engine.elsewhere),
            Handle::current(),
        )));
    }
    if let (true, Some(hot)) = (engine.catalog().is_shared(), &engine.snapshots.source().hot) {
        hot.keep_at_homes(Arc::clone(&engine.cuboid_homes) as _);
    }
    if let Some(after) = millis(config.query.stuck_after_ms) {
        engine.runtime.spawn(activity::watch(engine.watched(), after));
    }
    if !is_taken {
        engine.runtime.spawn(place.take_later());
    }
    engine.runtime.spawn(damage::record_all(Arc::downgrade(&engine.snapshots), found_damage));
    live::temporary::drop_left_over(&engine).await;
    live::forget_leftovers_later(&engine);
    let copies = Arc::clone(&engine.catalog_copies);
    let (copied, followed) = (Arc::clone(&catalog), Arc::clone(&engine.file_checks));
    engine.runtime.spawn(async move { copies.keep_up(&copied).await });
    engine.runtime.spawn(snapshots::follow(catalog, followed, Arc::downgrade(&engine.snapshots)));
    let (telling, replaced) = (Arc::clone(&engine.nodes), Arc::downgrade(&engine));
    engine.runtime.spawn(async move {
        let reason = telling.keep_telling().await;
        if let Some(engine) = replaced.upgrade() {
            engine.give_way(&reason);
        }
    });
    if engine.catalog().is_shared() {
        engine.runtime.spawn(leftovers::collect(Arc::downgrade(&engine)));
        engine.runtime.spawn(live::forget_dropped_elsewhere(Arc::downgrade(&engine)));
    }
    let every = Duration::from_millis(config.cubes.check_files_ms);
    snapshots::first_file_check(&engine.file_checks, &engine.snapshots).await;
    let (checks, weak) = (Arc::clone(&engine.file_checks), Arc::downgrade(&engine.snapshots));
    engine.runtime.spawn(snapshots::file_check_rounds(checks, weak, every));
    engine.runtime.spawn(upkeep::refresh_for_ever(Arc::downgrade(&engine), every));
    Ok(engine)
}

/// The runtime, caches and stores that every session is made with.
fn source(
    config: &Config,
    (catalog, node): (&Catalog, &NodeId),
    extensions: Vec<Arc<dyn SessionExtension>>,
    (memory, threads, damage): (&Memory, &Threads, &Arc<DamageReports>),
) -> Result<ContextSource> {
    let cache = block_cache(config)?;
    let stores = Arc::new(Stores::new(
        &config.data_dir,
        storage_rules(config, catalog.is_shared()),
        own_files(config),
        cache,
        Duration::from_millis(config.cubes.check_files_ms),
    )?);
    let live = LiveStores::start(&config.data_dir, node, &catalog.snapshot(), config.live.memory_limit_bytes);
    let runtime = runtime(&config.data_dir, &config.query, memory, &stores)?;
    let partitions = thread_count(&config.query);
    let hot = HotCuboids::new(memory.hot_cuboids, partitions, threads.loading().clone());
    let base = BaseState::new(
        &runtime,
        hot.as_ref(),
        (damage, stores.segment_reads()),
        (&config.query, partitions),
        &extensions,
    )?;
    let limits = StatementLimits::from(&config.query);
    Ok(ContextSource { live: Arc::new(live), runtime, stores, hot, extensions, limits, base })
}

/// The cache of remote files. Its requests run on the runtime of the caller.
fn block_cache(config: &Config) -> Result<Option<Arc<BlockCache>>> {
    let cache = &config.storage.cache;
    if !cache.enabled {
        return Ok(None);
    }
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let options = CacheOptions {
        folder: config.data_dir.join(if cache.folder.is_empty() { BLOCK_CACHE } else { &cache.folder }),
        disk_bytes: bytes(cache.disk_bytes),
        memory_bytes: bytes(cache.memory_bytes),
        block_bytes: bytes(cache.block_bytes),
    };
    Ok(Some(BlockCache::open(options, Handle::current())?))
}

fn millis(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Checks that cuboids are where the configuration says.
async fn check_place(config: &Config, catalog: &Catalog) -> Result<()> {
    let place = config.storage.data.as_str();
    if !catalog.is_shared() {
        return Ok(place_of_cuboids::check(&config.data_dir, place, &catalog.snapshot())?);
    }
    let configured = place_of_cuboids::canonical(place)?;
    let noted = catalog.agree_on_place(&configured).await?;
    if noted == configured {
        Ok(())
    } else {
        Err(StorageError::CuboidsElsewhere { noted, configured }.into())
    }
}

/// The locations that tables may lie under. A local path means another file on each node, so that nodes with one catalog read only local
/// files that the configuration names.
fn storage_rules(config: &Config, is_shared: bool) -> StorageConfig {
    let mut storage = config.storage.clone();
    if is_shared && storage.allowed_locations.is_empty() {
        storage.allowed_locations = StoreKind::SCHEMES.iter().map(|scheme| format!("{scheme}://")).collect();
    }
    storage
}

/// Jobs of this node that were running when its last process died have failed.
async fn end_lost_jobs(catalog: &Catalog, node: &NodeId) -> Result<()> {
    for mut job in catalog.jobs().await? {
        if job.state == JobState::Running && node.owns(&job.node) {
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
    let (server, tls) = (&config.server, &config.server.tls);
    let account = PathBuf::from(&config.storage.gcs.service_account);
    let named = [&server.audit_log, &server.first_password_file, &tls.certificate, &tls.key, &account];
    named.into_iter().chain(&config.own_files).cloned().collect()
}
