//! File contents as programs see them, as they are on disk, and the pending writes between the two.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Rng;

const SECTOR: usize = 512;

#[derive(Debug, Clone)]
pub enum Pending {
    Write { offset: usize, data: Arc<Vec<u8>> },
    Truncate(usize),
}

#[derive(Debug, Clone, Default)]
pub struct Inode {
    pub seen: Arc<Vec<u8>>,
    pub durable: Arc<Vec<u8>>,
    pub pending: Vec<Pending>,
    /// Whether programs see content that is neither durable nor pending, and never will be.
    lost: bool,
}

#[derive(Debug, Clone)]
pub enum Naming {
    Link(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
}

/// The whole disk at one moment; cheap to copy.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) names: BTreeMap<PathBuf, u64>,
    pub(super) durable_names: BTreeMap<PathBuf, u64>,
    pub(super) naming: Vec<Naming>,
    pub(super) next: u64,
}

impl Image {
    pub(super) fn put(&mut self, path: &Path, content: Vec<u8>) {
        self.next += 1;
        let content = Arc::new(content);
        self.inodes.insert(self.next, Inode::durable(content));
        self.names.insert(path.to_owned(), self.next);
        self.durable_names.insert(path.to_owned(), self.next);
    }

    /// The disk after a power cut at this moment; each seed gives one of the possible outcomes.
    pub fn after_crash(&self, seed: u64) -> Image {
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
            inodes.insert(*ino, Inode::durable(Arc::new(content)));
        }
        Image { inodes, durable_names: names.clone(), names, naming: Vec::new(), next: self.next }
    }
}

impl Naming {
    pub fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
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

    /// Applies the part of the write that survives a crash: each sector on its own.
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

impl Inode {
    fn durable(content: Arc<Vec<u8>>) -> Self {
        Self { seen: content.clone(), durable: content, pending: Vec::new(), lost: false }
    }

    pub fn add(&mut self, pending: Pending) {
        pending.apply(Arc::make_mut(&mut self.seen));
        self.pending.push(pending);
    }

    /// Makes the writes since the last sync durable, even if that sync failed: the writes that a failed sync left out
    /// are not tried again.
    pub fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if self.lost {
            let content = Arc::make_mut(&mut self.durable);
            pending.iter().for_each(|pending| pending.apply(content));
        } else {
            self.durable = self.seen.clone();
        }
    }

    /// Fails as Linux does: some pages are written, the others are marked clean and lost in the next crash.
    pub fn fail_sync(&mut self, rng: &mut Rng) {
        let mut content = self.durable.to_vec();
        let mut kept = |rng: &mut Rng| rng.one_in(2);
        for pending in std::mem::take(&mut self.pending) {
            pending.tear(&mut content, rng, &mut kept);
        }
        self.durable = Arc::new(content);
        self.lost = true;
    }
}
