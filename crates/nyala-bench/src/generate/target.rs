//! Where the files go.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use nyala_model::config::StorageConfig;
use nyala_storage::object::{AllowedLocation, Location, LocationRules, OwnPaths, refusal};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

/// A folder in an object store (a local disk is one, too) that gets one folder for each table.
#[derive(Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    location: AllowedLocation,
}

impl Target {
    /// Opens the location `out`. Nothing is read or written yet.
    pub fn open(out: &str, storage: &StorageConfig) -> anyhow::Result<Self> {
        let rules = Arc::new(LocationRules::new(storage, OwnPaths::none()));
        let location = rules.check(Location::parse(out)?.into_folder())?;
        let store = Arc::clone(rules.open(&location, storage, None)?.store());
        Ok(Self { store, location })
    }

    /// The store that holds the folder.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// URL of a table's folder, with a slash at the end.
    pub fn table_url(&self, table: &str) -> String {
        format!("{}/{table}/", self.location.url().as_str().trim_end_matches('/'))
    }

    /// Path of a table's file number `number` in the store.
    pub fn file(&self, table: &str, number: usize) -> Path {
        self.folder(table).join(format!("{table}-{number}.parquet"))
    }

    fn folder(&self, table: &str) -> Path {
        self.location.path().clone().join(table)
    }

    /// Makes sure that the tables' folders hold no Parquet file. All are looked at before the first
    /// file is removed, so that an error has changed nothing.
    ///
    /// With `overwrite` Parquet files are removed and other files left alone; without it a folder
    /// that holds anything is an error that names it.
    pub async fn prepare(&self, tables: &[&str], overwrite: bool) -> anyhow::Result<()> {
        let mut stale = Vec::new();
        for table in tables {
            let files = self.files(table).await?;
            if !files.is_empty() && !overwrite {
                bail!(
                    "folder `{}` is not empty; choose another location or replace its Parquet files with \
                     `--overwrite`",
                    self.table_url(table)
                );
            }
            stale.extend(files.into_iter().filter(|file| file.extension() == Some("parquet")));
        }
        for file in stale {
            self.store.delete(&file).await.with_context(|| format!("cannot remove `{file}`"))?;
        }
        Ok(())
    }

    async fn files(&self, table: &str) -> anyhow::Result<Vec<Path>> {
        let objects = self.store.list(Some(&self.folder(table)));
        objects
            .map(|object| object.map(|object| object.location))
            .try_collect()
            .await
            .map_err(|error| refusal(&error).map_or_else(|| error.into(), anyhow::Error::from))
            .with_context(|| format!("cannot list `{}`", self.table_url(table)))
    }
}
