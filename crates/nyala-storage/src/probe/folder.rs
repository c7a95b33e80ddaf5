//! Tries whether a server could write to a folder, and how much room there is.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// A folder in which this process can make files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedFolder {
    /// Whether the folder is missing. Then the other fields describe the nearest folder above it, in which a server makes it.
    pub is_missing: bool,
    /// The user that the folder belongs to, if this process makes files of another user in it.
    pub other_owner: Option<u32>,
    /// Room that is left for the user of this process, in bytes.
    pub free_bytes: u64,
    /// Size of the file system, in bytes.
    pub total_bytes: u64,
}

/// Makes a file in the folder, or in the nearest folder above it that exists, and removes it again.
///
/// # Errors
/// The path leads through a file, or the user may not make files there.
pub fn probe_folder(folder: &Path) -> io::Result<ProbedFolder> {
    let place = nearest(folder)?;
    let file = place.join(format!(".nyala-probe-{}", Uuid::now_v7().simple()));
    let made = File::options().write(true).create_new(true).open(&file)?.metadata();
    fs::remove_file(&file)?;
    let (own, owner) = (made?.uid(), fs::metadata(&place)?.uid());
    let system = rustix::fs::statvfs(&place)?;
    Ok(ProbedFolder {
        is_missing: place != std::path::absolute(folder)?,
        other_owner: Some(owner).filter(|owner| *owner != own),
        free_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        total_bytes: system.f_blocks.saturating_mul(system.f_frsize),
    })
}

/// The folder, absolute, or the nearest folder above it that exists.
fn nearest(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    for place in folder.ancestors() {
        if place.try_exists()? {
            return Ok(place.to_owned());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_probe_leaves_no_file_and_makes_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let there = probe_folder(folder.path()).unwrap();
        assert!(!there.is_missing && there.other_owner.is_none(), "{there:?}");
        assert!(there.free_bytes <= there.total_bytes && there.total_bytes > 0, "{there:?}");
        let missing = probe_folder(&folder.path().join("a/b")).unwrap();
        assert!(missing.is_missing, "{missing:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("data")] {
            assert_eq!(probe_folder(&path).unwrap_err().kind(), io::ErrorKind::NotADirectory, "{path:?}");
        }
    }
}
