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

/// Folders within a data folder that the server writes.
const SERVER_FOLDERS: [&str; 4] = ["catalog-backups", "cubes", "set-aside", "tmp"];
/// Disk stores that have no other place.
const STORES_FOLDER: &str = "stores";

/// What the names of the server's files begin with that lie in the data folder directly: the catalog with what SQLite and its
/// upkeep put beside it, and the lock.
const FILE_PREFIXES: [&str; 2] = ["catalog", "nyala."];
/// Those that are told by their inode, too.
const CATALOG_FILES: [&str; 2] = ["catalog.sqlite", "catalog.sqlite-wal"];

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
        self.is_data_dir(folder) || self.has_all_in(folder, wish)
    }

    fn is_data_dir(&self, folder: &Path) -> bool {
        self.known.load().data_dir.as_ref().is_some_and(|data_dir| data_dir.is(folder))
    }

    /// Whether everything in this folder is the server's.
    fn has_all_in(&self, folder: &Path, wish: Wish) -> bool {
        let known = self.known.load();
        let own = || known.folders.iter().chain(known.stores.iter().filter(|_| wish == Wish::Table));
        if is_of_system(folder) || own().any(|own| folder.starts_with(&own.path)) {
            return true;
        }
        let ids: Vec<Id> = folder.ancestors().filter_map(id_of).collect();
        own().any(|own| own.id.is_some_and(|id| ids.contains(&id)))
    }

    /// Whether a file, as [`real_path`] gives it, is the server's.
    pub(super) fn has_file(&self, file: &Path, metadata: Option<&Metadata>) -> bool {
        let named = |name: &str| FILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let is_named =
            file.file_name().is_some_and(|name| named(&name.to_string_lossy().to_ascii_lowercase()));
        self.has_single_file(file, metadata)
            || file.parent().is_some_and(|folder| {
                self.has_all_in(folder, Wish::Table) || (is_named && self.is_data_dir(folder))
            })
    }

    /// Whether a file is one of the server's that may lie beside others.
    pub(super) fn has_single_file(&self, file: &Path, metadata: Option<&Metadata>) -> bool {
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
