//! The object stores a node reads from, opened when first asked for.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreRegistry;
use nyala_model::CatalogSnapshot;
use nyala_model::config::StorageConfig;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::{AllowedLocation, Location, LocationRules, OwnPaths};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::Url;

/// URL of the node's own files, independent of the path of its data folder.
pub const DATA_STORE: &str = "nyala://data/";

/// Opens each store once and keeps it. Every read of a query goes through here, and only to stores of locations that were
/// checked.
pub struct Stores {
    data_dir: PathBuf,
    config: StorageConfig,
    rules: Arc<LocationRules>,
    opened: RwLock<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl Stores {
    /// Registers the data folder; everything else is opened on demand. `own_files` are files of the server that lie
    /// elsewhere.
    pub fn new(data_dir: &Path, config: StorageConfig, own_files: Vec<PathBuf>) -> Result<Self> {
        let data = LocalFileSystem::new_with_prefix(data_dir).map_err(|error| {
            QueryError::new(
                ErrorKind::Unreadable,
                format!("cannot use data folder `{}`: {error}", data_dir.display()),
            )
        })?;
        let opened = HashMap::from([("nyala://data".to_owned(), Arc::new(data) as _)]);
        let rules = Arc::new(LocationRules::new(&config, OwnPaths::new(data_dir, own_files)));
        Ok(Self { data_dir: data_dir.to_owned(), config, rules, opened: RwLock::new(opened) })
    }

    /// From now on the folders of these disk stores are the server's own.
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

    /// Has the store of a location be found from now on.
    pub fn open(&self, location: &AllowedLocation) -> Result<()> {
        let key = key(location.url());
        if self.find(&key)?.is_none() {
            // Stores are opened without I/O, so the lock is never held across a wait.
            let store = self.rules.open(location, &self.config)?;
            self.opened.write().map_err(|_| poisoned())?.insert(key, store);
        }
        Ok(())
    }

    fn find(&self, key: &str) -> Result<Option<Arc<dyn ObjectStore>>> {
        Ok(self.opened.read().map_err(|_| poisoned())?.get(key).cloned())
    }

    /// The node's own folder.
    pub fn data(&self) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        let url = Url::parse(DATA_STORE).map_err(|e| DataFusionError::External(Box::new(e)))?;
        self.get_store(&url)
    }
}

fn key(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.opened.write().ok()?.insert(key(url), store)
    }

    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        let store = self.find(&key(url))?;
        let unchecked = || QueryError::internal(format!("the store of `{}` was not opened", key(url)));
        Ok(store.ok_or_else(unchecked)?)
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
