//! Takes segments with a damaged file out of use: a task of the engine records damage that scans find.

use std::sync::Weak;

use nyala_catalog::Change;
use nyala_cube::scan::FoundDamage;
use nyala_model::{CatalogSnapshot, CubeEntry, SegmentDamage, SegmentEntry, SegmentState};
use nyala_sql::error::Result;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::query::snapshots::Snapshots;

/// Records reported damage for as long as statements may begin.
pub async fn record_all(snapshots: Weak<Snapshots>, mut found: UnboundedReceiver<FoundDamage>) {
    while let Some(found) = found.recv().await {
        let Some(snapshots) = snapshots.upgrade() else { return };
        if let Err(error) = record(&snapshots, &found).await {
            tracing::error!(file = found.path, %error, "a segment with a damaged file cannot be taken out of use");
        }
        // The scan may have been given up meanwhile.
        let _ = found.recorded.send(());
    }
}

/// Takes the segment of a damaged file out of use for new statements. Its files stay until another segment replaces it.
async fn record(snapshots: &Snapshots, found: &FoundDamage) -> Result<()> {
    let snapshot = snapshots.catalog().snapshot();
    let Some((cube, segment, file)) = owner(&snapshot, &found.path) else {
        tracing::warn!(
            file = found.path,
            reason = found.reason,
            "a file that was replaced meanwhile is damaged"
        );
        return Ok(());
    };
    if segment.state != SegmentState::Ready {
        return Ok(());
    }
    tracing::error!(
        cube = %cube.name, segment = segment.id.0, file = found.path, reason = found.reason,
        "a cuboid file is damaged; its segment answers nothing until it is built again",
    );
    let damage = SegmentDamage { file: file.to_owned(), reason: found.reason.clone() };
    snapshots.catalog().commit(Change::MarkDamaged { segment: segment.id, damage }).await?;
    snapshots.refresh().await
}

/// The cube and segment of a file, and the file's name within the segment's folder.
fn owner<'a>(
    snapshot: &'a CatalogSnapshot,
    path: &'a str,
) -> Option<(&'a CubeEntry, &'a SegmentEntry, &'a str)> {
    let segments = snapshot.cubes.values().flat_map(|cube| cube.segments.iter().map(move |s| (cube, s)));
    segments.into_iter().find_map(|(cube, segment)| {
        let name = path.strip_prefix(segment.location.as_str())?;
        let listed = segment.cuboids.iter().flat_map(|cuboid| &cuboid.files).any(|file| file.name == name);
        listed.then_some((cube.as_ref(), segment, name))
    })
}
