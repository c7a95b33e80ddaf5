//! The files of the server itself, which no table may read and no client may write, however they are reached.
//!
//! Paths are compared after symbolic links are resolved, and folders also by device and inode, which tells bind mounts and
//! other spellings of a file system that does not look at the case of names. A hard link to a file is another name of it
//! that no path tells: only the single files listed here (configuration, keys, logs, catalog) are known by their inode too.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;

/// What the operating system shows of itself and of processes. What lies in memory as files is data like any other.
const SYSTEM_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];
const MEMORY_FOLDER: &str = "/dev/shm";

/// Folders within a data folder that the server writes; the files that lie in the data folder directly are its own, too.
const SERVER_FOLDERS: [&str; 4] = ["catalog-backups", "cubes", "set-aside", "tmp"];
/// Disk stores that have no other place.
const STORES_FOLDER: &str = "stores";

/// The catalog, whose files lie in the data folder directly.
const CATALOG_FILES: [&str; 3] = ["catalog.sqlite", "catalog.sqlite-wal", "nyala.lock"];

/// Device and inode.
type Id = (u64, u64);

/// The server's own folders and files.
#[derive(Debug)]
pub struct OwnPaths {
    data_dir: Option<PathBuf>,
    files: Vec<PathBuf>,
    known: ArcSwap<Known>,
}

/// The same with links resolved.
#[derive(Debug, Default)]
struct Known {
    data_dir: Option<Folder>,
    /// Of the server, with all that is in them.
    folders: Vec<Folder>,
    /// Of disk stores, with all that is in them.
    stores: Vec<Folder>,
    files: Vec<PathBuf>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    id: Option<Id>,
}

impl Folder {
    fn of(path: &Path) -> Self {
        let path = real_path(path);
        let id = id_of(&path);
        Self { path, id }
    }

    fn is(&self, folder: &Path) -> bool {
        self.path == folder || (self.id.is_some() && self.id == id_of(folder))
    }

    fn contains(&self, folder: &Path) -> bool {
        folder.starts_with(&self.path) || folder.ancestors().any(|folder| self.is(folder))
    }
}

/// How a path is told apart from the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To read rows.
    Table,
    /// To be the folder of a disk store: where others lie it may lie, too.
    Store,
}

impl OwnPaths {
    /// Nothing but what is the operating system's.
    pub fn none() -> Self {
        Self { data_dir: None, files: Vec::new(), known: ArcSwap::default() }
    }

    /// A data folder, and files elsewhere. Names that are empty are none.
    pub fn new(data_dir: &Path, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter().filter(|file| !file.as_os_str().is_empty());
        let files = files.map(|file| std::path::absolute(&file).unwrap_or(file)).collect();
        let own = Self { data_dir: Some(data_dir.to_owned()), files, known: ArcSwap::default() };
        own.set_stores(std::iter::empty());
        own
    }

    /// Says which folders disk stores have now. Links are resolved anew.
    pub fn set_stores(&self, stores: impl IntoIterator<Item = PathBuf>) {
        let data_dir = self.data_dir.as_deref();
        let below = |names: &[&str]| -> Vec<PathBuf> {
            data_dir.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name))).collect()
        };
        let catalog = below(&CATALOG_FILES);
        let known = Known {
            data_dir: data_dir.map(Folder::of),
            folders: below(&SERVER_FOLDERS).iter().map(|folder| Folder::of(folder)).collect(),
            stores: below(&[STORES_FOLDER])
                .into_iter()
                .chain(stores)
                .map(|folder| Folder::of(&folder))
                .collect(),
            files: self.files.iter().chain(&catalog).map(|file| real_path(file)).collect(),
        };
        self.known.store(known.into());
    }

    /// Whether a folder, as [`real_path`] gives it, is the server's or lies in one of its folders.
    pub(super) fn has_folder(&self, folder: &Path, wish: Wish) -> bool {
        let known = self.known.load();
        let stores = known.stores.iter().filter(|_| wish == Wish::Table);
        is_of_system(folder)
            || known.data_dir.as_ref().is_some_and(|data_dir| data_dir.is(folder))
            || known.folders.iter().chain(stores).any(|own| own.contains(folder))
    }

    /// Whether a file, as [`real_path`] gives it, is one of the server's that lies outside of its folders.
    pub(super) fn has_file(&self, file: &Path, metadata: Option<&Metadata>) -> bool {
        let known = self.known.load();
        let linked = metadata.filter(|metadata| metadata.nlink() > 1).map(id);
        known.files.iter().any(|own| own == file || (linked.is_some() && linked == id_of(own)))
    }

    /// Whether some folder of the server lies in this one, as [`real_path`] gives it.
    pub(super) fn lies_in(&self, folder: &Path) -> bool {
        let known = self.known.load();
        let mut all = known.data_dir.iter().chain(&known.folders).chain(&known.stores);
        all.any(|own| own.path.starts_with(folder))
            || SYSTEM_FOLDERS.iter().any(|own| Path::new(own).starts_with(folder))
    }
}

/// Whether it is the operating system's, in this spelling.
pub(super) fn is_of_system(path: &Path) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(MEMORY_FOLDER)
}

fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

fn id_of(path: &Path) -> Option<Id> {
    path.metadata().ok().as_ref().map(id)
}

/// The path without symbolic links, as far as it exists.
pub fn real_path(path: &Path) -> PathBuf {
    let real = |there: &Path| {
        let (real, rest) = (there.canonicalize().ok()?, path.strip_prefix(there).ok()?);
        // Nothing joined is a slash at the end, with which no file is found.
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    };
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}
