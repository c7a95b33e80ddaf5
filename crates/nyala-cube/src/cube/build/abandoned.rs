//! Segments whose build ended before they were whole, and their removal.

use std::time::Duration;

use nyala_catalog::{CatalogError, Change};
use nyala_model::{QualifiedName, SegmentId, SegmentState};
use nyala_sql::error::Result;

use super::segment_home::SegmentHome;

/// A file operation that was under way when its task was stopped still ends, and may put its file in
/// place after the folder was deleted; so deletion waits this long, and is done twice.
pub const STRAGGLERS: Duration = Duration::from_millis(500);

/// Drops an abandoned segment from the catalog, and then deletes its files. If the drop fails, the segment is left to the next
/// build, maybe on another node that has the lease by now.
pub fn give_back(home: &SegmentHome, id: SegmentId, folder: &str) {
    let (home, folder) = (home.clone(), folder.to_owned());
    home.background.abandon(id);
    let background = home.background.clone();
    background.finish(async move {
        tokio::time::sleep(STRAGGLERS).await;
        match home.commit(Change::DropUnfinished { segment: id }).await {
            Ok(_) => {
                for _ in 0..2 {
                    home.store.remove(&folder).await;
                    tokio::time::sleep(STRAGGLERS).await;
                }
            }
            // Another build has the lease, the segment has been dropped already, or it became visible.
            Err(
                CatalogError::LeaseLost { .. }
                | CatalogError::SegmentReady { .. }
                | CatalogError::NotFound { what: "segment", .. },
            ) => {}
            Err(error) => {
                tracing::warn!(segment = id.0, %error, "an abandoned segment stays in the catalog until the next build");
            }
        }
        home.background.settle(id);
    });
}

/// Deletes the unfinished segments that other nodes made for a job of this node, which has ended. The catalog refuses what these
/// nodes record in the segments from now on.
pub async fn drop_those_of_others(cube: &QualifiedName, home: &SegmentHome) -> Result<()> {
    home.catalog.refresh().await?;
    let snapshot = home.catalog.snapshot();
    let segments = snapshot.cubes.get(cube).into_iter().flat_map(|cube| &cube.segments);
    let unfinished = segments.filter(|segment| segment.state == SegmentState::Building);
    for segment in unfinished.filter(|segment| segment.node != home.node) {
        match home.commit(Change::DropUnfinished { segment: segment.id }).await {
            Ok(_) => home.store.remove(&segment.location).await,
            Err(CatalogError::SegmentReady { .. } | CatalogError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// On drop, deletes the segments that a build left for its next attempt: it failed for good, or was stopped before.
pub struct LeftSegments {
    /// The cube of the segments.
    pub cube: QualifiedName,
    /// Where segments are recorded and kept.
    pub home: SegmentHome,
}

impl Drop for LeftSegments {
    fn drop(&mut self) {
        let snapshot = self.home.catalog.snapshot();
        let segments = snapshot.cubes.get(&self.cube).into_iter().flat_map(|cube| &cube.segments);
        for segment in segments.filter(|segment| self.home.background.take_up(segment.id)) {
            give_back(&self.home, segment.id, &segment.location);
        }
    }
}
