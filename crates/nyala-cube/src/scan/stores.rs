//! The object stores a node reads from, opened when first asked for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use datafusion::execution::object_store::ObjectStoreRegistry;
use nyala_model::config::StorageConfig;
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::{QueryError, Result};
use nyala_storage::SegmentStore;
use nyala_storage::object::cache::{BlockCache, Tally};
use nyala_storage::object::{AllowedLocation, Location, LocationRules, OpenedStore, OwnPaths};
use object_store::ObjectStore;
use url::Url;

use super::external::FileLists;
use super::file_reads::FileReads;

/// URL of the files of segments, wherever they lie.
pub const DATA_STORE: &str = "nyala://data/";

/// Opens each store once and keeps it. Every read of a query goes through here, and only to stores of locations that were
/// checked.
pub struct Stores {
    data_dir: PathBuf,
    segments: SegmentStore,
    config: StorageConfig,
    rules: Arc<LocationRules>,
    cache: Option<Arc<BlockCache>>,
    lists: Arc<FileLists>,
    opened: RwLock<HashMap<String, OpenedStore>>,
    /// Bytes read of each table, by the table's name.
    tallies: Mutex<BTreeMap<String, Arc<Tally>>>,
}

impl Stores {
    /// Registers the data folder; everything else is opened on demand. `own_files` are files of the server that lie
    /// elsewhere. Remote files are read through `cache`, and lists of them are used for `lists_valid_for`.
    pub fn new(
        data_dir: &Path,
        config: StorageConfig,
        own_files: Vec<PathBuf>,
        cache: Option<Arc<BlockCache>>,
        lists_valid_for: Duration,
    ) -> Result<Self> {
        let segments = SegmentStore::open(data_dir, &config, cache.as_ref())?;
        let opened = HashMap::from([("nyala://data".to_owned(), segments.opened().clone())]);
        let mut own = OwnPaths::new(data_dir, own_files);
        if let Some(cache) = &cache {
            own = own.with_folder(cache.options().folder.clone());
        }
        let rules = Arc::new(LocationRules::new(&config, own));
        let (opened, tallies) = (RwLock::new(opened), Mutex::default());
        let lists = FileLists::new(lists_valid_for);
        Ok(Self { data_dir: data_dir.to_owned(), segments, config, rules, cache, lists, opened, tallies })
    }

    /// Protects the folders of these disk stores from now on as the server's own.
    pub fn know_disk_stores(&self, snapshot: &CatalogSnapshot) {
        let folders = snapshot.disk_stores.values().map(|store| self.data_dir.join(&store.folder));
        self.rules.own().set_stores(folders);
    }

    /// Checks a location of files that are to be read.
    pub fn check(&self, location: &str) -> Result<AllowedLocation> {
        Ok(self.rules.check(Location::parse(location)?)?)
    }

    /// Checks the location of a file that is to be written.
    pub fn check_target(&self, location: &str) -> Result<AllowedLocation> {
        Ok(self.rules.check_target(Location::parse(location)?)?)
    }

    /// Checks the folder of a disk store.
    pub fn check_store(&self, folder: &str) -> Result<AllowedLocation> {
        Ok(self.rules.check_store(Location::parse(folder)?.into_folder())?)
    }

    /// The store of a location, which is found by its URL from now on.
    pub fn open(&self, location: &AllowedLocation) -> Result<OpenedStore> {
        let key = key(location.url());
        if let Some(store) = self.find(&key)? {
            return Ok(store);
        }
        // Stores are opened without I/O, so the lock is never held across a wait.
        let store = self.rules.open(location, &self.config, self.cache.as_ref())?;
        Ok(self.opened.write().map_err(|_| poisoned())?.entry(key).or_insert(store).clone())
    }

    fn find(&self, key: &str) -> Result<Option<OpenedStore>> {
        Ok(self.opened.read().map_err(|_| poisoned())?.get(key).cloned())
    }

    /// The cache of remote files.
    pub fn cache(&self) -> Option<&Arc<BlockCache>> {
        self.cache.as_ref()
    }

    /// The stores that were opened, by their URLs.
    pub fn opened(&self) -> Result<Vec<(String, OpenedStore)>> {
        let opened = self.opened.read().map_err(|_| poisoned())?;
        Ok(opened.iter().map(|(url, store)| (url.clone(), store.clone())).collect())
    }

    /// Reads of the files of a table.
    pub(in crate::scan) fn reads(
        &self,
        location: &AllowedLocation,
        table: &QualifiedName,
    ) -> Result<FileReads> {
        Ok(FileReads::new(self.open(location)?, Arc::clone(&self.lists), self.tally(table)))
    }

    /// Makes the next request for a list ask the store, after files were written or found to have changed.
    pub fn forget_lists(&self) {
        self.lists.forget();
    }

    /// Whether some store is remote.
    pub fn has_remote(&self) -> Result<bool> {
        Ok(self.opened.read().map_err(|_| poisoned())?.values().any(OpenedStore::is_remote))
    }

    /// Counts bytes that are read of a table.
    pub fn tally(&self, table: &QualifiedName) -> Arc<Tally> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        // All files that statements name by their locations count as one table.
        let name = if table.schema.is_empty() { "files".to_owned() } else { table.to_string() };
        Arc::clone(tallies.entry(name).or_default())
    }

    /// Bytes read of all tables, since the start of the process.
    pub fn all_reads(&self) -> Tally {
        let all = Tally::default();
        self.tallies().iter().for_each(|(_, tally)| all.add(tally));
        all
    }

    /// Bytes read of each table, since the start of the process.
    pub fn tallies(&self) -> Vec<(String, Arc<Tally>)> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.iter().map(|(table, tally)| (table.clone(), Arc::clone(tally))).collect()
    }

    /// Where the files of segments lie.
    pub fn segments(&self) -> &SegmentStore {
        &self.segments
    }

    /// Reads of the files of segments.
    pub fn segment_reads(&self) -> FileReads {
        let tally = self.tally(&QualifiedName::new("system", "cuboids"));
        FileReads::new(self.segments.opened().clone(), Arc::clone(&self.lists), tally).of_constant_files()
    }
}

fn key(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        let before = self.opened.write().ok()?.insert(key(url), OpenedStore::local(store));
        before.map(|before| Arc::clone(before.store()))
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        let store = self.find(&key(url))?;
        let unchecked = || QueryError::internal(format!("the store of `{}` was not opened", key(url)));
        Ok(Arc::clone(store.ok_or_else(unchecked)?.store()))
    }
}

fn poisoned() -> QueryError {
    QueryError::internal("the registry of stores was left half-changed")
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
