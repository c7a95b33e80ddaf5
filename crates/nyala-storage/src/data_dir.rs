//! A node's data folder, locked by one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nyala_model::NodeId;
use uuid::Uuid;

use crate::StorageError;

/// Folder of cuboids, within the data folder.
pub const CUBES: &str = "cubes";
/// Default folder of cached blocks of remote files, within the data folder.
pub const BLOCK_CACHE: &str = "block-cache";
/// Default folder of disk stores, within the data folder.
pub const STORES: &str = "stores";
/// Folder of the catalog's copies, within the data folder.
pub const CATALOG_BACKUPS: &str = "catalog-backups";
/// Folder of files that a restoration replaced or does not know, within the data folder.
pub const SET_ASIDE: &str = "set-aside";

/// File with the name of the node, within the data folder.
pub const NODE: &str = "node";
/// File that is locked while a process works in the data folder.
const LOCK: &str = "nyala.lock";
/// File of the catalog, within the data folder.
const CATALOG: &str = "catalog.sqlite";
/// Tries to take the lock: a process that only checks the folder holds it for a moment. When all tries have failed, this process is
/// refused.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(30);

/// The node of a data folder, named on first use. The caller holds the folder's lock.
///
/// # Errors
/// The file cannot be read or made.
pub fn node_id(data_dir: &Path) -> Result<NodeId, StorageError> {
    if let Some(node) = known_node(data_dir)? {
        return Ok(node);
    }
    let file = data_dir.join(NODE);
    let failed = |source| StorageError::DataDir { path: file.clone(), source };
    let node = NodeId(Uuid::now_v7().simple().to_string());
    let fresh = data_dir.join("node.new");
    let mut made = File::create(&fresh).map_err(failed)?;
    made.write_all(node.0.as_bytes()).and_then(|()| made.sync_all()).map_err(failed)?;
    std::fs::rename(&fresh, &file).map_err(failed)?;
    File::open(data_dir).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(node)
}

/// The node of a data folder; none before its first use.
///
/// # Errors
/// The file cannot be read.
pub fn known_node(data_dir: &Path) -> Result<Option<NodeId>, StorageError> {
    let file = data_dir.join(NODE);
    match std::fs::read_to_string(&file) {
        // A crash while the file was made leaves it empty.
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(NodeId(text.trim().to_owned()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StorageError::DataDir { path: file, source }),
    }
}

/// Checks that no process works in a data folder, without taking it and without making a file.
///
/// # Errors
/// [`StorageError::InUse`], or [`StorageError::DataDir`] if the lock cannot be read.
pub fn check_unused(path: &Path) -> Result<(), StorageError> {
    let mut lock = match File::open(path.join(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|source| StorageError::DataDir { path: path.to_owned(), source })?,
    };
    // Closing the file at the end of this function gives the lock back.
    let tried = lock.try_lock_shared();
    check_lock(path, &mut lock, tried)
}

/// The outcome of a try to take a data folder's lock. The error names the other process, which has written its name to the file.
fn check_lock(path: &Path, lock: &mut File, tried: Result<(), TryLockError>) -> Result<(), StorageError> {
    match tried {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let (holder, address) = read_holder(lock);
            Err(StorageError::InUse { path: path.to_owned(), holder, address })
        }
        Err(TryLockError::Error(source)) => Err(StorageError::DataDir { path: path.to_owned(), source }),
    }
}

/// Refuses a data folder with contents but no catalog: opening it would make an empty database.
///
/// # Errors
/// [`StorageError::CatalogLost`], or [`StorageError::DataDir`] if the folder cannot be read.
pub fn check_catalog(path: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::DataDir { path: path.to_owned(), source };
    let file = catalog_file(path);
    if std::fs::metadata(&file).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    for name in [CUBES, STORES, CATALOG_BACKUPS] {
        let folder = path.join(name);
        if !is_empty(&folder).map_err(failed)? {
            return Err(StorageError::CatalogLost { file, folder });
        }
    }
    Ok(())
}

/// The catalog's file in a data folder.
pub fn catalog_file(data_dir: &Path) -> PathBuf {
    data_dir.join(CATALOG)
}

/// Deletes a folder with all its contents, half-written files included. A missing folder is no error.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Folders exactly two levels below `root`, such as `<cube>/<segment>` below `cubes`. None without
/// `root`.
pub fn folders_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for outer in subfolders(root)? {
        found.extend(subfolders(&outer)?);
    }
    Ok(found)
}

