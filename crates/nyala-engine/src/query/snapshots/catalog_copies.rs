//! Copies of the catalog, made in the background soon after it has changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nyala_catalog::{Catalog, backups};
use nyala_model::SnapshotVersion;
use nyala_model::config::CatalogConfig;
use nyala_storage::data_dir::CATALOG_BACKUPS;
use tokio::sync::Mutex;

/// Changes within this time go into one copy.
const TOGETHER: Duration = Duration::from_secs(1);

/// The copies of one data folder.
#[derive(Debug)]
pub struct CatalogCopies {
    folder: PathBuf,
    keep: usize,
    every: Duration,
    /// A version that the newest copy includes. Locked while a copy is made.
    copied: Mutex<Option<SnapshotVersion>>,
}

impl CatalogCopies {
    pub fn new(config: &CatalogConfig, data_dir: &Path) -> Self {
        let folder = data_dir.join(CATALOG_BACKUPS);
        // An unreadable folder is reported when a copy is made.
        let newest = backups::list(&folder).ok().and_then(|found| found.first().map(|copy| copy.version));
        let every = Duration::from_millis(config.backup_every_ms);
        Self { folder, keep: config.backups, every, copied: Mutex::new(newest) }
    }

    /// Makes a copy, unless the newest is of this version.
    pub async fn refresh(&self, catalog: &Catalog) {
        let mut copied = self.copied.lock().await;
        if self.keep == 0 || *copied == Some(catalog.snapshot().version) {
            return;
        }
        match backups::make(catalog, &self.folder, self.keep).await {
            Ok(copy) => *copied = Some(copy.version),
            Err(error) => {
                tracing::warn!(folder = %self.folder.display(), %error, "the catalog is not copied");
            }
        }
    }

    /// Makes a copy soon after each change, if copies are kept at all.
    pub async fn keep_up(&self, catalog: &Catalog) {
        if self.keep == 0 {
            return;
        }
        let mut versions = catalog.watch();
        loop {
            tokio::time::sleep(TOGETHER).await;
            versions.mark_unchanged();
            self.refresh(catalog).await;
            tokio::time::sleep(self.every.saturating_sub(TOGETHER)).await;
            if versions.changed().await.is_err() {
                return;
            }
        }
    }
}
