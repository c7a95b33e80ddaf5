//! Blocks of remote files on local disk, and in memory if wished.
//!
//! ```text
//! read ──▶ memory ──▶ disk ──▶ on its way ──▶ other nodes ──▶ request to the store
//!                                                  │
//!            not kept ◀── worth its room? (TinyLFU) ◀┘
//!                                  └──▶ write queue ──▶ file of the block
//! ```
//! Each block is of one version of one file, so that nothing in the cache is ever stale. Anything wrong with a block is a
//! miss.

mod block;
mod block_file;
mod disk;
mod disk_files;
mod disk_writer;
mod file;
mod flight;
mod health;
mod neighbours;
mod read;
mod shared_error;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;
use tokio::runtime::Handle;

pub use block::{BlockId, FileId};
pub use file::RemoteFile;
pub use neighbours::{Neighbours, WantedBlocks};
pub use read::Fill;
pub use stats::{CacheStats, Tally};

use self::disk::Disk;
use self::flight::{Flights, Landing};
use self::stats::add;
use crate::StorageError;

/// Most blocks that are lent at a time.
const MAX_LENT: usize = 64;

/// Where blocks are kept, and how many.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Folder of the blocks on disk.
    pub folder: PathBuf,
    /// Bytes of blocks on disk; 0 for none.
    pub disk_bytes: u64,
    /// Bytes of blocks in memory; 0 for none.
    pub memory_bytes: u64,
    /// Size of a block, a multiple of 64 KiB.
    pub block_bytes: u64,
}

/// A block on disk, for lists.
#[derive(Debug, Clone)]
pub struct BlockInfo {
    /// The URL of the block's file, if it is known.
    pub file: Option<Arc<str>>,
    /// The block's number; the first is 0.
    pub number: u64,
    /// The block's room on disk, in bytes.
    pub bytes: u64,
}

/// The cache of a process.
#[derive(Debug)]
pub struct BlockCache {
    options: CacheOptions,
    memory: Option<Cache<BlockId, Bytes>>,
    disk: Option<Arc<Disk>>,
    flights: Arc<Flights>,
    runtime: Handle,
    stats: Arc<CacheStats>,
}

impl BlockCache {
    /// Opens the folder. Blocks of earlier processes are found in the background. Requests run on `runtime`.
    ///
    /// # Errors
    /// The folder cannot be used, or another process uses it.
    pub fn open(options: CacheOptions, runtime: Handle) -> Result<Arc<Self>, StorageError> {
        let stats = Arc::new(CacheStats::default());
        let disk = match options.disk_bytes {
            0 => None,
            bytes => Some(Disk::open(&options.folder, (bytes, options.block_bytes), &stats)?),
        };
        // The capacity is a number of blocks, not bytes, as on disk.
        let in_memory = options.memory_bytes / options.block_bytes.max(1);
        let memory = (in_memory > 0).then(|| Cache::new(in_memory));
        let flights = Flights::new(runtime.clone());
        Ok(Arc::new(Self { options, memory, disk, flights, runtime, stats }))
    }

    /// Sets the caches that are asked before a store is. Later calls change nothing.
    pub fn ask_first(&self, neighbours: Arc<dyn Neighbours>) {
        self.flights.ask_first(neighbours);
    }

    /// The wanted blocks that are in memory or on disk. Blocks the thread.
    pub fn lend(&self, wanted: &WantedBlocks) -> Vec<(u64, Bytes)> {
        if wanted.block_bytes != self.options.block_bytes {
            return Vec::new();
        }
        let data = |number: u64| {
            let block = BlockId { file: wanted.file, number };
            let kept = self.memory.as_ref().and_then(|memory| memory.get(&block));
            let on_disk = || {
                let disk = self.disk.as_ref().filter(|disk| disk.has(&block))?;
                let (cut, range) = (wanted.cut(), wanted.cut().bytes_of(&(number..number + 1)));
                disk.read(wanted.file, &cut, &range).ok()
            };
            kept.or_else(on_disk).filter(|data| wanted.fits(number, data))
        };
        let numbers = wanted.numbers.clone().take(MAX_LENT);
        let found: Vec<_> = numbers.filter_map(|number| Some((number, data(number)?))).collect();
        add(&self.stats.lent_bytes, found.iter().map(|(_, data)| data.len() as u64).sum());
        found
    }