fn subfolders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The locked data folder. The lock is the operating system's, so it ends with the process, even
/// after a crash.
///
/// ```text
/// data-dir/
///   node              the node's name, which entries of the catalog have as their owner
///   nyala.lock        locked while a process works here; names the process
///   catalog.sqlite    the catalog, with files of SQLite and a mark that counts its transactions
///   catalog-backups/  copies of the catalog
///   cubes/<cube>/<segment>/<cuboid>-<n>.parquet
///   block-cache/      blocks of remote files, if they have no folder elsewhere
///   stores/<store>/   disk stores without a folder elsewhere
///   set-aside/        files that a restoration replaced or does not know
///   tmp/              spill files, emptied at start
/// ```
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
}

impl DataDir {
    /// Creates the folder if it is missing and locks it. The error of a second process shows
    /// `holder`, such as "`nyala serve` (process 4711)".
    pub fn lock(path: &Path, holder: &str) -> Result<Self, StorageError> {
        let failed = |source| StorageError::DataDir { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .map_err(failed)?;
        let mut tried = lock.try_lock();
        for _ in 0..TRIES {
            if matches!(tried, Err(TryLockError::WouldBlock)) {
                std::thread::sleep(BETWEEN_TRIES);
                tried = lock.try_lock();
            }
        }
        check_lock(&path, &mut lock, tried)?;
        write_holder(&mut lock, holder).map_err(failed)?;
        Ok(Self { path, lock })
    }

    /// Writes the holder's address to the lock's file, for processes that find the folder in use.
    ///
    /// # Errors
    /// The lock's file cannot be written.
    pub fn tell_address(&self, address: &str) -> io::Result<()> {
        writeln!(&self.lock, "\n{address}")
    }

    /// Refuses a folder with contents but no catalog: opening it would make an empty database.
    ///
    /// # Errors
    /// [`StorageError::CatalogLost`], or [`StorageError::DataDir`] if the folder cannot be read.
    pub fn check_catalog(&self) -> Result<(), StorageError> {
        check_catalog(&self.path)
    }

    /// The folder, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The catalog's file.
    pub fn catalog_file(&self) -> PathBuf {
        catalog_file(&self.path)
    }
}

/// Whether a folder is empty or missing.
fn is_empty(folder: &Path) -> io::Result<bool> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        entries => Ok(entries?.next().is_none()),
    }
}

/// Name of the process that holds the folder, and its address.
fn read_holder(lock: &mut File) -> (String, Option<String>) {
    let mut text = String::new();
    // An unreadable file only makes the error less exact.
    let _ = lock.read_to_string(&mut text);
    let mut lines = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
    (lines.next().unwrap_or_else(|| "another process".to_owned()), lines.next())
}

fn write_holder(lock: &mut File, holder: &str) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(holder.as_bytes())?;
    lock.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::unwrap_in_result)]
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_the_first_is() {
        let folder = std::env::temp_dir().join(format!("nyala-lock-{}", std::process::id()));
        let first = DataDir::lock(&folder, "`nyala serve` (process 1)").unwrap();
        let second = || DataDir::lock(&folder, "second").unwrap_err();
        assert!(
            check_unused(&folder).unwrap_err().to_string().contains("in use by `nyala serve` (process 1)")
        );
        assert!(second().to_string().contains("in use by `nyala serve` (process 1)"), "{}", second());
        assert!(matches!(second(), StorageError::InUse { address: None, .. }));
        first.tell_address("postgres://127.0.0.1:7/nyala").unwrap();
        assert!(second().to_string().contains("in use by `nyala serve` (process 1);"), "{}", second());
        let StorageError::InUse { address: Some(address), .. } = second() else { panic!("{}", second()) };
        assert_eq!(address, "postgres://127.0.0.1:7/nyala");
        drop(first);
        check_unused(&folder).unwrap();
        DataDir::lock(&folder, "third").unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_looks_whether_the_folder_is_in_use_keeps_no_other_out() {
        let folder = std::env::temp_dir().join(format!("nyala-looked-at-{}", std::process::id()));
        drop(DataDir::lock(&folder, "first").unwrap());
        let looking = File::open(folder.join(LOCK)).unwrap();
        looking.try_lock_shared().unwrap();
        let looks = std::thread::spawn(move || drop(looking));
        DataDir::lock(&folder, "second").unwrap();
        looks.join().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_with_contents_needs_its_catalog() {
        let folder = std::env::temp_dir().join(format!("nyala-lost-{}", std::process::id()));
        let dir = DataDir::lock(&folder, "test").unwrap();
        dir.check_catalog().unwrap();
        std::fs::create_dir_all(folder.join("stores/main")).unwrap();
        for write in [None, Some("")] {
            write.into_iter().for_each(|text| std::fs::write(dir.catalog_file(), text).unwrap());
            let error = dir.check_catalog().unwrap_err().to_string();
            assert!(error.contains("catalog.sqlite` is missing or empty"), "{error}");
            assert!(error.contains("nyala catalog restore"), "{error}");
        }
        std::fs::write(dir.catalog_file(), "SQLite").unwrap();
        dir.check_catalog().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
