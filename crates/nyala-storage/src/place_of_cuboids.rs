//! A note in the data folder of where its cuboids are, so that a changed configuration does not make them look lost.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nyala_model::CatalogSnapshot;

use crate::StorageError;
use crate::object::{Location, url_of};

/// The name of the note, within the data folder. Without a note, cuboids are in the data folder.
const NOTE: &str = "cuboids-at";

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join(NOTE)
}

/// A place in the form in which places are compared; empty for the data folder.
///
/// # Errors
/// The text is not a location.
pub fn canonical(place: &str) -> Result<String, StorageError> {
    match place {
        "" => Ok(String::new()),
        place => Ok(url_of(&Location::parse(place)?) + "/"),
    }
}

/// The note: the place of cuboids as `storage.data` has it, empty for the data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// The place of the cuboids that exist.
    pub place: String,
    /// The place that a move has left, until its files are deleted there.
    pub left: Option<String>,
}

/// The beginning of the line with a place that a move has left.
const LEFT: &str = "left ";

/// The note of a data folder.
///
/// # Errors
/// The note cannot be read.
pub fn noted(data_dir: &Path) -> Result<Noted, StorageError> {
    match std::fs::read_to_string(file(data_dir)) {
        Ok(text) => {
            let mut lines = text.lines();
            let place = lines.next().unwrap_or_default().trim().to_owned();
            let left = lines.find_map(|line| line.strip_prefix(LEFT));
            Ok(Noted { place, left: left.map(|left| left.trim().to_owned()) })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Noted::default()),
        Err(source) => Err(StorageError::DataDir { path: file(data_dir), source }),
    }
}

/// Notes where cuboids are from now on.
///
/// # Errors
/// The note cannot be written.
pub fn note(data_dir: &Path, noted: &Noted) -> Result<(), StorageError> {
    write(data_dir, noted).map_err(|source| StorageError::DataDir { path: file(data_dir), source })
}

fn write(data_dir: &Path, noted: &Noted) -> io::Result<()> {
    if *noted == Noted::default() {
        return match std::fs::remove_file(file(data_dir)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => std::fs::File::open(data_dir)?.sync_all(),
        };
    }
    let left = noted.left.as_ref().map_or(String::new(), |left| format!("{LEFT}{left}\n"));
    let fresh = data_dir.join("cuboids-at.new");
    std::fs::write(&fresh, format!("{}\n{left}", noted.place))?;
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
    if noted.place == configured {
        return Ok(());
    }
    if snapshot.cubes.values().any(|cube| !cube.segments.is_empty()) {
        return Err(StorageError::CuboidsElsewhere { noted: noted.place, configured });
    }
    let left = noted.left.filter(|left| *left != configured);
    note(data_dir, &Noted { place: configured, left })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let check = |place: &str, left: Option<&str>| {
            let written = Noted { place: place.to_owned(), left: left.map(str::to_owned) };
            note(folder.path(), &written).unwrap();
            assert_eq!(noted(folder.path()).unwrap(), written);
        };
        check("s3://bucket/a/", None);
        check("s3://bucket/a/", Some(""));
        check("", Some("s3://bucket/a/"));
        check("", None);
        assert!(!file(folder.path()).exists());
    }
}
