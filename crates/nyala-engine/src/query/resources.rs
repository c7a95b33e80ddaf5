//! What the process may use: threads, memory and room on the disk, and who may use how much of it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use nyala_model::config::{Config, QueryConfig};

use crate::error::{ErrorKind, QueryError, Result};
use crate::scan::Stores;

/// Share of the machine's memory that queries may hold when nothing is configured, in per cent.
const DEFAULT_MEMORY_PERCENT: usize = 60;
/// Consumers named in an out-of-memory error.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);
/// Footers and page indexes kept, in bytes.
const METADATA_CACHE_BYTES: usize = 256 << 20;
/// Threads of each kind.
pub(super) fn thread_count(config: &QueryConfig) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

/// Where queries compute: their memory, their folder for what does not fit in it, and the files' footers.
pub(super) fn runtime(
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
pub(super) struct Memory {
    pub(super) hot_cuboids: usize,
    queries: usize,
    builds: usize,
}

impl Memory {
    /// Hot cuboids take their share; queries and builds have half each of what is left.
    pub(super) fn divide(config: &Config) -> Self {
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
    pub(super) fn for_builds(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(self.builds), NAMED_CONSUMERS))
    }

    /// The same memory in fair shares. A build uses it when it has given the other back.
    pub(super) fn for_frugal_builds(&self) -> Arc<dyn MemoryPool> {
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
