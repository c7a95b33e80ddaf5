//! Limits of the process: threads, memory and disk space.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use nyala_cube::scan::Stores;
use nyala_model::config::{Config, QueryConfig};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::machine;

/// Default memory limit, as a share of the machine's memory in per cent.
const DEFAULT_MEMORY_PERCENT: usize = 60;
/// Consumers named in an out-of-memory error.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);
/// Footers and page indexes kept, in bytes.
const METADATA_CACHE_BYTES: usize = 256 << 20;
/// Prefix of DataFusion's folders for spilled rows.
const SPILLED: &[u8] = b"datafusion-";

/// Threads of each kind.
pub fn thread_count(config: &QueryConfig) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

/// The environment of queries: their memory, their spill folder, and the cache of file footers.
pub fn runtime(
    data_dir: &Path,
    config: &QueryConfig,
    memory: &Memory,
    stores: &Arc<Stores>,
) -> Result<Arc<RuntimeEnv>> {
    let spill = data_dir.join("tmp");
    let failed = |error: std::io::Error| {
        QueryError::new(ErrorKind::Unreadable, format!("cannot use `{}`: {error}", spill.display()))
    };
    clear(&spill).map_err(failed)?;
    let limited = limited(spill, config, memory.for_queries());
    Ok(limited.with_object_store_registry(Arc::clone(stores) as _).build_arc()?)
}

/// An environment with limits where DataFusion has none, or others: it would use any memory, keep lists of files for ever, and forget footers.
fn limited(spill: PathBuf, config: &QueryConfig, memory: Arc<dyn MemoryPool>) -> RuntimeEnvBuilder {
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![spill]))
        .with_max_temp_directory_size(config.spill_limit_bytes);
    RuntimeEnvBuilder::new()
        .with_memory_pool(memory)
        .with_disk_manager_builder(disk)
        .with_metadata_cache_limit(METADATA_CACHE_BYTES)
        // No listing is cached, so that the next query sees files added to a table.
        .with_object_list_cache_limit(0)
}

/// Removes the spilled rows of a process that died, as far as it can. The folder stays, because it may be a
/// link to a larger disk or a mounted one.
fn clear(spill: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(spill)?;
    for entry in std::fs::read_dir(spill)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(SPILLED) {
            let removed = std::fs::remove_dir_all(entry.path());
            if let Err(error) = removed {
                tracing::warn!(path = %entry.path().display(), %error, "what was spilled before cannot be removed");
            }
        }
    }
    Ok(())
}

/// The memory limit, in bytes, divided by use.
pub struct Memory {
    pub hot_cuboids: usize,
    queries: usize,
    builds: usize,
}

impl Memory {
    /// Hot cuboids take their share; queries and builds get half each of the rest.
    pub fn divide(config: &Config) -> Self {
        let limit = memory_limit_bytes(&config.query);
        let hot_cuboids = limit / 100 * config.cache.hot_cuboids_percent;
        let half = limit.saturating_sub(hot_cuboids) / 2;
        Self { hot_cuboids, queries: half, builds: half }
    }

    /// Queries share their part so that one cannot take it all.
    fn for_queries(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(FairSpillPool::new(self.queries), NAMED_CONSUMERS))
    }

    /// Builds take as much of their part as they need.
    pub fn for_builds(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(self.builds), NAMED_CONSUMERS))
    }

    /// The memory of builds in fair shares. A build uses it after it has returned what it took of [`Self::for_builds`].
    pub fn for_frugal_builds(&self) -> Arc<dyn MemoryPool> {
        Arc::new(TrackConsumersPool::new(FairSpillPool::new(self.builds), NAMED_CONSUMERS))
    }
}

/// Memory limit of the whole process, in bytes.
pub fn process_limit_bytes(config: &QueryConfig) -> u64 {
    let machine = machine::memory_bytes() as u64;
    match config.process_limit_bytes {
        0 => machine,
        bytes => machine.min(bytes as u64),
    }
}

fn memory_limit_bytes(config: &QueryConfig) -> usize {
    match config.memory_limit_bytes {
        0 => machine::memory_bytes() / 100 * DEFAULT_MEMORY_PERCENT,
        bytes => bytes,
    }
}

/// What the machine gives an engine with a configuration, and what the engine takes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Memory of the machine, or of the control group of this process if that is less, in bytes.
    pub machine_bytes: u64,
    /// `query.process_limit_bytes` or its default, in bytes.
    pub process_bytes: u64,
    /// `query.memory_limit_bytes` or its default, in bytes.
    pub memory_bytes: u64,
    /// `query.threads` or its default.
    pub threads: usize,
    /// Processors that the control group of this process grants at a time; none without such a limit.
    pub processor_quota: Option<f64>,
}

impl Limits {
    /// The limits that an engine with this configuration would have in this process.
    pub fn of(config: &QueryConfig) -> Self {
        Self {
            machine_bytes: machine::memory_bytes() as u64,
            process_bytes: process_limit_bytes(config),
            memory_bytes: memory_limit_bytes(config) as u64,
            threads: thread_count(config),
            processor_quota: machine::processor_quota(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::execution::memory_pool::MemoryLimit;

    use super::*;

    #[test]
    fn memory_disk_and_caches_have_the_limits_that_are_configured() {
        let folder = tempfile::tempdir().unwrap();
        let query =
            QueryConfig { memory_limit_bytes: 1 << 30, spill_limit_bytes: 7 << 20, ..Default::default() };
        let config = Config { query, ..Config::default() };
        let memory = Memory::divide(&config).for_queries();
        let environment = limited(folder.path().to_owned(), &config.query, memory).build_arc().unwrap();
        let MemoryLimit::Finite(bytes) = environment.memory_pool.memory_limit() else {
            unreachable!("queries may use any memory")
        };
        assert!(bytes < 1 << 29, "hot cuboids and builds have the rest, not {bytes} for queries");
        assert_eq!(environment.disk_manager.max_temp_directory_size(), 7 << 20);
        assert_eq!(environment.cache_manager.get_metadata_cache_limit(), METADATA_CACHE_BYTES);
        assert_eq!(environment.cache_manager.get_list_files_cache_limit(), 0);
    }

    #[test]
    fn only_what_was_spilled_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, spill) = (folder.path().join("disk"), folder.path().join("tmp"));
        clear(&spill).unwrap();
        assert!(spill.is_dir(), "it is made");
        std::fs::remove_dir(&spill).unwrap();
        std::fs::create_dir_all(disk.join("datafusion-x")).unwrap();
        std::fs::create_dir_all(disk.join("lost+found")).unwrap();
        std::fs::write(disk.join("datafusion-x/rows"), "spilled").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&disk, &spill).unwrap();
        #[cfg(not(unix))]
        std::fs::rename(&disk, &spill).unwrap();
        clear(&spill).unwrap();
        assert!(spill.join("lost+found").is_dir() && !spill.join("datafusion-x").exists());
        #[cfg(unix)]
        assert!(spill.is_symlink(), "it leads to the other disk");
    }
}
