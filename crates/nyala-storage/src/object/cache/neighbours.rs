//! Caches of other processes, which are asked for a block before its store is.

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
    /// Its URL.
    pub url: Arc<str>,
    /// Its size.
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

    /// Whether this may be all of a block.
    pub(super) fn fits(&self, number: u64, data: &Bytes) -> bool {
        let bytes = self.cut().bytes_of(&(number..number + 1));
        self.numbers.contains(&number) && data.len() as u64 == bytes.end - bytes.start
    }
}

/// Other caches.
pub trait Neighbours: Debug + Send + Sync {
    /// Those of the blocks that another cache has, with their numbers. It gives what it has, fetches nothing, and answers soon or
    /// not at all.
    fn blocks(&self, wanted: WantedBlocks) -> BoxFuture<'_, Vec<(u64, Bytes)>>;

    /// Takes a block that came from the store, for the cache that is asked for it next time, if that is another. Does not wait.
    fn give(&self, block: WantedBlocks, data: Bytes);
}
