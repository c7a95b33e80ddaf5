//! One folder of a file system, and its files, with errors that name them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{OpenMode, Reads, Vfs, VfsFile, VfsLock};
use crate::oplog::error::{OplogError, Result};

/// A store's folder.
#[derive(Debug, Clone)]
pub struct Folder {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

impl Folder {
    pub fn new(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        Self { vfs, path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder if it is missing.
    pub fn create(&self) -> Result<()> {
        self.vfs.create_folder(&self.path).map_err(failed("create folder", &self.path))
    }

    pub fn open(&self, name: &str) -> Result<FileHandle> {
        self.handle(name, OpenMode::Read, "open")
    }

    pub fn open_to_write(&self, name: &str) -> Result<FileHandle> {
        self.handle(name, OpenMode::Write, "open")
    }

    pub fn create_file(&self, name: &str) -> Result<FileHandle> {
        self.handle(name, OpenMode::Create, "create")
    }

    fn handle(&self, name: &str, mode: OpenMode, action: &'static str) -> Result<FileHandle> {
        let path = self.path.join(name);
        let file = self.vfs.open(&path, mode).map_err(failed(action, &path))?;
        Ok(FileHandle { file, path: Arc::new(path) })
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let to = self.path.join(to);
        self.vfs.rename(&self.path.join(from), &to).map_err(failed("rename to", &to))
    }

    /// Removes a file; a missing file is no error.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        match self.vfs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    pub fn list(&self) -> Result<Vec<String>> {
        self.vfs.list(&self.path).map_err(failed("list", &self.path))
    }

    pub fn sync(&self) -> Result<()> {
        self.vfs.sync_dir(&self.path).map_err(failed("sync folder", &self.path))
    }

    pub fn lock(&self, holder: &str) -> Result<Box<dyn VfsLock>> {
        let path = self.path.join("lock");
        let taken = self.vfs.lock(&path, holder).map_err(failed("lock", &path))?;
        taken.map_err(|holder| OplogError::InUse { folder: self.path.clone(), holder })
    }
}

/// An open file that knows its path.
#[derive(Debug, Clone)]
pub struct FileHandle {
    file: Arc<dyn VfsFile>,
    path: Arc<PathBuf>,
}

impl FileHandle {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> Result<u64> {
        self.file.bytes().map_err(failed("measure", &self.path))
    }

    pub fn expect_reads(&self, reads: Reads) {
        self.file.expect_reads(reads);
    }

    /// Reads until `buffer` is full or the file ends; says how much was read.
    pub fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", &self.path)(error)),
            }
        }
        Ok(done)
    }

    /// Fills `buffer`; a file that ends before is damaged.
    pub fn read_exact(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_up_to(buffer, offset)?;
        if read < buffer.len() {
            let missing = buffer.len() - read;
            return Err(self.damaged(offset + read as u64, format!("{missing} bytes are missing")));
        }
        Ok(())
    }

    pub fn write_all(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get(done..).filter(|rest| !rest.is_empty()) {
            match self.file.write_at(rest, offset + done as u64) {
                Ok(0) => return Err(failed("write", &self.path)(io::ErrorKind::WriteZero.into())),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("write", &self.path)(error)),
            }
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }

    pub fn truncate(&self, bytes: u64) -> Result<()> {
        self.file.truncate(bytes).map_err(failed("truncate", &self.path))
    }

    pub fn damaged(&self, offset: u64, reason: impl Into<String>) -> OplogError {
        OplogError::damaged(&self.path, offset, reason)
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> OplogError + use<> {
    let file = path.to_owned();
    move |error| OplogError::Io { action, file: file.clone(), source: Arc::new(error) }
}
