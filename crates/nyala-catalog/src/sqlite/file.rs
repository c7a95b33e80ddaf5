//! The file itself: created with mode 0600, and checked before SQLite opens it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::CatalogError;

/// Whether there is no such file, or nothing in it.
pub fn is_empty(path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.is_file() && found.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes the folder of the file.
pub fn create_folder(path: &Path) -> Result<(), CatalogError> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .map_err(|source| CatalogError::Open { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}

/// Creates the file, if there is none, with mode 0600: it holds the verifiers of passwords. SQLite takes an
/// empty file for a new database, and gives the files beside it the same mode.
pub fn create_file(path: &Path) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Whether the file is missing, empty or begins as SQLite files do.
///
/// SQLite itself takes a file of zeros, which a file system may leave after a power cut, for an empty
/// database. A new catalog in its place would hide the loss. Beside a rollback journal any contents are
/// fine: the first write was interrupted, and SQLite is about to undo it.
pub fn may_be_sqlite(path: &Path) -> io::Result<bool> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut head = Vec::with_capacity(MAGIC.len());
    match File::open(path) {
        Ok(file) => file.take(MAGIC.len() as u64).read_to_end(&mut head)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    Ok(head.is_empty() || head == MAGIC || Path::new(&journal).exists())
}
