//! Files on the disk before the catalog names them.
//!
//! A commit of the catalog survives a power cut. A file that the operating system has not written by then is
//! empty or gone afterwards, and every query over its segment would fail until the segment is built again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::common::DataFusionError;
use nyala_model::CuboidEntry;
use nyala_sql::error::{QueryError, Result};

/// Folders on the path of a file: its segment's, its cube's, the folder of all cubes, and the data folder.
const FOLDERS: usize = 4;

/// Waits until the files of these cuboids, which lie in `folder`, are on the disk, and so are their names.
pub async fn make_durable(folder: PathBuf, cuboids: &[CuboidEntry]) -> Result<()> {
    let files: Vec<PathBuf> =
        cuboids.iter().flat_map(|cuboid| &cuboid.files).map(|file| folder.join(&file.name)).collect();
    if files.is_empty() {
        return Ok(());
    }
    let work =
        move || files.iter().map(PathBuf::as_path).chain(folder.ancestors().take(FOLDERS)).try_for_each(sync);
    let synced = tokio::task::spawn_blocking(work).await.map_err(QueryError::internal)?;
    synced.map_err(|error| DataFusionError::IoError(error).into())
}

/// Syncs a file or a folder; folders are opened like files.
fn sync(path: &Path) -> io::Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot bring `{}` to the disk: {error}", path.display()))
    })
}
