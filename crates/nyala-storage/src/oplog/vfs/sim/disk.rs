//! The simulated disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::image::{Inode, Naming, Pending};
use super::{Faults, Image, Rng};
use crate::oplog::vfs::{OpenMode, Reads, Vfs, VfsFile, VfsLock};

type Hook = Arc<dyn Fn(&Image) + Send + Sync>;

#[derive(Default)]
struct State {
    image: Image,
    faults: Faults,
    rng: Option<Rng>,
    hook: Option<Hook>,
    fail_next_sync: bool,
    locked: BTreeSet<PathBuf>,
    read_bytes: u64,
}

/// The simulated disk. Copies share it.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.state().rng = Some(Rng(seed));
        disk
    }

    pub fn from_image(image: Image, seed: u64) -> Self {
        let disk = Self::new(seed);
        disk.state().image = image;
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Calls `hook` with the disk image after every mutating call, with the change pending.
    pub fn set_hook(&self, hook: Option<Hook>) {
        self.state().hook = hook;
    }

    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Goes on from another image, as after a power cut.
    pub fn set_image(&self, image: Image) {
        self.state().image = image;
    }

    /// The next call of `sync_data` fails, others do not.
    pub fn fail_next_sync(&self) {
        self.state().fail_next_sync = true;
    }

    /// Bytes that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.state().read_bytes
    }

    /// Every file, by path, as programs see it.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let content = |ino: &u64| state.image.inodes[ino].seen.to_vec();
        state.image.names.iter().map(|(path, ino)| (path.clone(), content(ino))).collect()
    }

    /// Replaces or adds a file, durably.
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        self.state().image.put(path, content);
    }

    pub fn delete(&self, path: &Path) {
        let mut state = self.state();
        state.image.names.remove(path);
        state.image.durable_names.remove(path);
    }

    /// Runs a mutating call; afterwards the hook sees the image, with the change pending.
    fn mutate<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let result = change(&mut state);
        let hook = state.hook.clone().map(|hook| (hook, state.image.clone()));
        drop(state);
        if let Some((hook, image)) = hook {
            hook(&image);
        }
        result
    }
}

impl State {
    fn strikes(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.rng.as_mut().is_some_and(|rng| rng.one_in(one_in))
    }

    fn used(&self) -> u64 {
        self.image.names.values().map(|ino| self.image.inodes[ino].seen.len() as u64).sum()
    }

    fn inode(&mut self, ino: u64) -> &mut Inode {
        self.image.inodes.entry(ino).or_default()
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    ino: u64,
}

impl Vfs for SimDisk {
    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, file: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let existing = self.state().image.names.get(file).copied();
        let ino = match (mode, existing) {
            (OpenMode::Read | OpenMode::Write, None) => return Err(io::ErrorKind::NotFound.into()),
            (OpenMode::Read | OpenMode::Write, Some(ino)) => ino,
            (OpenMode::Create, Some(ino)) => {
                let file = SimFile { disk: self.clone(), ino };
                file.truncate(0)?;
                ino
            }
            (OpenMode::Create, None) => self.mutate(|state| {
                state.image.next += 1;
                let ino = state.image.next;
                state.inode(ino);
                state.image.names.insert(file.to_owned(), ino);
                state.image.naming.push(Naming::Link(file.to_owned(), ino));
                Ok(ino)
            })?,
        };
        Ok(Arc::new(SimFile { disk: self.clone(), ino }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.mutate(|state| {
            let naming = Naming::Rename(from.to_owned(), to.to_owned());
            naming.apply(&mut state.image.names);
            state.image.naming.push(naming);
            Ok(())
        })
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.mutate(|state| {
            if state.image.names.remove(file).is_none() {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.image.naming.push(Naming::Unlink(file.to_owned()));
            Ok(())
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = state.image.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.mutate(|state| {
            let (now, later): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.image.naming).into_iter().partition(|naming| match naming {
                    Naming::Link(path, _) | Naming::Unlink(path) | Naming::Rename(_, path) => {
                        path.parent() == Some(folder)
                    }
                });
            state.image.naming = later;
            for naming in now {
                naming.apply(&mut state.image.durable_names);
            }
            Ok(())
        })
    }

    fn lock(&self, file: &Path, _holder: &str) -> io::Result<Result<Box<dyn VfsLock>, String>> {
        if !self.state().locked.insert(file.to_owned()) {
            return Ok(Err("another store".to_owned()));
        }
        Ok(Ok(Box::new(SimLock { disk: self.clone(), file: file.to_owned() })))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    file: PathBuf,
}

impl VfsLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.file);
    }
}

impl VfsFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let (short, failing) = (state.faults.short_read, state.faults.read_error);
        if state.strikes(failing) {
            return Err(io::Error::other("simulated EIO"));
        }
        let short = buffer.len() > 1 && state.strikes(short);
        let seen = state.inode(self.ino).seen.clone();
        let rest = seen.get(offset as usize..).unwrap_or_default();
        let mut bytes = rest.len().min(buffer.len());
        if short {
            bytes = bytes.div_ceil(2);
        }
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        state.read_bytes += bytes as u64;
        Ok(bytes)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.mutate(|state| {
            let (failing, short) = (state.faults.write_error, state.faults.short_write);
            if state.strikes(failing) {
                return Err(io::Error::other("simulated EIO"));
            }
            let mut data = buffer;
            if data.len() > 1 && state.strikes(short) {
                data = &data[..data.len().div_ceil(2)];
            }
            if let Some(space) = state.faults.space {
                let now = state.inode(self.ino).seen.len();
                let grown = (offset as usize + data.len()).saturating_sub(now) as u64;
                if state.used() + grown > space {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            let pending = Pending::Write { offset: offset as usize, data: Arc::new(data.to_vec()) };
            state.inode(self.ino).add(pending);
            Ok(data.len())
        })
    }

    fn expect_reads(&self, _: Reads) {}

    fn sync_data(&self) -> io::Result<()> {
        self.disk.mutate(|state| {
            let failing = state.faults.sync_error;
            if std::mem::take(&mut state.fail_next_sync) || state.strikes(failing) {
                let mut rng = state.rng.clone().unwrap();
                state.inode(self.ino).fail_sync(&mut rng);
                return Err(io::Error::other("simulated failure of fsync"));
            }
            state.inode(self.ino).sync();
            Ok(())
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.mutate(|state| {
            state.inode(self.ino).add(Pending::Truncate(bytes as usize));
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().inode(self.ino).seen.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_sync_left_out_is_not_written_by_the_next() {
        let mut lost = 0;
        for seed in 0..8 {
            let (disk, path) = (SimDisk::new(seed), Path::new("/folder/file"));
            let file = disk.open(path, OpenMode::Create).unwrap();
            disk.sync_dir(Path::new("/folder")).unwrap();
            file.write_at(&[1; 4096], 0).unwrap();
            disk.fail_next_sync();
            file.sync_data().unwrap_err();
            file.write_at(&[2; 512], 4096).unwrap();
            file.sync_data().unwrap();
            let left = SimDisk::from_image(disk.image().after_crash(seed), seed).files();
            assert_eq!(left[path][4096..], [2; 512], "seed {seed}");
            lost += left[path][..4096].iter().filter(|byte| **byte == 0).count();
        }
        assert!(lost > 0);
    }
}
