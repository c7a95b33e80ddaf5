//! A remote file as the block cache knows it.

use std::ops::Range;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use nyala_model::CuboidFile;
use nyala_sql::error::{QueryError, Result};
use nyala_storage::object::cache::{BlockCache, FileId, Fill, Tally};
use nyala_storage::object::{OpenedStore, Reader, Version};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};

/// Bytes that are read at a time: small enough for the blocks of a few files to fit into the queue of writes.
const READ_BYTES: u64 = 4 << 20;

/// A file that can be read into the cache, or removed from it.
#[derive(Debug)]
pub struct CachedFile {
    store: OpenedStore,
    meta: ObjectMeta,
    version: Version,
}

impl CachedFile {
    pub(super) fn of_table(store: &OpenedStore, meta: ObjectMeta, version: Version) -> Self {
        Self { store: store.clone(), meta, version }
    }

    /// A file of a cuboid, in the folder of its segment.
    pub fn of_cuboid(data: &OpenedStore, folder: &str, file: &CuboidFile) -> Self {
        let location = Path::from(format!("{folder}{}", file.name));
        let meta = ObjectMeta {
            location,
            last_modified: Default::default(),
            size: file.bytes,
            e_tag: None,
            version: None,
        };
        Self { store: data.clone(), meta, version: Version::Constant }
    }

    /// Whether the file is in a remote store.
    pub fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.meta.size
    }

    /// Digest of the file in a cache with blocks of this size; none for a local file.
    pub fn id(&self, block_bytes: u64) -> Option<FileId> {
        self.store.file_id(&self.meta, self.version, block_bytes)
    }

    /// Bytes of the file that the cache has.
    pub fn cached_bytes(&self) -> u64 {
        self.store.cached_bytes(&self.meta, self.version)
    }

    /// Reads the file through the cache, no faster than the cache writes its blocks.
    ///
    /// # Errors
    /// The store fails.
    pub async fn read_all(&self, cache: &Arc<BlockCache>, tally: &Arc<Tally>) -> Result<()> {
        let reader = Reader { fill: Fill::Keep, tally: Arc::clone(tally) };
        let file = self.store.file(&self.meta, self.version, &reader);
        for from in (0..self.meta.size).step_by(READ_BYTES as usize) {
            let range: Range<u64> = from..(from + READ_BYTES).min(self.meta.size);
            file.get_range(&self.meta.location, range).await.map_err(DataFusionError::from)?;
            let cache = Arc::clone(cache);
            tokio::task::spawn_blocking(move || cache.flush()).await.map_err(QueryError::internal)?;
        }
        Ok(())
    }
}
