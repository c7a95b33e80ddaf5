//! Blocks on local disk: the folder, and the index that decides which blocks are kept.
//!
//! The index decides before a block is written (TinyLFU), so that a scan of cold data writes little. One thread writes and
//! deletes, in the order in which the index decided.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use moka::notification::RemovalCause;
use moka::sync::Cache;

use super::block::{BlockId, Cut, FileId};
use super::block_file::{self, Unusable};
use super::disk_files::{TEMPORARY, forget_other_sizes, lock, name_path, path_of};
use super::disk_writer::{Entry, Task, Writer};
use super::health::Health;
use super::stats::{CacheStats, add};
use crate::StorageError;

/// Most bytes of blocks that wait to be written. Further blocks are not kept.
const MAX_QUEUED_BYTES: u64 = 24 << 20;
/// Files take whole blocks of the file system, of this size.
const FILE_SYSTEM_KIB: u64 = 4;

/// A folder of blocks.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    index: Cache<BlockId, Arc<Entry>>,
    /// Files with a `.name` file on disk; its capacity is the number of blocks that find room.
    names: Cache<FileId, ()>,
    /// Room of the blocks in the index.
    used_kib: Arc<AtomicU64>,
    /// Whether all files of the folder are in the index. Before that, the folder may have blocks that the index does not know.
    recovered: AtomicBool,
    queued_bytes: Arc<AtomicU64>,
    tasks: Sender<Task>,
    reading: Health,
    stats: Arc<CacheStats>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

impl Disk {
    /// Locks the folder, and finds its blocks in the background.
    pub fn open(
        folder: &Path,
        (max_bytes, block_bytes): (u64, u64),
        stats: &Arc<CacheStats>,
    ) -> Result<Arc<Self>, StorageError> {
        let failed = |source| StorageError::CacheFolder { path: folder.to_owned(), source };
        let lock = lock(folder)?;
        forget_other_sizes(folder, block_bytes).map_err(failed)?;
        let (tasks, waiting) = mpsc::channel();
        let used_kib = Arc::new(AtomicU64::new(0));
        let evicted = (tasks.clone(), Arc::clone(stats), Arc::clone(&used_kib));
        // The capacity is a number of blocks, not bytes: with weights, moka counts uses in a sketch that is a quarter of what its entries need,
        // and forgets them four times too often. A scan then drives out blocks that dashboards use.
        let whole = block_file::file_bytes(usize::try_from(block_bytes).unwrap_or(usize::MAX));
        let max_blocks = (max_bytes >> 10) / u64::from(kib_on_disk(whole as u64));
        let unnamed = tasks.clone();
        let names = Cache::builder()
            .max_capacity(max_blocks)
            .eviction_listener(move |file: Arc<FileId>, (), cause| {
                if cause != RemovalCause::Replaced {
                    let _ = unnamed.send(Task::DeleteName(*file));
                }
            })
            .build();
        let index = Cache::builder()
            .max_capacity(max_blocks)
            .eviction_listener(move |block: Arc<BlockId>, entry: Arc<Entry>, cause| {
                evicted.2.fetch_sub(entry.kib.into(), Ordering::Relaxed);
                if cause != RemovalCause::Replaced {
                    add(&evicted.1.evicted_blocks, 1);
                    // This cannot fail: the writer ends after the index.
                    let _ = evicted.0.send(Task::Delete(*block));
                }
            })
            .build();
        let queued_bytes = Arc::new(AtomicU64::new(0));
        let disk = Arc::new(Self {
            folder: folder.to_owned(),
            index: index.clone(),
            names: names.clone(),
            used_kib: Arc::clone(&used_kib),
            recovered: AtomicBool::new(false),
            queued_bytes: Arc::clone(&queued_bytes),
            tasks,
            reading: Health::new("read"),
            stats: Arc::clone(stats),
            writer: Mutex::default(),
        });
        let writer = Writer {
            _lock: lock,
            folder: folder.to_owned(),
            index: index.clone(),
            queued_bytes,
            health: Health::new("write"),
            stats: Arc::clone(stats),
        };
        let writer = spawn("cache-writer", move || writer.run(&waiting)).map_err(failed)?;
        *disk.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        let weak = Arc::downgrade(&disk);
        let folder = folder.to_owned();
        spawn("cache-recovery", move || recover(&folder, (&index, &names, &used_kib), &weak))
            .map_err(failed)?;
        Ok(disk)
    }

