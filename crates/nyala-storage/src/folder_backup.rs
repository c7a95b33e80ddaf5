//! Backups of a data folder: files, and a manifest that is written last.
//!
//! ```text
//! nyala-backup 1
//! catalog-version 57
//! made-at-ms 1764073331123
//! file 20480 9ae0daaf catalog.sqlite          bytes, CRC-32C, path
//! file 18311 02fd3c11 cubes/11/01a1…/5-0.parquet
//! moved stores/moved-0 fast                   a disk store from elsewhere: its folder here, and its name
//! moved-hex stores/moved-1 610a62             the same, of a name that is not of one line
//! end 2 6a2c03d5                              number of files, CRC-32C of all lines before
//! ```
//!
//! A folder without an intact manifest is no backup. Files of a backup never change, so that a later backup
//! may share them by hard links.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crc32c::{crc32c, crc32c_append};

/// Name of the manifest.
const MANIFEST: &str = "backup.manifest";
const TITLE: &str = "nyala-backup 1";
const READ_BYTES: usize = 1 << 20;

/// Why a backup cannot be made or used; the message names the file.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The operating system reported an error.
    #[error("cannot use `{}`: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The folder has contents.
    #[error("folder `{}` is not empty; choose one that is empty or missing", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The manifest is missing or damaged.
    #[error("`{}` is no whole backup: {reason}", path.display())]
    NoBackup {
        /// The folder.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// A file differs from the saved one.
    #[error("file `{}` of the backup is damaged: {reason}; take another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
}

type Result<T, E = BackupError> = std::result::Result<T, E>;

/// One file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Saved {
    bytes: u64,
    crc: u32,
}

/// The contents of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupManifest {
    /// Version of the catalog.
    pub catalog_version: u64,
    /// Time when it was begun, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// Disk stores from outside of the data folder, by name, with their folders in the backup.
    pub moved: BTreeMap<String, String>,
    files: BTreeMap<String, Saved>,
}

impl BackupManifest {
    /// Reads the manifest of the backup in `folder`.
    ///
    /// # Errors
    /// [`BackupError::NoBackup`] if it is missing or damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let no_backup =
            |reason: &str| BackupError::NoBackup { path: folder.to_owned(), reason: reason.to_owned() };
        let text = match std::fs::read_to_string(folder.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(no_backup("it has no `backup.manifest`, which is written last"));
            }
            Err(error) => return Err(no_backup(&error.to_string())),
        };
        Self::parse(&text).ok_or_else(|| no_backup("its `backup.manifest` is damaged"))
    }

    fn parse(text: &str) -> Option<Self> {
        let body = text.strip_suffix('\n')?;
        let (body, end) = body.rsplit_once('\n').map(|(body, end)| (format!("{body}\n"), end))?;
        let (count, crc) = end.strip_prefix("end ")?.split_once(' ')?;
        if crc != show_crc(crc32c(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        let mut manifest = Self::default();
        if lines.next()? != TITLE {
            return None;
        }
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "catalog-version" => manifest.catalog_version = value.parse().ok()?,
                "made-at-ms" => manifest.made_at_ms = value.parse().ok()?,
                "moved" => {
                    let (folder, name) = value.split_once(' ')?;
                    manifest.moved.insert(name.to_owned(), folder.to_owned());
                }
                "moved-hex" => {
                    let (folder, name) = value.split_once(' ')?;
                    manifest.moved.insert(from_hex(name)?, folder.to_owned());
                }
                "file" => {
                    let mut parts = value.splitn(3, ' ');
                    let bytes = parts.next()?.parse().ok()?;
                    let crc = u32::from_str_radix(parts.next()?, 16).ok()?;
                    manifest.files.insert(parts.next()?.to_owned(), Saved { bytes, crc });
                }
                _ => return None,
            }
        }
        (count.parse() == Ok(manifest.files.len())).then_some(manifest)
    }

    fn show(&self) -> String {
        let mut text =
            format!("{TITLE}\ncatalog-version {}\nmade-at-ms {}\n", self.catalog_version, self.made_at_ms);
        for (name, folder) in &self.moved {
            text += &match name.contains(char::is_control) {
                true => format!("moved-hex {folder} {}\n", hex(name)),
                false => format!("moved {folder} {name}\n"),
            };
        }
        for (path, Saved { bytes, crc }) in &self.files {
            text += &format!("file {bytes} {} {path}\n", show_crc(*crc));
        }
        let crc = show_crc(crc32c(text.as_bytes()));
        text + &format!("end {} {crc}\n", self.files.len())
    }

    /// Number of files, and their total bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.files.len(), self.files.values().map(|file| file.bytes).sum())
    }

    /// Compares every file of the backup in `folder` with its length and checksum in the manifest.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] with the first file that differs.
    pub fn verify(&self, folder: &Path) -> Result<()> {
        self.files.iter().try_for_each(|(name, saved)| check(&folder.join(name), *saved))
    }

    /// Copies every file to `target`, a missing or empty folder, and verifies the copies, which are durable
    /// when this returns.
    ///
    /// # Errors
    /// [`BackupError::NotEmpty`], or [`BackupError::Damaged`] with the file.
    pub fn copy_to(&self, folder: &Path, target: &Path) -> Result<()> {
        require_empty(target)?;
        for (name, saved) in &self.files {
            let (from, to) = (folder.join(name), target.join(name));
            create_parent(&to)?;
            copy(&from, &to)?;
            check(&to, *saved).map_err(|error| match error {
                BackupError::Damaged { reason, .. } => BackupError::Damaged { path: from, reason },
                error => error,
            })?;
        }
        sync_folders(target)
    }
}