    /// Keeps blocks that another node has read from the store. Blocks the thread.
    pub fn keep(&self, given: &WantedBlocks, blocks: Vec<(u64, Bytes)>) {
        if given.block_bytes != self.options.block_bytes {
            return;
        }
        for (number, data) in blocks.into_iter().filter(|(number, data)| given.fits(*number, data)) {
            let block = BlockId { file: given.file, number };
            if !self.disk.as_ref().is_some_and(|disk| disk.has(&block)) {
                self.land(block, data, Box::new(()));
            }
        }
    }

    /// Size of a block.
    pub fn block_bytes(&self) -> u64 {
        self.options.block_bytes
    }

    /// Counters since the start of the process.
    pub fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// How the cache was opened.
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// Bytes of blocks on disk, and in memory. In memory a short block counts as a whole one.
    pub fn used_bytes(&self) -> (u64, u64) {
        let disk = self.disk.as_ref().map_or(0, |disk| disk.used_bytes());
        let memory = self.memory.as_ref().map_or(0, Cache::entry_count);
        (disk, memory * self.options.block_bytes)
    }

    /// The blocks on disk, by their files. Blocks the thread.
    pub fn blocks(&self) -> Vec<BlockInfo> {
        let Some(disk) = &self.disk else { return Vec::new() };
        let mut blocks = disk.blocks();
        blocks.sort_unstable_by_key(|(block, _)| (block.file.bytes(), block.number));
        let mut names: HashMap<FileId, Option<Arc<str>>> = HashMap::new();
        let mut info = |(block, kib): (BlockId, u32)| {
            let name = names.entry(block.file).or_insert_with(|| disk.name_of(block.file).map(Arc::from));
            BlockInfo { file: name.clone(), number: block.number, bytes: u64::from(kib) << 10 }
        };
        blocks.drain(..).map(&mut info).collect()
    }

    /// Number of blocks on disk and in memory.
    pub fn block_counts(&self) -> (u64, u64) {
        let disk = self.disk.as_ref().map_or(0, |disk| disk.count());
        (disk, self.memory.as_ref().map_or(0, Cache::entry_count))
    }

    /// Bytes of a file that are on disk or in memory.
    pub fn kept_bytes(&self, file: &RemoteFile) -> u64 {
        let is_kept = |block: &BlockId| {
            self.memory.as_ref().is_some_and(|memory| memory.contains_key(block))
                || self.disk.as_ref().is_some_and(|disk| disk.keeps(block))
        };
        let blocks = file.cut().blocks(&(0..file.cut().file_bytes));
        let kept = blocks.filter(|&number| is_kept(&BlockId { file: file.id(), number }));
        let bytes = kept.map(|number| file.cut().bytes_of(&(number..number + 1)));
        bytes.map(|bytes| bytes.end - bytes.start).sum()
    }

    fn note_name(&self, file: &RemoteFile) {
        if let Some(disk) = &self.disk {
            disk.name(file.id(), file.name());
        }
    }

    /// Deletes all blocks of the files that `which` chooses, and tells how many there were on disk.
    pub fn drop_blocks(&self, which: impl Fn(FileId) -> bool) -> u64 {
        if let Some(memory) = &self.memory {
            for (block, _) in memory.iter().filter(|(block, _)| which(block.file)) {
                memory.invalidate(block.as_ref());
            }
        }
        self.disk.as_ref().map_or(0, |disk| disk.drop_blocks(which))
    }

    /// Writes the queued blocks and unlocks the folder. Blocks the caller. Later blocks are not kept on disk.
    pub fn close(&self) {
        if let Some(disk) = &self.disk {
            disk.close();
        }
    }

    /// Waits until the blocks so far are written. Blocks the thread.
    pub fn flush(&self) {
        if let Some(disk) = &self.disk {
            disk.flush();
        }
    }
}

impl Landing for BlockCache {
    fn land(&self, block: BlockId, data: Bytes, guard: Box<dyn Send>) {
        if let Some(memory) = &self.memory {
            memory.insert(block, data.clone());
        }
        if let Some(disk) = &self.disk {
            disk.keep(block, &data, guard);
        }
    }

    fn requested(&self) {
        add(&self.stats.fetches, 1);
    }

    fn borrowed(&self, bytes: u64) {
        add(&self.stats.borrowed_bytes, bytes);
    }
}
