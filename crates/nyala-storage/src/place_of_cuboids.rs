//! A note in the data folder of where its cuboids are, so that a changed configuration does not make them look lost.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nyala_model::CatalogSnapshot;

use crate::StorageError;
use crate::object::{Location, url_of};

/// The file, within the data folder. Without it, cuboids are in the data folder.
const NOTE: &str = "cuboids-at";

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join(NOTE)
}

/// A place in the one form in which places are compared; empty for the data folder.
///
/// # Errors
/// The text is no location.
pub fn canonical(place: &str) -> Result<String, StorageError> {
    match place {
        "" => Ok(String::new()),
        place => Ok(url_of(&Location::parse(place)?) + "/"),
    }
}

/// `storage.data` of the cuboids that exist; empty for the data folder.
///
/// # Errors
/// The note cannot be read.
pub fn noted(data_dir: &Path) -> Result<String, StorageError> {
    match std::fs::read_to_string(file(data_dir)) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(StorageError::DataDir { path: file(data_dir), source }),
    }
}

/// Notes that cuboids are there from now on.
///
/// # Errors
/// The note cannot be written.
pub fn note(data_dir: &Path, place: &str) -> io::Result<()> {
    if place.is_empty() {
        return match std::fs::remove_file(file(data_dir)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => std::fs::File::open(data_dir)?.sync_all(),
        };
    }
    let fresh = data_dir.join("cuboids-at.new");
    std::fs::write(&fresh, place)?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, file(data_dir))?;
    std::fs::File::open(data_dir)?.sync_all()
}

/// Checks that cuboids are where the configuration says, or takes its word if there are none.
///
/// # Errors
/// [`StorageError::CuboidsElsewhere`].
pub fn check(data_dir: &Path, configured: &str, snapshot: &CatalogSnapshot) -> Result<(), StorageError> {
    let (noted, configured) = (noted(data_dir)?, canonical(configured)?);
    if noted == configured {
        return Ok(());
    }
    if snapshot.cubes.values().any(|cube| !cube.segments.is_empty()) {
        return Err(StorageError::CuboidsElsewhere { noted, configured });
    }
    note(data_dir, &configured).map_err(|source| StorageError::DataDir { path: file(data_dir), source })
}