/// A backup in progress.
#[derive(Debug)]
pub struct NewBackup {
    folder: PathBuf,
    base: Option<(PathBuf, BackupManifest)>,
    manifest: BackupManifest,
}

impl NewBackup {
    /// Begins a backup in `folder`, which is missing or empty. Equal files of `base`, a backup, are shared.
    ///
    /// # Errors
    /// [`BackupError::NotEmpty`]; [`BackupError::NoBackup`] about `base`.
    pub fn begin(folder: &Path, base: Option<&Path>, made_at_ms: u64) -> Result<Self> {
        let base = base.map(|base| Ok((base.to_owned(), BackupManifest::read(base)?))).transpose()?;
        require_empty(folder)?;
        let manifest = BackupManifest { made_at_ms, ..BackupManifest::default() };
        Ok(Self { folder: folder.to_owned(), base, manifest })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds an immutable file under a name that no other file ever has: by a hard link, else by a copy.
    pub fn link(&mut self, source: &Path, name: &str) -> Result<()> {
        let target = self.folder.join(name);
        create_parent(&target)?;
        let bytes = std::fs::metadata(source).map_err(failed(source))?.len();
        let known =
            self.base.as_ref().and_then(|(base, saved)| Some((base.join(name), *saved.files.get(name)?)));
        if let Some((old, saved)) = known
            && saved.bytes == bytes
            && std::fs::hard_link(&old, &target).is_ok()
        {
            check(&target, saved)?;
            self.manifest.files.insert(name.to_owned(), saved);
            return Ok(());
        }
        if std::fs::hard_link(source, &target).is_err() {
            copy(source, &target)?;
        }
        self.note(name)
    }

    /// Adds all files of a folder within the backup, written there before.
    pub fn add_folder(&mut self, name: &str) -> Result<()> {
        let folder = self.folder.join(name);
        for entry in std::fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            if let Some(file) = entry.file_name().to_str() {
                self.add(&format!("{name}/{file}"))?;
            }
        }
        Ok(())
    }

    /// Adds a file written to the backup before; replaces it by the base's file if both are equal.
    pub fn add(&mut self, name: &str) -> Result<()> {
        self.note(name)?;
        let saved = self.manifest.files.get(name).copied();
        let same = self.base.as_ref().filter(|(_, base)| base.files.get(name).copied() == saved);
        if let Some((base, _)) = same {
            let (target, beside) = (self.folder.join(name), self.folder.join(format!("{name}.linking")));
            if std::fs::hard_link(base.join(name), &beside).is_ok() {
                if let Some(saved) = saved {
                    check(&beside, saved)?;
                }
                std::fs::rename(&beside, &target).map_err(failed(&target))?;
            }
        }
        Ok(())
    }

    /// Records that a disk store from elsewhere is in `folder` of the backup.
    pub fn add_moved(&mut self, store: &str, folder: &str) {
        self.manifest.moved.insert(store.to_owned(), folder.to_owned());
    }

