//! Files that no segment owns, where several nodes build: one of them at a time looks for them.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use nyala_cube::cube::build::{Leftovers, RETIREMENT, leftovers, remove_all};
use nyala_model::SnapshotVersion;
use nyala_sql::error::Result;

use super::lease::lease_name;
use crate::query::engine::Engine;

/// Pause between two searches. The first search comes after one pause, so that nodes that start do not all list the bucket.
const PAUSE: Duration = Duration::from_secs(3600);
const LEASE: &str = "leftovers";

/// Looks for leftovers at intervals, for as long as the engine is there.
pub async fn collect(engine: Weak<Engine>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(engine) = engine.upgrade() else { return };
        if let Err(error) = engine.collect_leftovers(RETIREMENT).await {
            tracing::warn!(%error, "files that no segment needs are left for now");
        }
    }
}

impl Engine {
    /// Deletes files that no segment owned both now and after `pause`, unless a statement may still read them. Does nothing
    /// while another node looks for such files.
    ///
    /// # Errors
    /// The catalog or the store of cuboids does not answer.
    pub async fn collect_leftovers(&self, pause: Duration) -> Result<()> {
        let Some(lease) = self.catalog().take_lease(LEASE, &self.node).await? else { return Ok(()) };
        let (_, before) = look(self).await?;
        if before.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
        let (version, mut after) = look(self).await?;
        after.retain(|folder, names| match (before.get(folder), names) {
            (Some(None), None) => true,
            (Some(Some(before)), Some(names)) => {
                names.retain(|name| before.contains(name));
                !names.is_empty()
            }
            _ => false,
        });
        self.segment_home(None).readers.gone(version).await;
        if lease.is_held() && !after.is_empty() {
            tracing::info!(folders = after.len(), "files that no segment needs are deleted");
            remove_all(self.snapshots.stores().segments(), &after).await;
        }
        Ok(())
    }
}

/// The leftovers, and the version of the catalog that does not know them.
///
/// A job that adds a cuboid to a ready segment writes the cuboid's files long before it records them: segments of cubes that
/// some job is changing have no leftovers. The leases are read before the catalog, so that a job that has given its
/// lease back by then has recorded its files in what is read next.
async fn look(engine: &Engine) -> Result<(SnapshotVersion, Leftovers)> {
    let leases = engine.catalog().leases().await?;
    let held: BTreeSet<String> = leases.into_iter().map(|lease| lease.name).collect();
    let snapshot = engine.catalog().refresh().await?;
    let mut found = leftovers(&snapshot, engine.snapshots.stores().segments()).await?;
    for cube in snapshot.cubes.values().filter(|cube| held.contains(&lease_name(cube.id))) {
        for segment in &cube.segments {
            found.remove(&segment.location);
        }
    }
    Ok((snapshot.version, found))
}
