//! Reading everything, to find damage before a statement meets it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::{named_files, unit_files};
use super::queue::lock;
use super::recover::{load_unit, missing_log};
use super::replay::{Replayed, TornTail};
use super::{DiskStore, Environment};
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::files::{BlockFile, BlockKind, LogEntry, Manifest, is_ours, manifest_name};
use crate::oplog::log::{LogHeader, log_name, scan};
use crate::oplog::unit::{Zones, hash_seed};
use crate::oplog::vfs::Folder;

/// A file that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedFile {
    /// The file.
    pub file: PathBuf,
    /// Damaged places.
    pub damage: Vec<Damage>,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Every file of the store.
    pub files: Vec<CheckedFile>,
    /// The end of the log, if it is not whole. The next start cuts it.
    pub torn: Option<TornTail>,
    /// Files that are not part of the store, as an interrupted seal leaves them. They are removed in time.
    pub unused: Vec<PathBuf>,
    /// Live rows.
    pub rows: u64,
}

impl VerifyReport {
    /// All damage.
    pub fn damage(&self) -> impl Iterator<Item = &Damage> {
        self.files.iter().flat_map(|file| &file.damage)
    }

    fn add(&mut self, file: PathBuf, found: impl IntoIterator<Item = OplogError>) -> Result<()> {
        let mut damage = Vec::new();
        for error in found {
            match error {
                OplogError::Damaged(found) => damage.push(found),
                other => return Err(other),
            }
        }
        match self.files.iter_mut().find(|known| known.file == file) {
            Some(known) => known.damage.extend(
                damage.into_iter().filter(|damage| !known.damage.contains(damage)).collect::<Vec<_>>(),
            ),
            None => self.files.push(CheckedFile { file, damage }),
        }
        Ok(())
    }

    fn add_result(&mut self, folder: &Folder, name: &str, result: Result<()>) -> Result<()> {
        self.add(folder.path().join(name), result.err())
    }
}

/// Reads every byte of a store that no process has open, and changes nothing. An error means that a file could not be
/// read; damage is in the report.
pub fn verify(folder: &Path, environment: &Environment) -> Result<VerifyReport> {
    let folder = Folder::new(environment.disk.clone(), folder);
    let _lock = folder.lock("verification")?;
    let mut report = VerifyReport::default();
    let names = folder.list()?;
    let newest = Manifest::newest(&names);
    let number = newest.ok_or_else(|| OplogError::damaged(folder.path(), 0, "there is no manifest"))?;
    let manifest = match Manifest::load(&folder, number) {
        Ok((manifest, copy)) => {
            report.add(folder.path().join(manifest_name(number)), copy)?;
            manifest
        }
        Err(error) => {
            report.add(folder.path().join(manifest_name(number)), [error])?;
            return Ok(report);
        }
    };
    verify_files(&folder, &manifest, &mut report)?;
    verify_start(&folder, &manifest, &mut report)?;
    let named = named_files(&manifest);
    let unused = names.iter().filter(|name| is_ours(name) && !named.contains(*name));
    report.unused = unused.map(|name| folder.path().join(name)).collect();
    Ok(report)
}

/// Verifies all files of the manifest.
fn verify_files(folder: &Folder, manifest: &Manifest, report: &mut VerifyReport) -> Result<()> {
    for unit in &manifest.units {
        let mut whole = true;
        for (header, expected) in unit_files(manifest, unit) {
            let damage = match BlockFile::open(folder, &header, Some(&expected)) {
                Ok(file) => file.verify(),
                Err(error) => vec![error],
            };
            whole &= damage.is_empty();
            report.add(folder.path().join(header.name()), damage)?;
        }
        if let Some(meta) = manifest.tables.iter().find(|table| table.id == unit.table).filter(|_| whole) {
            verify_rows(folder, manifest, meta, unit, report)?;
        }
    }
    for log in manifest.logs.iter().filter(|log| log.number <= manifest.log.0) {
        report.add_result(folder, &log_name(log.number), verify_log(folder, manifest, log))?;
    }
    Ok(())
}

