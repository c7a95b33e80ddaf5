//! Reads of files of one store, for one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::catalog::Session;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use nyala_sql::error::Result;
use nyala_storage::object::cache::{Fill, Tally};
use nyala_storage::object::{OpenedStore, Reader, Version};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::cached_file::CachedFile;
use super::external::{DeltaColumns, DeltaTable, FileLists, Found, Layout};

/// Extension of a session's configuration: the statement is a build or a COPY, and blocks that it fetches are not cached.
#[derive(Debug)]
pub struct ReadOnce;

/// Reads files of one store. As an extension of a session's configuration, it reads the files of segments.
#[derive(Debug, Clone)]
pub struct FileReads {
    store: OpenedStore,
    lists: Arc<FileLists>,
    fill: Fill,
    version: Version,
    /// Counts bytes that are read of the table.
    table: Arc<Tally>,
}

impl FileReads {
    /// Files of a table.
    pub fn new(store: OpenedStore, lists: Arc<FileLists>, table: Arc<Tally>) -> Self {
        Self { store, lists, fill: Fill::Keep, version: Version::AsListed, table }
    }

    /// Files of a local store.
    pub fn of_store(store: Arc<dyn ObjectStore>) -> Self {
        Self::new(OpenedStore::local(store), FileLists::new(Duration::ZERO), Arc::default())
    }

    /// The same reads for a session, which may ask to cache nothing.
    #[must_use]
    pub fn for_session(&self, state: &dyn Session) -> Self {
        let once = state.config().get_extension::<ReadOnce>().is_some();
        Self { fill: if once { Fill::Never } else { Fill::Keep }, ..self.clone() }
    }

    /// The same reads, of files that never change.
    #[must_use]
    pub fn of_constant_files(self) -> Self {
        Self { version: Version::Constant, ..self }
    }

    /// The store, as it was opened.
    pub fn opened(&self) -> &OpenedStore {
        &self.store
    }

    /// The store, for everything but reads.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        self.store.store()
    }

    /// The data files of a layout. The list of a remote store may be a short time old, unless it is asked `anew`.
    pub async fn list(&self, layout: &Layout, anew: bool) -> Result<Arc<Vec<Found>>> {
        match self.store.url() {
            Some(url) => self.lists.get((url, self.store()), layout, anew).await,
            None => self.lists.ask_store(("", self.store()), layout).await,
        }
    }

    /// The columns of a Delta table, in the version that was listed last.
    pub async fn delta_columns(&self, table: &DeltaTable) -> Result<DeltaColumns> {
        let store = (self.store.url().unwrap_or_default(), self.store());
        Ok(self.lists.logs().last(store, table).await?.columns.clone())
    }

    /// A file as the cache knows it.
    pub fn cached(&self, file: &ObjectMeta) -> CachedFile {
        CachedFile::of_table(&self.store, file.clone(), self.version)
    }

    /// The name of a version of a file in caches of footers and statistics. Other stores may have files with its path, and
    /// time and size do not tell two versions of a second apart.
    pub fn key(&self, file: &ObjectMeta) -> Path {
        match self.store.url() {
            Some(url) => {
                let tag = file.e_tag.as_deref().unwrap_or_default();
                Path::from(format!("{url}/{}/{tag}", file.location))
            }
            None => file.location.clone(),
        }
    }

    /// A store that reads this version of one file.
    pub fn file(&self, file: &ObjectMeta) -> Arc<dyn ObjectStore> {
        let reader = Reader { fill: self.fill, tally: Arc::clone(&self.table) };
        self.store.file(file, self.version, &reader)
    }

    /// A store that reads this version of one file, and metrics of the plan for these reads.
    pub fn measured(
        &self,
        file: &ObjectMeta,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> (Arc<dyn ObjectStore>, Option<ReadMetrics>) {
        if !self.store.is_remote() {
            return (Arc::clone(self.store.store()), None);
        }
        let counts = ReadMetrics::new(metrics, partition, Arc::clone(&self.table));
        let reader = Reader { fill: self.fill, tally: Arc::clone(&counts.tally) };
        (self.store.file(file, self.version, &reader), Some(counts))
    }
}

/// Where the bytes of a reader came from, as metrics of its plan. They are added when the reader ends.
#[derive(Debug)]
pub struct ReadMetrics {
    tally: Arc<Tally>,
    table: Arc<Tally>,
    memory: Count,
    disk: Count,
    store: Count,
}

impl ReadMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, table: Arc<Tally>) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            tally: Arc::default(),
            table,
            memory: count("bytes_from_memory"),
            disk: count("bytes_from_disk"),
            store: count("bytes_from_store"),
        }
    }
}

impl Drop for ReadMetrics {
    fn drop(&mut self) {
        self.table.add(&self.tally);
        let add = |to: &Count, from: &AtomicU64| {
            to.add(usize::try_from(from.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
        };
        add(&self.memory, &self.tally.memory_bytes);
        add(&self.disk, &self.tally.disk_bytes);
        add(&self.store, &self.tally.store_bytes);
    }
}
