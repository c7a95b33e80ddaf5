//! A store that was opened, and reads of its files.

use std::ops::Range;
use std::sync::Arc;

use object_store::{ObjectMeta, ObjectStore};

use super::cache::{BlockCache, FileId, Fill, RemoteFile, Tally};
use super::counted::{CountedStore, StoreCounts};
use super::versioned_file::{Reads, VersionedFile};
use super::{Location, StoreKind, Version};

/// A local or remote store. Clones are the same store.
#[derive(Debug, Clone)]
pub struct OpenedStore {
    store: Arc<dyn ObjectStore>,
    remote: Option<Arc<Remote>>,
}

/// Parts of a store that only remote stores have.
#[derive(Debug)]
struct Remote {
    url: String,
    cache: Option<Arc<BlockCache>>,
    /// URLs under which nothing is cached.
    excluded: Vec<String>,
    counts: Arc<StoreCounts>,
}

/// How a statement reads files.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Whether blocks that the statement fetches are kept.
    pub fill: Fill,
    /// Counts the bytes that the statement reads.
    pub tally: Arc<Tally>,
}

impl OpenedStore {
    /// The file system of this machine: its files are read as they are.
    pub fn local(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, remote: None }
    }

    /// A remote store. Files under `excluded` URLs are not cached.
    pub fn remote(
        url: String,
        (kind, store): (StoreKind, Arc<dyn ObjectStore>),
        cache: Option<Arc<BlockCache>>,
        excluded: Vec<String>,
    ) -> Self {
        let counts = Arc::<StoreCounts>::default();
        let store = Arc::new(CountedStore::new(store, kind, Arc::clone(&counts)));
        Self { store, remote: Some(Arc::new(Remote { url, cache, excluded, counts })) }
    }

    /// The store, for everything but reads of files.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Requests since the start of the process; none for the file system.
    pub fn counts(&self) -> Option<&StoreCounts> {
        self.remote.as_ref().map(|remote| remote.counts.as_ref())
    }

    /// The store's URL without a path; none for the file system.
    pub fn url(&self) -> Option<&str> {
        self.remote.as_ref().map(|remote| remote.url.as_str())
    }

    /// Whether the store is remote.
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The digest of a version of a file in a cache with blocks of this size; none for the file system.
    pub fn file_id(&self, meta: &ObjectMeta, version: Version, block_bytes: u64) -> Option<FileId> {
        Some(RemoteFile::id_of(self.url()?, meta, version, block_bytes))
    }

    /// Bytes of a version of a file that the cache has.
    pub fn cached_bytes(&self, meta: &ObjectMeta, version: Version) -> u64 {
        let Some(remote) = &self.remote else { return 0 };
        remote.cached(meta, version, &self.store).map_or(0, |(cache, file)| cache.kept_bytes(&file))
    }

    /// A store that reads one file, in one version.
    pub fn file(&self, meta: &ObjectMeta, version: Version, reader: &Reader) -> Arc<dyn ObjectStore> {
        let Some(remote) = &self.remote else { return Arc::clone(&self.store) };
        let reads = match remote.cached(meta, version, &self.store) {
            Some((cache, file)) => Reads::Cached(cache, Arc::new(file)),
            None => Reads::Direct(Arc::clone(&self.store)),
        };
        Arc::new(VersionedFile::new(meta.clone(), version, reads, reader.clone()))
    }
}

impl Remote {
    /// The cache and a file that is read through it.
    fn cached(
        &self,
        meta: &ObjectMeta,
        version: Version,
        store: &Arc<dyn ObjectStore>,
    ) -> Option<(Arc<BlockCache>, RemoteFile)> {
        let cache = self.cache.as_ref().filter(|_| !self.excludes(meta))?;
        let store = (self.url.as_str(), Arc::clone(store));
        let file = RemoteFile::new(store, meta.clone(), version, cache.block_bytes());
        Some((Arc::clone(cache), file))
    }

    fn excludes(&self, meta: &ObjectMeta) -> bool {
        let url = format!("{}/{}", self.url, meta.location);
        self.excluded.iter().any(|prefix| url.starts_with(prefix))
    }
}

/// The URL of the store of a location, without a path.
pub fn store_url(location: &Location) -> String {
    let url = location.url();
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

/// The URL of a remote folder without the slash at its end, in one spelling.
pub fn url_of(location: &Location) -> String {
    let url = format!("{}/{}", store_url(location), location.path());
    url.trim_end_matches('/').to_owned()
}

/// Parts of `range` of at most `bytes` each.
pub(super) fn parts(range: Range<u64>, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    (range.start..end)
        .step_by(usize::try_from(bytes).unwrap_or(usize::MAX))
        .map(move |from| from..from.saturating_add(bytes).min(end))
}
