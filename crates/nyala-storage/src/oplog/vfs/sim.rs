//! A file system in memory that knows what would be left after a power cut, and fails on demand.
//!
//! Every file has the content that programs see, the content that is on disk, and the writes between the
//! two. A crash keeps any subset of the latter, cut into sectors: writes are torn, lost and reordered. Names
//! are treated alike. Faults and crash images are drawn from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{OpenMode, Vfs, VfsFile, VfsLock};

const SECTOR: usize = 512;

/// A small generator of random numbers (SplitMix64), the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in one of `n` cases.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What goes wrong, each in one of so many calls; 0 is never.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) short_read: u64,
    pub(crate) short_write: u64,
    pub(crate) write_error: u64,
    pub(crate) sync_error: u64,
    pub(crate) read_error: u64,
    /// Bytes that all files together may have.
    pub(crate) space: Option<u64>,
}

#[derive(Debug, Clone)]
enum Pending {
    Write { offset: usize, data: Arc<Vec<u8>> },
    Truncate(usize),
}

#[derive(Debug, Clone, Default)]
struct Inode {
    seen: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pending: Vec<Pending>,
}

#[derive(Debug, Clone)]
enum Naming {
    Link(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
}

/// All there is at one moment; cheap to copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    naming: Vec<Naming>,
    next: u64,
}

type Hook = Arc<dyn Fn(&Image) + Send + Sync>;

#[derive(Default)]
struct State {
    image: Image,
    faults: Faults,
    rng: Option<Rng>,
    hook: Option<Hook>,
    fail_next_sync: bool,
    locked: BTreeSet<PathBuf>,
}

/// The simulated disk. Copies share it.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.state().rng = Some(Rng(seed));
        disk
    }

    pub(crate) fn from_image(image: Image, seed: u64) -> Self {
        let disk = Self::new(seed);
        disk.state().image = image;
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Calls `hook` with what is there before every mutating call takes effect, and while it half has.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        self.state().hook = hook;
    }

    pub(crate) fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Goes on from another image, as after a power cut.
    pub(crate) fn set_image(&self, image: Image) {
        self.state().image = image;
    }

    /// The next call of `sync_data` fails, others do not.
    pub(crate) fn fail_next_sync(&self) {
        self.state().fail_next_sync = true;
    }

    /// Every file, by path, as programs see it.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let content = |ino: &u64| state.image.inodes[ino].seen.to_vec();
        state.image.names.iter().map(|(path, ino)| (path.clone(), content(ino))).collect()
    }

    /// Replaces or adds a file, durably.
    pub(crate) fn put(&self, path: &Path, content: Vec<u8>) {
        self.state().image.put(path, content);
    }

    pub(crate) fn delete(&self, path: &Path) {
        let mut state = self.state();
        state.image.names.remove(path);
        state.image.durable_names.remove(path);
    }

    /// Counts a mutating call: the hook sees the state before it and, after `change`, with it pending.
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

impl Image {
    fn put(&mut self, path: &Path, content: Vec<u8>) {
        self.next += 1;
        let content = Arc::new(content);
        let inode = Inode { seen: content.clone(), durable: content, pending: Vec::new() };
        self.inodes.insert(self.next, inode);
        self.names.insert(path.to_owned(), self.next);
        self.durable_names.insert(path.to_owned(), self.next);
    }

    /// What a power cut at this moment leaves; each seed gives one of the possible outcomes.
    pub(crate) fn after_crash(&self, seed: u64) -> Image {
        let mut rng = Rng(seed);
        let style = rng.below(4);
        let mut kept = |rng: &mut Rng| match style {
            0 => false,
            1 => true,
            _ => rng.one_in(2),
        };
        let mut names = self.durable_names.clone();
        for naming in &self.naming {
            if kept(&mut rng) {
                naming.apply(&mut names);
            }
        }
        let mut inodes = BTreeMap::new();
        for ino in names.values() {
            let inode = self.inodes.get(ino).cloned().unwrap_or_default();
            let mut content = inode.durable.to_vec();
            for pending in &inode.pending {
                pending.tear(&mut content, &mut rng, &mut kept);
            }
            let content = Arc::new(content);
            inodes.insert(*ino, Inode { seen: content.clone(), durable: content, pending: Vec::new() });
        }
        Image { inodes, durable_names: names.clone(), names, naming: Vec::new(), next: self.next }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, ino) => drop(names.insert(path.clone(), *ino)),
            Self::Rename(from, to) => {
                if let Some(ino) = names.remove(from) {
                    names.insert(to.clone(), ino);
                }
            }
            Self::Unlink(path) => drop(names.remove(path)),
        }
    }
}

impl Pending {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Truncate(bytes) => content.resize(*bytes, 0),
            Self::Write { offset, data } => write_into(content, *offset, data),
        }
    }

    /// Applies what a crash keeps of it: each sector on its own.
    fn tear(&self, content: &mut Vec<u8>, rng: &mut Rng, kept: &mut impl FnMut(&mut Rng) -> bool) {
        let Self::Write { offset, data } = self else {
            if kept(rng) {
                self.apply(content);
            }
            return;
        };
        let mut at = 0;
        while at < data.len() {
            let to = data.len().min((*offset + at) / SECTOR * SECTOR + SECTOR - *offset);
            if kept(rng) {
                write_into(content, offset + at, &data[at..to]);
            }
            at = to;
        }
    }
}

fn write_into(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if content.len() < offset + data.len() {
        content.resize(offset + data.len(), 0);
    }
    content[offset..offset + data.len()].copy_from_slice(data);
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
            (OpenMode::Read, None) => return Err(io::ErrorKind::NotFound.into()),
            (OpenMode::Read, Some(ino)) => ino,
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

    fn sync_data(&self) -> io::Result<()> {
        self.disk.mutate(|state| {
            let failing = state.faults.sync_error;
            if std::mem::take(&mut state.fail_next_sync) || state.strikes(failing) {
                let mut rng = state.rng.clone().unwrap();
                state.inode(self.ino).fail_sync(&mut rng);
                return Err(io::Error::other("simulated failure of fsync"));
            }
            let inode = state.inode(self.ino);
            inode.durable = inode.seen.clone();
            inode.pending.clear();
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

impl Inode {
    fn add(&mut self, pending: Pending) {
        pending.apply(Arc::make_mut(&mut self.seen));
        self.pending.push(pending);
    }

    /// As Linux does it: some pages made it, the others are clean and gone with the next crash.
    fn fail_sync(&mut self, rng: &mut Rng) {
        let mut content = self.durable.to_vec();
        let mut kept = |rng: &mut Rng| rng.one_in(2);
        for pending in std::mem::take(&mut self.pending) {
            pending.tear(&mut content, rng, &mut kept);
        }
        self.durable = Arc::new(content);
    }
}
