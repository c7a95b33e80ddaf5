//! The file system as a disk store needs it. All calls block: they are made on threads of the store's own.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    Write,
    /// For reading and writing; the file is made if missing, emptied if there.
    Create,
}

/// The expected reads of a file: a file system may read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Single sections, not followed by the next.
    Apart,
    /// One section after the other.
    InOrder,
    /// This part, soon: it may be read already.
    Soon {
        /// Offset of the part.
        from: u64,
        /// Length of the part.
        bytes: u64,
    },
}

/// A file system. Data is durable after `sync_data`, names after `sync_dir`; not before.
pub trait Vfs: Debug + Send + Sync {
    /// Makes a folder and its parents. An existing folder is no error.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// Opens a file.
    fn open(&self, file: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    /// Renames a file, replacing any file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Readers that have it open can go on reading it.
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Names of the files in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, folder: &Path) -> io::Result<()>;
    /// Locks a file for this process, without waiting. The error names the holder.
    fn lock(&self, file: &Path, holder: &str) -> io::Result<Result<Box<dyn VfsLock>, String>>;
}

/// An open file.
pub trait VfsFile: Debug + Send + Sync {
    /// Reads into `buffer`, maybe less than fits; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes from `buffer`, maybe not all of it.
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the content durable, and the length with it.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or extends the file.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// The file's length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Announces the next reads. May do nothing.
    fn expect_reads(&self, reads: Reads);
}

/// A lock, held until it is dropped.
pub trait VfsLock: Debug + Send + Sync {}
