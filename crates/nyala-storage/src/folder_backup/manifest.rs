//! The manifest of a backup: which files it has, with their lengths and checksums.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crc32c::crc32c;

use super::error::{BackupError, Result};
use super::files::{Saved, check, copy, create_parent, require_empty, sync_folders};

/// Name of the manifest.
pub(super) const MANIFEST: &str = "backup.manifest";
const TITLE: &str = "nyala-backup 1";

/// The contents of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupManifest {
    /// Version of the catalog.
    pub catalog_version: u64,
    /// Time when it was begun, in milliseconds since the Unix epoch.
    pub made_at_ms: u64,
    /// Disk stores from outside of the data folder, by name, with their folders in the backup.
    pub moved: BTreeMap<String, String>,
    pub(super) files: BTreeMap<String, Saved>,
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

    pub(super) fn show(&self) -> String {
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