    /// Writes the queued blocks, ends the writer thread and unlocks the folder. Blocks the caller. Later blocks are not kept.
    pub fn close(&self) {
        let _ = self.tasks.send(Task::Stop);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    /// Whether a block may be read from the disk. Counts as a use of the block, even if the disk does not have it.
    pub fn has(&self, block: &BlockId) -> bool {
        let known = self.index.get(block);
        if !self.reading.is_on() {
            return false;
        }
        match known {
            Some(entry) => entry.written.load(Ordering::Acquire),
            None => !self.recovered.load(Ordering::Acquire),
        }
    }

    /// Whether the index has a block that may be read. Does not count as a use.
    pub fn keeps(&self, block: &BlockId) -> bool {
        self.reading.is_on() && self.index.contains_key(block)
    }

    /// Reads bytes of a file from consecutive blocks. Blocks the thread.
    ///
    /// # Errors
    /// The number of the first block that cannot be read, which is forgotten.
    pub fn read(&self, file: FileId, cut: &Cut, range: &Range<u64>) -> Result<Bytes, u64> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        for number in cut.blocks(range) {
            let all = cut.bytes_of(&(number..number + 1));
            let part = cut.part(number, range);
            let data_bytes = size(all.end - all.start);
            let chunks = block_file::around(&(size(part.start)..size(part.end)), data_bytes);
            parts.push((number, data_bytes, chunks));
        }
        let mut bytes = vec![0; parts.iter().map(|(_, _, chunks)| chunks.len()).sum()];
        let before = parts.first().map_or(0, |(number, _, chunks)| {
            let from = cut.bytes_of(&(*number..number + 1)).start + chunks.start as u64;
            size(range.start.saturating_sub(from))
        });
        let mut rest = bytes.as_mut_slice();
        for (number, data_bytes, chunks) in parts {
            let (into, behind) = rest.split_at_mut_checked(chunks.len()).ok_or(number)?;
            rest = behind;
            let block = BlockId { file, number };
            match block_file::read(&path_of(&self.folder, &block), &block, data_bytes, chunks.start, into) {
                Ok(()) => self.reading.worked(),
                Err(reason) => {
                    self.forget(&block, &reason);
                    return Err(number);
                }
            }
        }
        let wanted = before..before + size(range.end - range.start);
        Ok(Bytes::from(bytes).slice(wanted))
    }

    fn forget(&self, block: &BlockId, reason: &Unusable) {
        match reason {
            Unusable::Absent => {}
            Unusable::Damaged => add(&self.stats.damaged_blocks, 1),
            Unusable::Io(error) => {
                add(&self.stats.io_errors, 1);
                self.reading.failed(&self.folder, error);
            }
        }
        // The file goes even if the index did not know it.
        if self.index.remove(block).is_none() && !matches!(reason, Unusable::Absent) {
            let _ = self.tasks.send(Task::Delete(*block));
        }
    }

    /// Keeps a block, if it is used more than the blocks that would make room for it. The guard is dropped once its file is
    /// written, or will not be.
    pub fn keep(&self, block: BlockId, data: &Bytes, guard: Box<dyn Send>) {
        let kib = kib_on_disk(block_file::file_bytes(data.len()) as u64);
        let queued = self.queued_bytes.fetch_add(data.len() as u64, Ordering::AcqRel);
        // A block that cannot be read back is not written.
        if queued > MAX_QUEUED_BYTES || !self.reading.is_on() {
            self.queued_bytes.fetch_sub(data.len() as u64, Ordering::AcqRel);
            add(&self.stats.skipped_writes, 1);
            return;
        }
        let entry = Arc::new(Entry { kib, written: AtomicBool::new(false) });
        self.used_kib.fetch_add(kib.into(), Ordering::Relaxed);
        self.index.insert(block, Arc::clone(&entry));
        self.index.run_pending_tasks();
        if !self.index.contains_key(&block) {
            self.queued_bytes.fetch_sub(data.len() as u64, Ordering::AcqRel);
            add(&self.stats.rejected_blocks, 1);
            return;
        }
        let _ = self.tasks.send(Task::Write { block, data: data.clone(), entry, guard });
    }