    /// Writes the manifest, after everything else is durable.
    pub fn finish(mut self, catalog_version: u64) -> Result<BackupManifest> {
        self.manifest.catalog_version = catalog_version;
        sync_folders(&self.folder)?;
        let (path, new) = (self.folder.join(MANIFEST), self.folder.join("backup.unfinished"));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(self.manifest.show().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(failed(&path))?;
        Ok(self.manifest)
    }

    fn note(&mut self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        let saved = sum(&path)?;
        File::open(&path).and_then(|file| file.sync_all()).map_err(failed(&path))?;
        self.manifest.files.insert(name.to_owned(), saved);
        Ok(())
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path: path.clone(), source }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Option<String> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok()
}

fn show_crc(crc: u32) -> String {
    format!("{crc:08x}")
}

/// Creates a missing folder, with mode 0700: a backup holds the verifiers of passwords.
fn require_empty(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(failed(folder))?;
    match std::fs::read_dir(folder).map_err(failed(folder))?.next() {
        None => Ok(()),
        Some(_) => Err(BackupError::NotEmpty { path: folder.to_owned() }),
    }
}

fn create_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder).map_err(failed(folder)),
        None => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(failed(from))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(failed(to))
}

fn check(path: &Path, saved: Saved) -> Result<()> {
    let found = sum(path)
        .map_err(|error| BackupError::Damaged { path: path.to_owned(), reason: error.to_string() })?;
    if found == saved {
        return Ok(());
    }
    let reason = match found.bytes == saved.bytes {
        true => "its checksum does not match".to_owned(),
        false => format!("it has {} bytes, but {} were saved", found.bytes, saved.bytes),
    };
    Err(BackupError::Damaged { path: path.to_owned(), reason })
}

fn sum(path: &Path) -> Result<Saved> {
    let mut file = File::open(path).map_err(failed(path))?;
    let (mut buffer, mut saved) = (vec![0; READ_BYTES], Saved { bytes: 0, crc: 0 });
    loop {
        match file.read(&mut buffer).map_err(failed(path))? {
            0 => return Ok(saved),
            bytes => {
                saved.crc = crc32c_append(saved.crc, buffer.get(..bytes).unwrap_or_default());
                saved.bytes += bytes as u64;
            }
        }
    }
}

/// Makes the names in a folder and all its subfolders durable.
fn sync_folders(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_dir() {
            sync_folders(&path)?;
        }
    }
    File::open(folder).and_then(|file| file.sync_all()).map_err(failed(folder))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nyala-backup-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    /// A backup of a linked file and a written one.
    fn backup(data: &Path, folder: &Path, base: Option<&Path>, written: &str) -> BackupManifest {
        let mut backup = NewBackup::begin(folder, base, 7).unwrap();
        backup.link(&data.join("a b"), "cubes/a b").unwrap();
        std::fs::create_dir_all(folder.join("stores/s")).unwrap();
        std::fs::write(folder.join("stores/s/log"), written).unwrap();
        backup.add_folder("stores/s").unwrap();
        backup.add_moved("fast one", "stores/s");
        // The name of a disk store may be anything.
        backup.add_moved("of two\nlines\r", "stores/t");
        backup.finish(57).unwrap()
    }

    #[test]
    fn a_backup_is_verified_byte_by_byte_and_shared_with_the_next() {
        let (data, first, second, target) = (folder("data"), folder("1"), folder("2"), folder("target"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("a b"), "cells").unwrap();
        let made = backup(&data, &first, None, "rows");
        assert_eq!(BackupManifest::read(&first).unwrap(), made);
        assert_eq!((made.size(), made.moved["fast one"].as_str()), ((2, 9), "stores/s"));
        let next = backup(&data, &second, Some(&first), "rows");
        assert_eq!(next.files, made.files);
        next.copy_to(&second, &target).unwrap();
        assert_eq!(std::fs::read(target.join("stores/s/log")).unwrap(), b"rows");
        assert!(matches!(next.copy_to(&second, &target), Err(BackupError::NotEmpty { .. })));
        assert!(matches!(NewBackup::begin(&first, None, 0), Err(BackupError::NotEmpty { .. })));
        for file in ["stores/s/log", MANIFEST] {
            let path = first.join(file);
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 4;
                // Written anew, not changed in place: the other backup has the same file.
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, &flipped).unwrap();
                let found = BackupManifest::read(&first).and_then(|manifest| manifest.verify(&first));
                let text = found.unwrap_err().to_string();
                assert!(text.contains("stores/s/log") || text.contains("no whole backup"), "{text}");
            }
            std::fs::write(&path, &whole).unwrap();
        }
        std::fs::remove_file(first.join(MANIFEST)).unwrap();
        assert!(BackupManifest::read(&first).unwrap_err().to_string().contains("which is written last"));
        [data, first, second, target].iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }
}
