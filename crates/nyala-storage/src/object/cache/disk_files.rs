//! Files in the folder of the cache: their paths, and how they are put there.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::block::{BlockId, FileId};
use crate::StorageError;
use crate::data_dir::remove_folder;

/// File in the folder that is locked while a process uses it.
const LOCK: &str = "nyala-cache.lock";
/// File in the folder with the size of its blocks.
const BLOCK_BYTES: &str = "block-bytes";
/// A new file, before it is renamed to its place.
pub const TEMPORARY: &str = "new-block";
/// Longest wait for the lock of another process.
const UNLOCKING: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Locks the folder for this process.
pub fn lock(folder: &Path) -> Result<File, StorageError> {
    let failed = |source| StorageError::CacheFolder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let lock = options.open(folder.join(LOCK)).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            // An earlier process may be about to end, or programs that it started hold the file until they are loaded.
            Err(TryLockError::WouldBlock) if begun.elapsed() < UNLOCKING => thread::sleep(POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(StorageError::CacheInUse { path: folder.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// Deletes blocks of another size: no reader finds them, and they would take room that the index does not count.
pub fn forget_other_sizes(folder: &Path, block_bytes: u64) -> io::Result<()> {
    let (noted, size) = (folder.join(BLOCK_BYTES), block_bytes.to_string());
    match fs::read_to_string(&noted) {
        Ok(text) if text == size => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for number in 0..=u8::MAX {
        remove_folder(&folder.join(format!("{number:02x}")))?;
    }
    fs::write(noted, size)
}

/// Renames a new file to its path. Makes the folder if it is missing.
pub fn place(new: &Path, path: &Path) -> io::Result<()> {
    match (fs::rename(new, path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            fs::rename(new, path)
        }
        (placed, _) => placed,
    }
}

fn part_of(folder: &Path, file: FileId) -> PathBuf {
    let [first, ..] = file.bytes();
    folder.join(format!("{first:02x}"))
}

/// The path of a block.
pub fn path_of(folder: &Path, block: &BlockId) -> PathBuf {
    part_of(folder, block.file).join(block.file_name())
}

/// The path of the file that holds a file's name.
pub fn name_path(folder: &Path, file: FileId) -> PathBuf {
    part_of(folder, file).join(format!("{file}.name"))
}
