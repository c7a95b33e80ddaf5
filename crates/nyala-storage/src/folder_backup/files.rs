//! Files of a backup: copied, summed, compared and made durable.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crc32c::crc32c_append;

use super::error::{BackupError, Result};

const READ_BYTES: usize = 1 << 20;

/// One file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved {
    pub bytes: u64,
    pub crc: u32,
}

pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path: path.clone(), source }
}

/// Creates a missing folder, with mode 0700: a backup holds the verifiers of passwords.
pub(super) fn require_empty(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(failed(folder))?;
    match std::fs::read_dir(folder).map_err(failed(folder))?.next() {
        None => Ok(()),
        Some(_) => Err(BackupError::NotEmpty { path: folder.to_owned() }),
    }
}

pub(super) fn create_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder).map_err(failed(folder)),
        None => Ok(()),
    }
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(failed(from))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(failed(to))
}

pub(super) fn check(path: &Path, saved: Saved) -> Result<()> {
    let found = sum(path)
        .map_err(|error| BackupError::Damaged { path: path.to_owned(), reason: error.to_string() })?;
    if found == saved {
        return Ok(());
    }
    let reason = match found.bytes == saved.bytes {
        true => "its checksum does not match".to_owned(),
        false => format!("it has {} bytes, but {} were saved", found.bytes, saved.bytes),
    };
    Err(BackupError::Damaged { path: path.to_owned(), reason })
}

pub(super) fn sum(path: &Path) -> Result<Saved> {
    let mut file = File::open(path).map_err(failed(path))?;
    let (mut buffer, mut saved) = (vec![0; READ_BYTES], Saved { bytes: 0, crc: 0 });
    loop {
        match file.read(&mut buffer).map_err(failed(path))? {
            0 => return Ok(saved),
            bytes => {
                saved.crc = crc32c_append(saved.crc, buffer.get(..bytes).unwrap_or_default());
                saved.bytes += bytes as u64;
            }
        }
    }
}

/// Makes the names in a folder and all its subfolders durable.
pub(super) fn sync_folders(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_dir() {
            sync_folders(&path)?;
        }
    }
    File::open(folder).and_then(|file| file.sync_all()).map_err(failed(folder))
}
