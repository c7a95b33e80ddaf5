//! Backup and restore: a store's files, copied and checked.

use std::path::Path;

use super::replay::Replayed;
use super::verify::{VerifyReport, verify};
use super::{DiskStore, Environment};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{LogEntry, Manifest};
use crate::oplog::log::{LogHeader, log_name};
use crate::oplog::vfs::Folder;

const COPY_BYTES: usize = 1 << 20;

impl DiskStore {
    /// Copies the store, as it is now, to a folder that is missing or empty, while it works. The copy is
    /// verified.
    pub fn backup(&self, target: &Path) -> Result<VerifyReport> {
        let manifest = {
            self.checkpoint()?;
            self.pin()
        };
        let copied = copy(&self.inner.folder, &manifest, &manifest.logs, target, &self.inner.environment);
        self.unpin();
        copied?;
        verify(target, &self.inner.environment)
    }
}

/// Copies a store that no process has open, such as a backup or one left by a killed process, to a folder that is
/// missing or empty. A damaged store is refused; the end of the log that a start would cut off is left out.
pub fn restore(backup: &Path, target: &Path, environment: &Environment) -> Result<VerifyReport> {
    let found = verify(backup, environment)?;
    if let Some(damage) = found.damage().next() {
        return Err(OplogError::Damaged(damage.clone()));
    }
    let folder = Folder::new(environment.disk.clone(), backup);
    let _lock = folder.lock("restoration")?;
    let newest = Manifest::newest(&folder.list()?).unwrap_or_default();
    let (manifest, _) = Manifest::load(&folder, newest)?;
    // If the store was not closed, confirmed statements may lie behind the log ends in the manifest.
    let Replayed { mut logs, last: (last, _), .. } = Replayed::of(&folder, &manifest)?;
    logs.retain(|log| log.number <= last);
    copy(&folder, &manifest, &logs, target, environment)?;
    verify(target, environment)
}

/// Copies the files of a manifest, and logs up to their ends; the manifest last.
fn copy(
    source: &Folder,
    manifest: &Manifest,
    logs: &[LogEntry],
    target: &Path,
    environment: &Environment,
) -> Result<()> {
    let target = Folder::new(environment.disk.clone(), target);
    target.create()?;
    if let Some(name) = target.list()?.iter().find(|name| *name != "lock") {
        let path = target.path().display();
        return Err(OplogError::invalid(format!("folder `{path}` has `{name}` in it; choose an empty one")));
    }
    let units = manifest.units.iter().flat_map(|unit| super::checkpoint::unit_files(manifest, unit));
    for (header, file) in units {
        copy_file(source, &target, &header.name(), file.bytes)?;
    }
    let mut manifest = manifest.clone();
    manifest.logs.retain(|log| log.number <= manifest.log.0);
    for log in logs {
        copy_file(source, &target, &log_name(log.number), log.bytes.max(LogHeader::BYTES as u64))?;
    }
    target.sync()?;
    manifest.store(&target)
}

fn copy_file(source: &Folder, target: &Folder, name: &str, bytes: u64) -> Result<()> {
    let (from, to) = (source.open(name)?, target.create_file(name)?);
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < bytes {
        let piece = buffer.get_mut(..(bytes - at).min(COPY_BYTES as u64) as usize).unwrap_or_default();
        from.read_exact(piece, at)?;
        to.write_all(piece, at)?;
        at += piece.len() as u64;
    }
    to.sync()
}
