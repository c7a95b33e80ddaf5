//! The operating system's file system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::{OpenMode, Reads, Vfs, VfsFile, VfsLock};

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Vfs for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(folder)?;
        // The folder's own name must be durable too.
        folder.parent().filter(|parent| parent.is_dir()).map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    fn open(&self, file: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(DiskFile(options.open(file)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        std::fs::remove_file(file)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(folder)?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, file: &Path, holder: &str) -> io::Result<Result<Box<dyn VfsLock>, String>> {
        let mut lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(read_holder(&mut lock))),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Only the lock counts. The holder's name is written as long as the disk has space for it.
        let _ = write_holder(&mut lock, holder);
        Ok(Ok(Box::new(DiskLock(lock))))
    }
}

fn write_holder(lock: &mut File, holder: &str) -> io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(holder.as_bytes())
}

fn read_holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

#[derive(Debug)]
struct DiskLock(#[expect(dead_code, reason = "held for its lock")] File);

impl VfsLock for DiskLock {}

#[derive(Debug)]
struct DiskFile(File);

impl VfsFile for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn expect_reads(&self, reads: Reads) {
        use rustix::fs::{Advice, fadvise};
        let (from, bytes, advice) = match reads {
            Reads::Apart => (0, 0, Advice::Random),
            Reads::InOrder => (0, 0, Advice::Normal),
            Reads::Soon { from, bytes } => (from, bytes, Advice::WillNeed),
        };
        // Refused advice only costs time. `None` means the rest of the file.
        let _ = fadvise(&self.0, from, std::num::NonZeroU64::new(bytes), advice);
    }

    #[cfg(not(target_os = "linux"))]
    fn expect_reads(&self, _: Reads) {}
}
