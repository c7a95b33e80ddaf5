//! Copies of the catalog, made in the background soon after it has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nyala_catalog::{Catalog, backups};
use nyala_model::SnapshotVersion;
use nyala_model::config::CatalogConfig;
use nyala_storage::data_dir::CATALOG_BACKUPS;
use tokio::sync::Mutex;

use super::engine::Engine;

/// Changes within this time go into one copy.
const TOGETHER: Duration = Duration::from_secs(1);

/// The copies of one data folder.
#[derive(Debug)]
pub(super) struct CatalogCopies {
    folder: PathBuf,
    keep: usize,
    every: Duration,
    /// A version that the newest copy includes. Locked while a copy is made.
    copied: Mutex<Option<SnapshotVersion>>,
}

impl CatalogCopies {
    pub(super) fn new(config: &CatalogConfig, data_dir: &Path) -> Self {
        let folder = data_dir.join(CATALOG_BACKUPS);
        // An unreadable folder is reported when a copy is made.
        let newest = backups::list(&folder).ok().and_then(|found| found.first().map(|copy| copy.version));
        let every = Duration::from_millis(config.backup_every_ms);
        Self { folder, keep: config.backups, every, copied: Mutex::new(newest) }
    }

    /// Makes a copy, unless the newest is of this version.
    pub(super) async fn refresh(&self, catalog: &Catalog) {
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
}

/// Makes copies until the engine stops.
pub(super) fn watch(engine: &Arc<Engine>) {
    if engine.catalog_copies.keep > 0 {
        let (weak, catalog) = (Arc::downgrade(engine), Arc::clone(engine.catalog()));
        let every = engine.catalog_copies.every;
        let copying = async move {
            let mut versions = catalog.watch();
            loop {
                tokio::time::sleep(TOGETHER).await;
                let Some(engine) = weak.upgrade() else { return };
                versions.mark_unchanged();
                engine.catalog_copies.refresh(&catalog).await;
                drop(engine);
                tokio::time::sleep(every.saturating_sub(TOGETHER)).await;
                if versions.changed().await.is_err() {
                    return;
                }
            }
        };
        let stopping = engine.stopping.clone();
        engine.threads.execution().spawn(stopping.run_until_cancelled_owned(copying));
    }
}
