//! Backups of the catalog: copies in a folder, which are made, listed and removed.
//!
//! The name of a copy tells the version of the catalog, when it was made, and the CRC-32C of the file:
//! `catalog-000000000057-1764073331123-9ae0daaf.sqlite`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crc32c::crc32c_append;
use nyala_model::SnapshotVersion;

use crate::catalog::Catalog;
use crate::error::CatalogError;

const PREFIX: &str = "catalog-";
const SUFFIX: &str = ".sqlite";
const UNFINISHED: &str = "unfinished";
const READ_BYTES: usize = 1 << 20;

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backup {
    /// The catalog's version when the copy was begun; the copy may hold a later one.
    pub version: SnapshotVersion,
    /// Milliseconds since the Unix epoch when it was made.
    pub made_at_ms: u64,
    /// The file of the copy.
    pub path: PathBuf,
    crc: u32,
}

impl Backup {
    fn parse(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let mut parts = name.split('-');
        let version = SnapshotVersion(parts.next()?.parse().ok()?);
        let made_at_ms = parts.next()?.parse().ok()?;
        let crc = u32::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(Self { version, made_at_ms, path, crc })
    }

    /// Whether the bytes of the copy match its checksum.
    ///
    /// # Errors
    /// If the copy cannot be read.
    pub fn is_whole(&self) -> io::Result<bool> {
        Ok(crc_of(&self.path)? == self.crc)
    }
}

/// The copies in `folder`, the newest first. None if there is no such folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn list(folder: &Path) -> io::Result<Vec<Backup>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut found: Vec<Backup> = paths?.into_iter().filter_map(Backup::parse).collect();
    found.sort();
    found.reverse();
    Ok(found)
}

/// Copies the catalog to `folder`, which is created if missing, and removes all but the `keep` newest copies.
///
/// # Errors
/// [`CatalogError::Corrupt`] if the catalog is damaged: then no older copy is removed.
pub async fn make(catalog: &Catalog, folder: &Path, keep: usize) -> Result<Backup, CatalogError> {
    let failed = |source| CatalogError::Open { path: folder.to_owned(), source };
    create(folder).map_err(failed)?;
    let unfinished = folder.join(UNFINISHED);
    remove(&unfinished).map_err(failed)?;
    let version = catalog.snapshot().version;
    catalog.copy_to(&unfinished).await?;
    let folder = folder.to_owned();
    let finished = tokio::task::spawn_blocking(move || finish(&unfinished, &folder, version, keep)).await;
    finished.map_err(|_| CatalogError::Interrupted)?.map_err(failed)
}

/// Names a copy and makes the name durable, before it removes older copies.
fn finish(unfinished: &Path, folder: &Path, version: SnapshotVersion, keep: usize) -> io::Result<Backup> {
    let crc = crc_of(unfinished)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let made_at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let path = folder.join(format!("{PREFIX}{:012}-{made_at_ms}-{crc:08x}{SUFFIX}", version.0));
    std::fs::rename(unfinished, &path)?;
    File::open(folder)?.sync_all()?;
    // Copies with a version above the catalog's hold changes that a shared database has lost: they are removed first.
    let (lost, others): (Vec<_>, Vec<_>) = list(folder)?.into_iter().partition(|copy| copy.version > version);
    for old in others.into_iter().chain(lost).skip(keep.max(1)) {
        remove(&old.path)?;
    }
    Ok(Backup { version, made_at_ms, path, crc })
}

/// Mode 0700: a catalog holds the verifiers of passwords.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn crc_of(path: &Path) -> io::Result<u32> {
    let (mut file, mut buffer, mut crc) = (File::open(path)?, vec![0; READ_BYTES], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crc),
            bytes => crc = crc32c_append(crc, buffer.get(..bytes).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Makes copies of these versions, and returns the versions that were kept.
    fn copied(versions: &[u64]) -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        for version in versions {
            let unfinished = folder.path().join(UNFINISHED);
            std::fs::write(&unfinished, version.to_string()).unwrap();
            finish(&unfinished, folder.path(), SnapshotVersion(*version), 3).unwrap();
        }
        list(folder.path()).unwrap().iter().map(|copy| copy.version.0).collect()
    }

    #[test]
    fn the_newest_copies_are_kept() {
        assert_eq!(copied(&[1, 2, 3, 4]), [4, 3, 2]);
        assert_eq!(copied(&[7, 8, 9, 5]), [9, 8, 5], "a shared database went back");
        assert_eq!(copied(&[7, 8, 9, 4, 5, 6]), [6, 5, 4]);
    }
}
