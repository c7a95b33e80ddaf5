//! The cache of hot cuboids, and its admission.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use hashbrown::DefaultHashBuilder;
use moka::notification::RemovalCause;
use moka::sync::Cache;
use nyala_model::NodeId;
use tokio::runtime::Handle;

use super::cuboid::HotCuboid;
use super::load::Request;

/// Unit of weight in the cache, which counts in 32 bits.
const WEIGHT_BYTES: usize = 1024;
/// One cuboid may take this part of the budget, or all memory that is neither used nor reserved by other loads: one dashboard
/// must not evict all others.
const MAX_PART: usize = 4;
/// While less than this share of the budget is used, in per cent, a load evicts nothing.
const ROOMY_PERCENT: usize = 90;
/// A cuboid that did not get in, or could not be read, is not tried again for this long; one for which
/// there is no room must be asked for twice within it.
const MEMORY_OF_LOADS: Duration = Duration::from_secs(60);
/// Number of such cuboids that are remembered.
const REMEMBERED: u64 = 10_000;
/// A cuboid that no query asked for in this time is evicted, for instance one of a dropped cube.
const IDLE: Duration = Duration::from_secs(3600);
/// One load at a time for this many threads.
const THREADS_PER_LOAD: usize = 4;

/// A cuboid of a segment, as its cube reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CuboidKey {
    /// Path of its first file. Files are never replaced.
    pub path: String,
    /// A hash of the columns in their order.
    pub layout: u64,
}

/// The cuboids in memory. One for the process; queries never wait for it.
///
/// It keeps cuboids by frequency of use rather than by the last use (TinyLFU), so that a run over everything
/// does not flush the ones that dashboards use.
pub struct HotCuboids {
    cuboids: Cache<CuboidKey, Arc<HotCuboid>, DefaultHashBuilder>,
    /// Cuboids that are not loaded for a while, because a load failed or was too large.
    refused: Cache<CuboidKey, ()>,
    /// Cuboids that were asked for once while there was no room.
    asked: Cache<CuboidKey, ()>,
    /// Loads under way, with the bytes reserved for each: one load of a cuboid, and few at a time. Locked for look-ups only.
    loading: Mutex<HashMap<CuboidKey, usize>>,
    most_loads: usize,
    budget_bytes: usize,
    runtime: Handle,
    counts: Arc<Counts>,
    /// Tells which nodes keep the cuboids for which there is no room here; none if this is the only node.
    homes: OnceLock<Arc<dyn CuboidHomes>>,
}

/// Decides which of several nodes keeps a cuboid in memory, where one node has not room for all.
pub trait CuboidHomes: fmt::Debug + Send + Sync {
    /// The other node that keeps the cuboid with this name; none if this one does.
    fn elsewhere(&self, cuboid: &str) -> Option<NodeId>;
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    loads: AtomicU64,
    failures: AtomicU64,
    evictions: AtomicU64,
}

/// Counts of the cache of hot cuboids since the start, all 0 when it is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HotStats {
    /// Scans of a cuboid that memory answered.
    pub hits: u64,
    /// Scans of a cuboid that read files.
    pub misses: u64,
    /// Loads under way.
    pub loading: u64,
    /// Loads that succeeded.
    pub loads: u64,
    /// Loads that ended with an error.
    pub failures: u64,
    /// Cuboids that were evicted or not admitted, because others are used more.
    pub evictions: u64,
    /// Cuboids in memory.
    pub cuboids: u64,
    /// Memory they take, in bytes.
    pub bytes: u64,
}

/// The columns of a cuboid that are not in memory.
#[derive(Debug)]
pub struct Absent {
    before: Option<Arc<HotCuboid>>,
    /// Positions of the columns that have to be read.
    pub columns: Vec<usize>,
}

/// How a cuboid is read.
pub struct Source {
    /// Gives the absent columns of all cells, in one partition and always in the same order.
    pub plan: Arc<dyn ExecutionPlan>,
    pub runtime: Arc<RuntimeEnv>,
    /// How many columns of the cuboid, from the first on, are dimensions.
    pub dimensions: usize,
    pub rows: usize,
}

