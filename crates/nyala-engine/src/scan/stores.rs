//! The object stores a node reads from, opened when first asked for.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, RwLock};

use datafusion::common::DataFusionError;
use datafusion::execution::object_store::ObjectStoreRegistry;
use nyala_model::config::StorageConfig;
use nyala_storage::object::{Location, open};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::Url;

use crate::error::{ErrorKind, QueryError, Result};

/// Where the node's own files lie, whatever its data folder is called today.
pub(crate) const DATA_STORE: &str = "nyala://data/";

/// Opens each store once and keeps it. Every read of a query goes through here.
pub(crate) struct Stores {
    config: StorageConfig,
    opened: RwLock<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl Stores {
    /// Registers the data folder; everything else is opened on demand.
    pub(crate) fn new(data_dir: &Path, config: StorageConfig) -> Result<Self> {
        let data = LocalFileSystem::new_with_prefix(data_dir).map_err(|error| {
            QueryError::new(
                ErrorKind::Unreadable,
                format!("cannot use data folder `{}`: {error}", data_dir.display()),
            )
        })?;
        let opened = HashMap::from([("nyala://data".to_owned(), Arc::new(data) as _)]);
        Ok(Self { config, opened: RwLock::new(opened) })
    }

    /// The storage configuration, for checking locations before they are used.
    pub(crate) fn config(&self) -> &StorageConfig {
        &self.config
    }

    /// The node's own folder.
    pub(crate) fn data(&self) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
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

    /// Stores are opened without I/O, so the lock is never held across a wait.
    fn get_store(&self, url: &Url) -> datafusion::error::Result<Arc<dyn ObjectStore>> {
        let key = key(url);
        let poisoned = || QueryError::internal("the registry of stores was left half-changed");
        if let Some(store) = self.opened.read().map_err(|_| poisoned())?.get(&key) {
            return Ok(Arc::clone(store));
        }
        let anywhere = StorageConfig { allowed_locations: Vec::new(), ..self.config.clone() };
        let location = Location::parse(url.as_str()).map_err(QueryError::from)?;
        let store = open(&location, &anywhere).map_err(QueryError::from)?;
        self.opened.write().map_err(|_| poisoned())?.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}
