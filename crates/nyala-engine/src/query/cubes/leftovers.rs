//! Files that no segment owns, where several nodes build: one of them at a time looks for them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nyala_cube::cube::build::{Leftovers, RETIREMENT, leftovers, remove_all};
use nyala_model::SnapshotVersion;
use nyala_sql::error::Result;

use crate::query::engine::Engine;

/// Between two looks. The first comes after one pause, so that nodes that start do not all list the bucket.
const PAUSE: Duration = Duration::from_secs(3600);
const LEASE: &str = "leftovers";

/// Looks for leftovers at intervals, for as long as the engine is there.
pub async fn collect(engine: Weak<Engine>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(engine) = engine.upgrade() else { return };
        if let Err(error) = collect_once(&engine).await {
            tracing::warn!(%error, "files that no segment needs are left for now");
        }
    }
}

/// Deletes what was left over both now and a while ago: a file that is on its way into a segment, or read by a statement
/// of before, is left over for a moment only.
async fn collect_once(engine: &Arc<Engine>) -> Result<()> {
    let Some(lease) = engine.catalog().take_lease(LEASE, &engine.node).await? else { return Ok(()) };
    let (_, before) = look(engine).await?;
    if before.is_empty() {
        return Ok(());
    }
    tokio::time::sleep(RETIREMENT).await;
    let (version, mut after) = look(engine).await?;
    after.retain(|folder, names| match (before.get(folder), names) {
        (Some(None), None) => true,
        (Some(Some(before)), Some(names)) => {
            names.retain(|name| before.contains(name));
            !names.is_empty()
        }
        _ => false,
    });
    engine.segment_home(None).readers.gone(version).await;
    if lease.is_held() && !after.is_empty() {
        tracing::info!(folders = after.len(), "files that no segment needs are deleted");
        remove_all(engine.snapshots.stores().segments(), &after).await;
    }
    Ok(())
}

/// The leftovers, and the version of the catalog that does not know them.
async fn look(engine: &Engine) -> Result<(SnapshotVersion, Leftovers)> {
    let store = engine.snapshots.stores().segments();
    let snapshot = engine.catalog().refresh().await?;
    Ok((snapshot.version, leftovers(&snapshot, store).await?))
}