    /// Notes the name of the file behind a digest, for lists.
    pub fn name(&self, file: FileId, name: &Arc<str>) {
        if self.names.contains_key(&file) {
            return;
        }
        let _ = self.tasks.send(Task::Name(file, Arc::clone(name)));
        self.names.insert(file, ());
    }

    /// Deletes the blocks of the files that `which` chooses, and tells how many there were.
    pub fn drop_blocks(&self, which: impl Fn(FileId) -> bool) -> u64 {
        let blocks: Vec<BlockId> =
            self.index.iter().map(|(block, _)| *block).filter(|block| which(block.file)).collect();
        for block in &blocks {
            self.index.invalidate(block);
        }
        self.index.run_pending_tasks();
        blocks.len() as u64
    }

    /// The blocks on disk, with their size in KiB.
    pub fn blocks(&self) -> Vec<(BlockId, u32)> {
        self.index.iter().map(|(block, entry)| (*block, entry.kib)).collect()
    }

    /// The name of a file, if one was noted. Blocks the thread.
    pub fn name_of(&self, file: FileId) -> Option<String> {
        fs::read_to_string(name_path(&self.folder, file)).ok()
    }

    /// Number of all blocks.
    pub fn count(&self) -> u64 {
        self.index.entry_count()
    }

    /// Size of all blocks, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_kib.load(Ordering::Relaxed) << 10
    }

    /// Waits until the blocks so far are written. Blocks the thread.
    pub fn flush(&self) {
        self.index.run_pending_tasks();
        let (done, wait) = mpsc::channel();
        if self.tasks.send(Task::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }

    /// Whether the blocks of earlier processes are in the index.
    #[cfg(test)]
    pub fn is_recovered(&self) -> bool {
        self.recovered.load(Ordering::Acquire)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn kib_on_disk(file_bytes: u64) -> u32 {
    let kib = file_bytes.div_ceil(FILE_SYSTEM_KIB << 10).saturating_mul(FILE_SYSTEM_KIB);
    u32::try_from(kib).unwrap_or(u32::MAX)
}

/// Puts the blocks of earlier processes into the index, and deletes everything else.
fn recover(
    folder: &Path,
    (index, known, used_kib): (&Cache<BlockId, Arc<Entry>>, &Cache<FileId, ()>, &AtomicU64),
    disk: &Weak<Disk>,
) {
    let _ = fs::remove_file(folder.join(TEMPORARY));
    for number in 0..=u8::MAX {
        let Ok(found) = fs::read_dir(folder.join(format!("{number:02x}"))) else { continue };
        let (mut names, mut files) = (HashSet::new(), HashSet::new());
        for file in found.flatten() {
            if disk.strong_count() == 0 {
                return;
            }
            let block = file.file_name().to_str().and_then(BlockId::from_file_name);
            let (Some(block), Ok(metadata)) = (block, file.metadata()) else {
                names.insert(file.path());
                continue;
            };
            files.insert(block.file);
            if !index.contains_key(&block) {
                let kib = kib_on_disk(metadata.len());
                used_kib.fetch_add(kib.into(), Ordering::Relaxed);
                index.insert(block, Arc::new(Entry { kib, written: AtomicBool::new(true) }));
            }
        }
        index.run_pending_tasks();
        for file in files {
            if names.remove(&name_path(folder, file)) {
                known.insert(file, ());
            }
        }
        for other in names {
            let _ = fs::remove_file(other);
        }
    }
    if let Some(disk) = disk.upgrade() {
        disk.recovered.store(true, Ordering::Release);
        tracing::info!(folder = %folder.display(), blocks = index.entry_count(), "block cache recovered");
    }
}