/// Checks that a unit's columns can be read, and that stored hashes and bounds match keys and values.
fn verify_rows(
    folder: &Folder,
    manifest: &Manifest,
    meta: &crate::oplog::meta::TableMeta,
    entry: &crate::oplog::files::UnitEntry,
    report: &mut VerifyReport,
) -> Result<()> {
    let mut files = unit_files(manifest, entry).into_iter().map(|(header, _)| header);
    let key =
        files.find(|header| header.kind == BlockKind::Keys).map(|header| header.name()).unwrap_or_default();
    let check = || {
        let unit = load_unit(folder, manifest, meta, entry)?;
        let Some(base) = &unit.data.base else { return Ok(()) };
        for column in 0..base.schema.columns.len() {
            let values = base.column(column)?;
            if base.is_sealed() && base.zones(column) != Zones::of(&values).as_ref() {
                let reason = "stored bounds are not those of the values";
                return Err(OplogError::damaged(&folder.path().join(&key), 64, reason));
            }
        }
        let hashes = base.load_keys()?.hashes(hash_seed(&manifest.store));
        if hashes == unit.hashes.as_slice() {
            return Ok(());
        }
        Err(OplogError::damaged(&folder.path().join(&key), 64, "stored hashes are not those of the keys"))
    };
    match check() {
        Err(OplogError::Damaged(damage)) => {
            let file = damage.file.clone();
            report.add(file, [OplogError::Damaged(damage)])
        }
        other => other,
    }
}

/// Whether all frames of a log that were confirmed when the manifest was written are valid.
fn verify_log(folder: &Folder, manifest: &Manifest, log: &LogEntry) -> Result<()> {
    let file = folder.open(&log_name(log.number)).map_err(|error| missing_log(folder, log.number, error))?;
    let header = LogHeader::read(&file, &manifest.store, log.number)?;
    let seed = LogHeader::seed(&manifest.store, log.number);
    let range = (LogHeader::BYTES as u64, log.bytes);
    let end = scan(&file, seed, range, Some(header.first_lsn), &mut |_, _| Ok(()))?;
    if end.whole { Ok(()) } else { Err(file.damaged(end.offset, "a frame that was confirmed is not valid")) }
}

/// Verifies the logs behind the manifest as a start would read them.
fn verify_start(folder: &Folder, manifest: &Manifest, report: &mut VerifyReport) -> Result<()> {
    let mut replayed = Replayed::of(folder, manifest)?;
    report.torn = replayed.torn.take();
    report.rows =
        replayed.tables.values().flat_map(|table| table.units()).map(|unit| u64::from(unit.live())).sum();
    let last = folder.path().join(log_name(replayed.last.0));
    report.add(last, None)?;
    let damaged = replayed.tables.values().flat_map(|table| &table.damage).chain(&replayed.damage);
    for damage in damaged {
        report.add(damage.file.clone(), [OplogError::Damaged(damage.clone())])?;
    }
    Ok(())
}

impl DiskStore {
    /// Reads every byte of the store as of its last checkpoint, while it works.
    pub fn verify(&self) -> Result<VerifyReport> {
        let manifest = self.pin();
        let mut report = VerifyReport::default();
        let checked = verify_files(&self.inner.folder, &manifest, &mut report);
        self.unpin();
        checked?;
        report.rows = self.tables().iter().map(|table| table.version().rows()).sum();
        Ok(report)
    }

    /// The manifest in force; its files stay until [`Self::unpin`].
    pub(super) fn pin(&self) -> Arc<Manifest> {
        let mut upkeep = lock(&self.inner.upkeep);
        upkeep.pins += 1;
        Arc::new(upkeep.manifest.clone())
    }

    pub(super) fn unpin(&self) {
        let mut upkeep = lock(&self.inner.upkeep);
        upkeep.pins = upkeep.pins.saturating_sub(1);
    }
}
