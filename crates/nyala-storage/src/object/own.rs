//! The server's own files, which no table may read and no client may write, under any path.
//!
//! Paths are compared after symbolic links are resolved, and folders also by device and inode, which detects
//! bind mounts and other spellings in a case-insensitive file system. A hard link to a file is another name
//! of it that no path shows: only the single files here (configuration, keys, logs, catalog) are compared by
//! inode, too.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;

/// Files about the operating system and its processes. Files in shared memory are ordinary data.
const SYSTEM_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];
const MEMORY_FOLDER: &str = "/dev/shm";

/// Folders within a data folder that the server writes.
const SERVER_FOLDERS: [&str; 5] = ["block-cache", "catalog-backups", "cubes", "set-aside", "tmp"];
/// Disk stores without a folder elsewhere, within the data folder.
const STORES_FOLDER: &str = "stores";

/// Prefixes of the server's files directly in the data folder: the catalog, with the files of SQLite and of
/// catalog upkeep beside it, and the lock.
const FILE_PREFIXES: [&str; 2] = ["catalog", "nyala."];
/// Files of the catalog that are also compared by inode.
const CATALOG_FILES: [&str; 2] = ["catalog.sqlite", "catalog.sqlite-wal"];

/// Device and inode.
type Id = (u64, u64);

/// The server's own folders and files.
#[derive(Debug)]
pub struct OwnPaths {
    data_dir: Option<PathBuf>,
    /// Folders of the server outside of the data folder.
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    known: ArcSwap<Known>,
}

/// The server's own paths, with links resolved.
#[derive(Debug, Default)]
struct Known {
    data_dir: Option<Folder>,
    /// Folders of the server, with all their contents.
    folders: Vec<Folder>,
    /// Folders of disk stores, with all their contents.
    stores: Vec<Folder>,
    files: Vec<PathBuf>,
    /// Files with a link in their path, as they are spelled. Kubernetes changes links of mounted secrets while the server runs.
    linked: Vec<PathBuf>,
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

/// The use of a path: folders of disk stores are allowed for one use only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// A client reads rows from it.
    Table,
    /// A disk store is to lie in it, which the folders of disk stores are for.
    Store,
}

impl OwnPaths {
    /// No paths of the server: only the operating system's files are refused.
    pub fn none() -> Self {
        Self { data_dir: None, folders: Vec::new(), files: Vec::new(), known: ArcSwap::default() }
    }

    /// A data folder, and files elsewhere. Empty names are ignored.
    pub fn new(data_dir: &Path, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter().filter(|file| !file.as_os_str().is_empty());
        let files = files.map(|file| std::path::absolute(&file).unwrap_or(file)).collect();
        let (folders, known) = (Vec::new(), ArcSwap::default());
        let own = Self { data_dir: Some(data_dir.to_owned()), folders, files, known };
        own.set_stores(std::iter::empty());
        own
    }

    /// Adds a folder outside of the data folder, with all its contents.
    #[must_use]
    pub fn with_folder(mut self, folder: PathBuf) -> Self {
        self.folders.push(folder);
        self.set_stores(std::iter::empty());
        self
    }

    /// Sets the present folders of disk stores. Links are resolved anew.
    pub fn set_stores(&self, stores: impl IntoIterator<Item = PathBuf>) {
        let data_dir = self.data_dir.as_deref();
        let below = |names: &[&str]| -> Vec<PathBuf> {
            data_dir.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name))).collect()
        };
        let files: Vec<PathBuf> = self.files.iter().cloned().chain(below(&CATALOG_FILES)).collect();
        let known = Known {
            data_dir: data_dir.map(Folder::of),
            folders: below(&SERVER_FOLDERS)
                .iter()
                .chain(&self.folders)
                .map(|folder| Folder::of(folder))
                .collect(),
            stores: below(&[STORES_FOLDER])
                .into_iter()
                .chain(stores)
                .map(|folder| Folder::of(&folder))
                .collect(),
            linked: files.iter().filter(|file| real_path(file) != **file).cloned().collect(),
            files: files.iter().map(|file| real_path(file)).collect(),
        };
        self.known.store(known.into());
    }

    /// Whether a folder, as [`real_path`] gives it, is the data folder or in a folder of the
    /// server.
    pub(super) fn has_folder(&self, folder: &Path, wish: Wish) -> bool {
        self.is_data_dir(folder) || self.has_all_in(folder, wish)
    }

    /// Whether a path, as [`real_path`] gives it, lies anywhere in the data folder.
    pub(super) fn is_within_data(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.is_data_dir(folder))
    }

    fn is_data_dir(&self, folder: &Path) -> bool {
        self.known.load().data_dir.as_ref().is_some_and(|data_dir| data_dir.is(folder))
    }

    /// Whether all contents of this folder are the server's or the system's.
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

    /// Whether a file is a single file of the server, which may lie in any folder.
    pub(super) fn has_single_file(&self, file: &Path, metadata: Option<&Metadata>) -> bool {
        let known = self.known.load();
        let linked = metadata.filter(|metadata| metadata.nlink() > 1).map(id);
        let is = |own: &Path| own == file || (linked.is_some() && linked == id_of(own));
        known.files.iter().any(|own| is(own)) || known.linked.iter().any(|own| is(&real_path(own)))
    }

    /// Whether this folder, as [`real_path`] gives it, contains one of the server or system.
    pub(super) fn lies_in(&self, folder: &Path) -> bool {
        let known = self.known.load();
        let mut all = known.data_dir.iter().chain(&known.folders).chain(&known.stores);
        all.any(|own| own.path.starts_with(folder))
            || SYSTEM_FOLDERS.iter().any(|own| Path::new(own).starts_with(folder))
    }
}

/// Whether a path, as spelled, is the operating system's.
pub fn is_of_system(path: &Path) -> bool {
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
        // Joining an empty rest would add a slash at the end, with which no file is found.
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    };
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}
