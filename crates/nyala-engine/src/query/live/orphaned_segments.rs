//! Segments built from rows that their disk store has lost.

use std::sync::Arc;

use nyala_catalog::{CatalogError, Change};
use nyala_cube::live::{OpenStore, OpenedAt};
use nyala_model::{CatalogSnapshot, SegmentEntry, SegmentState};
use nyala_sql::error::Result;

use crate::query::engine::Engine;

/// Drops lost segments. A store restored from a copy is older than segments built since, and gives the LSNs
/// of its lost rows to other rows. Statements use no such segment while this process runs; the next process
/// could not detect it any more.
pub async fn drop_lost_segments(engine: &Arc<Engine>) -> Result<()> {
    let mut dropped = false;
    for store in engine.snapshots.live().all() {
        if store.opened().await.is_err() {
            continue;
        }
        let Some(opened) = store.opened_at() else { continue };
        let snapshot = engine.snapshots.catalog().snapshot();
        for cube in snapshot.cubes.values() {
            let is_built = engine.build_progress().iter().any(|job| job.cube == cube.name);
            let lost = cube.segments.iter().filter(|segment| {
                let given_up = segment.state == SegmentState::Building && !is_built;
                let was_before = segment.state == SegmentState::Ready && segment.built_at_ms <= opened.at_ms;
                (given_up || was_before) && is_lost(segment, &snapshot, (store.as_ref(), opened))
            });
            for segment in lost {
                tracing::warn!(cube = %cube.name, store = %store.name(), "a disk store is older than a segment, which is dropped");
                let home = engine.segment_home(None);
                let after = match home.commit(Change::DropSegment { segment: segment.id }).await {
                    // A build has replaced it.
                    Err(CatalogError::NotFound { .. }) => continue,
                    done => done?.snapshot,
                };
                home.retire(&segment.location, after.version);
                dropped = true;
            }
        }
    }
    if dropped { engine.snapshots.refresh().await } else { Ok(()) }
}

/// Whether a segment was built from rows that the store does not have.
fn is_lost(
    segment: &SegmentEntry,
    snapshot: &CatalogSnapshot,
    (store, opened): (&OpenStore, OpenedAt),
) -> bool {
    segment.sources.iter().any(|source| {
        let table = snapshot.tables.get(&source.table).and_then(|table| table.live());
        let rows = source.live.as_ref().filter(|rows| rows.up_to > opened.lsn);
        table
            .zip(rows)
            .is_some_and(|(table, rows)| table.store == store.name() && table.stored_as == rows.stored_as)
    })
}
