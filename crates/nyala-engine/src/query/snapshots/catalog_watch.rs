//! The engine follows the catalog: statements see commits of other processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nyala_catalog::Catalog;
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::Result;
use tokio::task::JoinSet;

use super::{FileChecks, Snapshots};

/// How often the catalog is asked whether another process has committed, in case no notice of a commit comes. The answer is one row.
const POLL: Duration = Duration::from_secs(1);

/// Opens each new snapshot of the catalog for statements that begin afterwards, for as long as statements may begin.
pub async fn follow(catalog: Arc<Catalog>, checks: Arc<FileChecks>, snapshots: Weak<Snapshots>) {
    let (mut is_behind, mut listings) = (false, JoinSet::new());
    loop {
        // An error means that no notice came, and that it is time to ask.
        let _ = tokio::time::timeout(POLL, catalog.changed()).await;
        let Some(snapshots) = snapshots.upgrade() else { return };
        while listings.try_join_next().is_some() {}
        let caught_up = catch_up(&snapshots).await;
        // Logged once, and not once a second.
        if let Err(error) = &caught_up
            && !is_behind
        {
            tracing::warn!(%error, "statements may read an old catalog");
        }
        is_behind = caught_up.is_err();
        // Another node may have made segments from files that this node does not know yet.
        let tables = caught_up.unwrap_or_default();
        if catalog.is_shared() && !tables.is_empty() {
            let checks = Arc::clone(&checks);
            // A store that does not answer must not keep statements from the next snapshot.
            listings.spawn(async move {
                snapshots.stores().forget_lists();
                if let Err(error) = checks.check(&snapshots, Some(&tables)).await {
                    tracing::warn!(%error, "cannot list the files of a table that a cube reads");
                }
            });
        }
    }
}

/// Opens the newest snapshot. Returns the tables of cubes that have changed.
async fn catch_up(snapshots: &Snapshots) -> Result<Vec<QualifiedName>> {
    let before = snapshots.current();
    let after = snapshots.catalog().refresh().await?;
    snapshots.refresh().await?;
    Ok(of_changed_cubes(before.snapshot(), &after))
}

/// The tables of cubes that have changed.
fn of_changed_cubes(before: &CatalogSnapshot, after: &CatalogSnapshot) -> Vec<QualifiedName> {
    let is_same =
        |name: &QualifiedName, cube| before.cubes.get(name).is_some_and(|known| Arc::ptr_eq(known, cube));
    let changed = after.cubes.iter().filter(|(name, cube)| !is_same(name, cube));
    let tables: BTreeSet<&QualifiedName> = changed.flat_map(|(_, cube)| &cube.definition.sources).collect();
    tables.into_iter().cloned().collect()
}
