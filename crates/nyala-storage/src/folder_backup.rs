//! Backups of a data folder: files, and a manifest that is written last.
//!
//! ```text
//! nyala-backup 1
//! catalog-version 57
//! made-at-ms 1764073331123
//! file 20480 9ae0daaf catalog.sqlite          bytes, CRC-32C, path
//! file 18311 02fd3c11 cubes/11/01a1…/5-0.parquet
//! moved stores/moved-0 fast                   a disk store from elsewhere: its folder here, and its name
//! moved-hex stores/moved-1 610a62             such a store, its name in hexadecimal because it is not one line
//! end 2 6a2c03d5                              number of files, CRC-32C of all lines before
//! ```
//!
//! A folder without an intact manifest is no backup. Files of a backup never change, so that a later backup
//! may share them by hard links.

mod error;
mod files;
mod manifest;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

pub use error::BackupError;
pub use manifest::BackupManifest;

use error::Result;
use files::{check, copy, create_parent, failed, require_empty, sum, sync_folders};
use manifest::MANIFEST;

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

    /// The backup's folder.
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
                // Writes the file anew instead of changing it: the other backup shares it by a hard link.
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
