//! Caches of other processes: before a store, the cache asks them for a block.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::block::{Cut, FileId};

/// Consecutive blocks of a file that a cache lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedBlocks {
    /// The file.
    pub file: FileId,
    /// The file's URL.
    pub url: Arc<str>,
    /// The file's size.
    pub file_bytes: u64,
    /// Size of a block.
    pub block_bytes: u64,
    /// Numbers of the blocks.
    pub numbers: Range<u64>,
}

impl WantedBlocks {
    pub(super) fn cut(&self) -> Cut {
        Cut { file_bytes: self.file_bytes, block_bytes: self.block_bytes }
    }

    /// Whether `data` has the length of this block, and the block is wanted.
    pub(super) fn fits(&self, number: u64, data: &Bytes) -> bool {
        let bytes = self.cut().bytes_of(&(number..number + 1));
        self.numbers.contains(&number) && data.len() as u64 == bytes.end - bytes.start
    }
}

/// Caches of other processes.
pub trait Neighbours: Debug + Send + Sync {
    /// The wanted blocks that another cache has, with their numbers. That cache fetches nothing, and answers soon or
    /// not at all.
    fn blocks(&self, wanted: WantedBlocks) -> BoxFuture<'_, Vec<(u64, Bytes)>>;

    /// Gives a block from the store to the cache that is asked for it next time, if that is another cache. Does not wait.
    fn give(&self, block: WantedBlocks, data: Bytes);
}
