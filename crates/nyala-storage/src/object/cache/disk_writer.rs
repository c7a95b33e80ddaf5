//! The thread that writes and deletes blocks.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use bytes::Bytes;
use moka::sync::Cache;

use super::block::{BlockId, FileId};
use super::block_file;
use super::disk_files::{TEMPORARY, name_path, path_of, place};
use super::health::Health;
use super::stats::{CacheStats, add};

/// A block that the index keeps.
#[derive(Debug)]
pub struct Entry {
    /// Room of the block on disk.
    pub kib: u32,
    /// Whether the block's file is written.
    pub written: AtomicBool,
}

/// Work of the writer, in the order in which the index decided.
pub enum Task {
    /// Writes a block that the index kept. The guard is dropped afterwards.
    Write {
        block: BlockId,
        data: Bytes,
        entry: Arc<Entry>,
        guard: Box<dyn Send>,
    },
    Delete(BlockId),
    /// Notes the name of a file.
    Name(FileId, Arc<str>),
    DeleteName(FileId),
    /// Answers once all tasks before it are done.
    Flush(Sender<()>),
    Stop,
}

/// The thread that writes and deletes files.
pub struct Writer {
    pub folder: PathBuf,
    pub index: Cache<BlockId, Arc<Entry>>,
    /// Bytes of blocks that wait to be written.
    pub queued_bytes: Arc<AtomicU64>,
    pub health: Health,
    pub stats: Arc<CacheStats>,
    /// Locks the folder until nothing is written any more.
    pub _lock: File,
}

impl Writer {
    /// Works until it is told to stop.
    pub fn run(self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            match task {
                Task::Write { block, data, entry, guard } => {
                    self.write(&block, &data, &entry);
                    self.queued_bytes.fetch_sub(data.len() as u64, Ordering::AcqRel);
                    drop(guard);
                }
                Task::Delete(block) => {
                    let _ = fs::remove_file(path_of(&self.folder, &block));
                }
                Task::Name(file, name) => {
                    let new = self.folder.join(TEMPORARY);
                    let _ = fs::write(&new, name.as_bytes())
                        .and_then(|()| place(&new, &name_path(&self.folder, file)));
                }
                Task::DeleteName(file) => {
                    let _ = fs::remove_file(name_path(&self.folder, file));
                }
                Task::Flush(done) => {
                    let _ = done.send(());
                }
                Task::Stop => return,
            }
        }
    }

    fn write(&self, block: &BlockId, data: &Bytes, entry: &Entry) {
        if !self.health.is_on() || !self.index.contains_key(block) {
            self.index.invalidate(block);
            return;
        }
        let (new, path) = (self.folder.join(TEMPORARY), path_of(&self.folder, block));
        match block_file::write(&new, block, data).and_then(|()| place(&new, &path)) {
            Ok(()) => {
                self.health.worked();
                add(&self.stats.written_bytes, data.len() as u64);
                entry.written.store(true, Ordering::Release);
            }
            Err(error) => {
                add(&self.stats.io_errors, 1);
                self.health.failed(&self.folder, &error);
                let _ = fs::remove_file(&new);
                self.index.invalidate(block);
            }
        }
    }
}