impl HotCuboids {
    /// A cache of at most `budget_bytes`, which loads on `runtime`; none if the budget is 0.
    pub fn new(budget_bytes: usize, threads: usize, runtime: Handle) -> Option<Arc<Self>> {
        if budget_bytes == 0 {
            return None;
        }
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let cuboids = Cache::builder()
            .max_capacity((budget_bytes / WEIGHT_BYTES) as u64)
            .weigher(|_, cuboid: &Arc<HotCuboid>| weight(cuboid))
            .time_to_idle(IDLE)
            .eviction_listener(move |_, _, cause| {
                if cause == RemovalCause::Size {
                    counted.evictions.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build_with_hasher(DefaultHashBuilder::default());
        let notes = || Cache::builder().max_capacity(REMEMBERED).time_to_live(MEMORY_OF_LOADS).build();
        Some(Arc::new(Self {
            cuboids,
            refused: notes(),
            asked: notes(),
            loading: Mutex::default(),
            most_loads: (threads / THREADS_PER_LOAD).max(1),
            budget_bytes,
            runtime,
            counts,
            homes: OnceLock::new(),
        }))
    }

    /// Sets the nodes to which cuboids are left when there is no room here.
    pub fn keep_at_homes(&self, homes: Arc<dyn CuboidHomes>) {
        // Set once, when the engine is open.
        let _ = self.homes.set(homes);
    }

    /// The node that keeps a cuboid that is not in memory here; none if it may be loaded here.
    pub(in crate::scan) fn elsewhere(
        &self,
        key: &CuboidKey,
        cuboid: impl FnOnce() -> String,
    ) -> Option<NodeId> {
        let homes = self.homes.get()?;
        // A large cuboid may be refused before memory is full.
        let has_room = self.is_roomy() && !self.refused.contains_key(key);
        if has_room { None } else { homes.elsewhere(&cuboid()) }
    }

    /// The cuboid, if all `wanted` columns of it are in memory.
    pub fn find(&self, key: &CuboidKey, wanted: &[usize]) -> std::result::Result<Arc<HotCuboid>, Absent> {
        let before = self.cuboids.get(key);
        let columns = before.as_ref().map_or_else(|| wanted.to_vec(), |cuboid| cuboid.missing(wanted));
        match before {
            Some(cuboid) if columns.is_empty() => {
                self.counts.hits.fetch_add(1, Ordering::Relaxed);
                Ok(cuboid)
            }
            before => {
                self.counts.misses.fetch_add(1, Ordering::Relaxed);
                Err(Absent { before, columns })
            }
        }
    }

    /// The cuboid, if all `wanted` columns of it are in memory. This starts no load of missing columns.
    pub(super) fn peek(&self, key: &CuboidKey, wanted: &[usize]) -> Option<Arc<HotCuboid>> {
        self.cuboids.get(key).filter(|cuboid| cuboid.has(wanted)).inspect(|_| {
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Starts to load the absent columns, if that is worth it now. No query waits for the load, and only the log tells if it
    /// fails.
    pub fn load(
        self: &Arc<Self>,
        key: &CuboidKey,
        absent: Absent,
        source: impl FnOnce(&[usize]) -> Result<Source>,
    ) -> Result<()> {
        let Some(mut loading) = self.begin(key) else { return Ok(()) };
        let source = source(&absent.columns)?;
        let rows = source.rows;
        let request = Request {
            plan: source.plan,
            runtime: source.runtime,
            columns: absent.columns,
            dimensions: source.dimensions,
            rows,
        };
        self.runtime.spawn(async move {
            let read = request.read(|bytes| loading.reserve(bytes, 0)).await;
            match read {
                Ok(Some(new)) => {
                    let held = absent.before.as_ref().map_or(0, |before| before.bytes());
                    loading.finish(HotCuboid::extend(absent.before.as_deref(), rows, new), held);
                }
                Ok(None) => tracing::debug!(key = ?loading.key, "cuboid is too large for memory"),
                Err(error) => loading.fail(&error),
            }
        });
        Ok(())
    }

    /// The bytes of each cuboid of a segment, by the path of its first file.
    pub fn bytes_by_path(&self) -> HashMap<String, u64> {
        let mut bytes = HashMap::new();
        for (key, cuboid) in &self.cuboids {
            *bytes.entry(key.path.clone()).or_default() += cuboid.bytes() as u64;
        }
        bytes
    }

    /// Counts since the start, and present contents.
    pub fn stats(&self) -> HotStats {
        self.cuboids.run_pending_tasks();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HotStats {
            hits: read(&self.counts.hits),
            misses: read(&self.counts.misses),
            loading: self.loading.lock().unwrap_or_else(PoisonError::into_inner).len() as u64,
            loads: read(&self.counts.loads),
            failures: read(&self.counts.failures),
            evictions: read(&self.counts.evictions),
            cuboids: self.cuboids.entry_count(),
            bytes: self.cuboids.weighted_size() * WEIGHT_BYTES as u64,
        }
    }

    fn begin(self: &Arc<Self>, key: &CuboidKey) -> Option<Loading> {
        if self.refused.contains_key(key) || !self.is_worth_loading(key) {
            return None;
        }
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if loading.len() >= self.most_loads || loading.contains_key(key) {
            return None;
        }
        loading.insert(key.clone(), 0);
        Some(Loading { hot: Arc::clone(self), key: key.clone(), kept: false })
    }

    fn is_roomy(&self) -> bool {
        self.free_bytes() > 0
    }

    /// Memory that can be used before a load evicts a cuboid.
    fn free_bytes(&self) -> usize {
        let used = usize::try_from(self.cuboids.weighted_size()).unwrap_or(usize::MAX);
        (self.budget_bytes / 100 * ROOMY_PERCENT).saturating_sub(used.saturating_mul(WEIGHT_BYTES))
    }

    /// Whether a load is likely to be kept: always while there is room, and from the second query on when memory is full.
    fn is_worth_loading(&self, key: &CuboidKey) -> bool {
        if self.is_roomy() {
            return true;
        }
        let before = self.asked.contains_key(key);
        self.asked.insert(key.clone(), ());
        before
    }
}

fn weight(cuboid: &HotCuboid) -> u32 {
    u32::try_from(cuboid.bytes() / WEIGHT_BYTES + 1).unwrap_or(u32::MAX)
}

/// A load under way, until this is dropped.
struct Loading {
    hot: Arc<HotCuboids>,
    key: CuboidKey,
    kept: bool,
}

impl Loading {
    /// Reserves `bytes` for this load in place of its earlier reservation, until the load is dropped. `held` of them are in memory
    /// already, as columns of the same cuboid. False if fewer are free. Another load does not get reserved bytes: of two large
    /// cuboids, only one is loaded into the last free memory.
    fn reserve(&self, bytes: usize, held: usize) -> bool {
        let mut loading = self.hot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let others = loading.iter().filter(|(key, _)| **key != self.key);
        let reserved: usize = others.map(|(_, bytes)| *bytes).sum();
        let free = (self.hot.free_bytes() + held).saturating_sub(reserved);
        if bytes > free.max(self.hot.budget_bytes / MAX_PART) {
            return false;
        }
        loading.insert(self.key.clone(), bytes.saturating_sub(held));
        true
    }

    /// Puts the cuboid into memory, where `held` bytes of it are already.
    fn finish(&mut self, cuboid: HotCuboid, held: usize) {
        // The columns from before count too: without this, columns would add up beyond every limit.
        if !self.reserve(cuboid.bytes(), held) {
            tracing::debug!(key = ?self.key, "cuboid has become too large for memory");
            return;
        }
        self.hot.cuboids.insert(self.key.clone(), Arc::new(cuboid));
        self.hot.cuboids.run_pending_tasks();
        self.kept = self.hot.cuboids.contains_key(&self.key);
        self.hot.counts.loads.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&self, error: &datafusion::error::DataFusionError) {
        self.hot.counts.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(path = self.key.path, %error, "a cuboid cannot be loaded into memory");
    }
}

impl Drop for Loading {
    /// Ends the load, also after a panic.
    fn drop(&mut self) {
        self.hot.loading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        if !self.kept {
            self.hot.refused.insert(self.key.clone(), ());
        }
    }
}

impl fmt::Debug for HotCuboids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotCuboids").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The two loads would each be allowed all free memory, since they began together.
    #[tokio::test]
    async fn two_large_cuboids_do_not_both_get_the_memory_that_is_free() {
        // 90,000 bytes are free, and a load always gets 25,000.
        let hot = HotCuboids::new(100_000, 2 * THREADS_PER_LOAD, Handle::current()).unwrap();
        let begin = |path: &str| hot.begin(&CuboidKey { path: path.to_owned(), layout: 0 });
        let (one, other) = (begin("one").unwrap(), begin("other").unwrap());
        assert!(begin("third").is_none(), "two loads at a time");
        assert!(one.reserve(60_000, 0));
        assert!(!other.reserve(60_000, 0) && other.reserve(30_000, 0));
        assert!(!one.reserve(60_001, 0) && one.reserve(60_000, 0), "the other has the rest");
        assert!(one.reserve(70_000, 10_000), "10,000 of them are in memory already");
        assert!(!one.reserve(70_001, 10_000) && other.reserve(25_000, 0));
        drop(one);
        assert!(other.reserve(90_000, 0) && !other.reserve(90_001, 0));
        let third = begin("third").unwrap();
        assert!(third.reserve(25_000, 0) && !third.reserve(25_001, 0), "nothing else is free");
    }
}
