//! Files that nobody needs any more: of builds that came to nothing, and of what was replaced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nyala_catalog::Catalog;
use nyala_model::{CuboidEntry, SegmentState};
use nyala_storage::data_dir::{folders_below, remove_folder};

use super::background::Background;
use crate::error::{ErrorKind, QueryError, Result};

/// Queries that began before something was replaced may read it for this much longer.
const RETIREMENT: Duration = Duration::from_secs(300);

/// Whether every file of a cuboid is there with the size that was recorded.
pub(super) fn is_whole(folder: &Path, cuboid: &CuboidEntry) -> bool {
    cuboid
        .files
        .iter()
        .all(|file| std::fs::metadata(folder.join(&file.name)).is_ok_and(|found| found.len() == file.bytes))
}

/// Deletes what lies in the folder of a segment and belongs to none of its cuboids.
pub(super) fn remove_unfinished(folder: &Path, whole: &[CuboidEntry]) {
    let finished: BTreeSet<&str> =
        whole.iter().flat_map(|cuboid| &cuboid.files).map(|file| file.name.as_str()).collect();
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let keep = file.file_name().to_str().is_some_and(|name| finished.contains(name));
        if !keep {
            remove_file(&file.path());
        }
    }
}

/// At start: deletes files that no segment of the catalog owns. Segments whose build died with its process
/// stay, so that the build can go on.
pub(crate) fn remove_leftovers(catalog: &Catalog, data_dir: &Path) -> Result<()> {
    let snapshot = catalog.snapshot();
    let owned: BTreeSet<PathBuf> =
        snapshot.cubes.values().flat_map(|cube| &cube.segments).map(|s| data_dir.join(&s.location)).collect();
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot tidy `{}`: {error}", data_dir.display());
        QueryError::new(ErrorKind::Unreadable, message)
    };
    for folder in folders_below(&data_dir.join("cubes")).map_err(unreadable)? {
        // Joining and collecting paths takes away the slash at their end.
        if !owned.iter().any(|segment| segment.components().eq(folder.components())) {
            remove(&folder);
        }
    }
    // Cuboids may have been replaced or dropped, or been on their way into a segment that was ready.
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    for segment in segments.filter(|segment| segment.state == SegmentState::Ready) {
        remove_unfinished(&data_dir.join(&segment.location), &segment.cuboids);
    }
    Ok(())
}

/// Deletes a folder once no query can be reading it. Should the process end before, the next one does.
pub(crate) fn retire(folder: PathBuf, background: &Background) {
    background.later(RETIREMENT, move || remove(&folder));
}

/// Deletes files once no query can be reading them.
pub(crate) fn retire_files(folder: PathBuf, cuboids: &[CuboidEntry], background: &Background) {
    let names: Vec<String> = cuboids.iter().flat_map(|c| &c.files).map(|file| file.name.clone()).collect();
    if names.is_empty() {
        return;
    }
    background.later(RETIREMENT, move || {
        for name in names {
            remove_file(&folder.join(name));
        }
    });
}

pub(super) fn remove_file(file: &Path) {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(file = %file.display(), %error, "cannot delete a file that nobody needs");
        }
        _ => {}
    }
}

/// Goes by folder and not by the store's list, which does not show files that are half-written.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = remove_folder(folder) {
        tracing::warn!(folder = %folder.display(), %error, "cannot delete the files of an old segment");
    }
}
