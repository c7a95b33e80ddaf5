//! Replaying the logs, from where the units end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::batch::Batch;
use super::commit::mark;
use super::progress::{Phase, Progress};
use super::recover::{load_tables, missing_log};
use crate::oplog::codec::In;
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::files::{HeldTable, LogEntry, Manifest};
use crate::oplog::log::{
    Frame, Kind, LogHeader, ScanEnd, confirmed_further_on, has_flipped_bit, log_name, log_number, scan,
    written_end,
};
use crate::oplog::meta::{SchemaVersion, TableMeta};
use crate::oplog::table::TableState;
use crate::oplog::unit::{LogRange, hash_seed};
use crate::oplog::vfs::{FileHandle, Folder};
use crate::oplog::write::PreparedWrite;

/// The end of a log that was being written when the process or the machine stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The log.
    pub file: PathBuf,
    /// Where the last whole frame ends.
    pub offset: u64,
    /// Bytes behind it; no statement in them was confirmed as durable.
    pub bytes: u64,
}

/// The state of a store, read from its files.
#[derive(Debug)]
pub struct Replayed {
    pub tables: BTreeMap<u32, TableState>,
    pub next_lsn: u64,
    pub next_table: u32,
    pub next_unit: u64,
    pub clock: Vec<(u64, u64)>,
    pub logs: Vec<LogEntry>,
    pub torn: Option<TornTail>,
    /// Damage in the logs: the frames behind it are unknown.
    pub damage: Option<Damage>,
    /// The newest log and where it ends.
    pub last: (u64, u64),
    /// Tables that changed in the logs behind the manifest.
    pub changed: BTreeSet<u32>,
    pub seed: u64,
    pub file: Arc<PathBuf>,
    /// The log that is being read, and the seed of its frames.
    source: Option<(FileHandle, u32)>,
    /// Rows that were read and are not applied yet.
    pub batch: Option<Batch>,
}

impl Replayed {
    pub fn new(manifest: &Manifest, tables: BTreeMap<u32, TableState>, seed: u64) -> Self {
        Self {
            tables,
            next_lsn: manifest.lsn + 1,
            next_table: manifest.next_table,
            next_unit: manifest.next_unit,
            clock: manifest.clock.clone(),
            logs: manifest.logs.clone(),
            torn: None,
            damage: None,
            last: manifest.log,
            changed: BTreeSet::new(),
            seed,
            file: Arc::default(),
            source: None,
            batch: None,
        }
    }

    /// The store of a manifest, as a start would find it. No file is changed.
    pub fn of(folder: &Folder, manifest: &Manifest) -> Result<Self> {
        let progress = Progress::default();
        let tables = load_tables(folder, manifest, 1, &progress)?;
        let mut replayed = Self::new(manifest, tables, hash_seed(&manifest.store));
        replayed.run(folder, manifest, &progress)?;
        Ok(replayed)
    }

    /// Reads all logs from the manifest's position on.
    pub fn run(&mut self, folder: &Folder, manifest: &Manifest, progress: &Progress) -> Result<()> {
        progress.enter(Phase::Log);
        manifest.held.iter().try_for_each(|held| self.catch_up(folder, manifest, held))?;
        let newest = folder.list()?.iter().filter_map(|name| log_number(name)).max().unwrap_or_default();
        let (first, mut from) = manifest.log;
        for number in first..=newest.max(first) {
            match self.read_log(folder, manifest, number, from, newest, progress) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(OplogError::Damaged(damage)) => {
                    self.tables.values_mut().for_each(|table| table.damage.push(damage.clone()));
                    self.damage = Some(damage);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            from = LogHeader::BYTES as u64;
        }
        Ok(())
    }

    /// Reads the changes of a held table. Damage there affects only that table.
    fn catch_up(&mut self, folder: &Folder, manifest: &Manifest, held: &HeldTable) -> Result<()> {
        match self.read_held(folder, manifest, held) {
            Err(OplogError::Damaged(damage)) => {
                if let Some(table) = self.tables.get_mut(&held.table) {
                    table.note(damage);
                    table.incomplete = true;
                }
                Ok(())
            }
            done => done,
        }
    }

    fn read_held(&mut self, folder: &Folder, manifest: &Manifest, held: &HeldTable) -> Result<()> {
        let (mut from, mut next_lsn) = (held.from.1, Some(held.lsn + 1));
        for number in held.from.0..=held.to.0 {
            let known = manifest.logs.iter().find(|log| log.number == number);
            if known.is_none() && held.from.0 < number && number < held.to.0 {
                // The log was removed, because it had no frame of the table.
                (from, next_lsn) = (LogHeader::BYTES as u64, None);
                continue;
            }
            let file = folder.open(&log_name(number)).map_err(|error| missing_log(folder, number, error))?;
            let seed =
                LogHeader::seed(&manifest.store, LogHeader::read(&file, &manifest.store, number)?.number);
            let to = known.filter(|_| number < held.to.0).map_or(held.to.1, |log| log.bytes);
            next_lsn = next_lsn.or(known.map(|log| log.first_lsn));
            self.enter(&file, seed);
            let end = scan(&file, seed, (from, to), next_lsn, &mut |offset, frame| {
                let of_rows = !matches!(frame.kind, Kind::CreateTable | Kind::DropTable | Kind::Clock);
                if of_rows && frame.table == held.table {
                    self.change((number, offset), frame)
                } else {
                    Ok(())
                }
            })?;
            self.apply_batch()?;
            if !end.whole {
                return Err(file.damaged(end.offset, "a frame that was confirmed is not valid"));
            }
            if let Some(table) = self.tables.get_mut(&held.table) {
                table.freeze(end.offset);
            }
            (from, next_lsn) = (LogHeader::BYTES as u64, Some(end.next_lsn));
        }
        Ok(())
    }

    /// Reads one log; false if it is the last one.
    fn read_log(
        &mut self,
        folder: &Folder,
        manifest: &Manifest,
        number: u64,
        from: u64,
        newest: u64,
        progress: &Progress,
    ) -> Result<bool> {
        let file = folder.open(&log_name(number)).map_err(|error| missing_log(folder, number, error))?;
        let header = LogHeader::read(&file, &manifest.store, number)?;
        let seed = LogHeader::seed(&manifest.store, number);
        let bytes = file.bytes()?;
        let closed = self.closed_at(folder, manifest, number, newest)?;
        let to = closed.unwrap_or(bytes);
        if bytes < to || bytes < from {
            return Err(file.damaged(bytes, format!("the log ends here, not at byte {}", to.max(from))));
        }
        if from == LogHeader::BYTES as u64 && header.first_lsn != self.next_lsn {
            return Err(file.damaged(40, format!("the log begins with another LSN than {}", self.next_lsn)));
        }
        self.enter(&file, seed);
        progress.log_bytes_total.fetch_add(to - from, Relaxed);
        let end = scan(&file, seed, (from, to), Some(self.next_lsn), &mut |offset, frame| {
            progress.log_bytes_done.fetch_add(frame.bytes(), Relaxed);
            self.apply((number, offset), frame)
        })?;
        self.apply_batch()?;
        // Bytes behind the last frame were read, too.
        progress.log_bytes_done.fetch_add(to.saturating_sub(end.offset), Relaxed);
        self.next_lsn = end.next_lsn;
        self.finish_log(&file, seed, (number, header), end, (to, closed.is_some()))?;
        Ok(closed.is_some())
    }

    fn enter(&mut self, file: &FileHandle, seed: u32) {
        self.file = Arc::new(file.path().to_owned());
        self.source = Some((file.clone(), seed));
    }

    /// A part of the log that is being read.
    pub fn range(&self, from: u64, to: u64) -> Option<LogRange> {
        let (file, seed) = self.source.clone()?;
        Some(LogRange { file, seed, from, to })
    }

    fn finish_log(
        &mut self,
        file: &FileHandle,
        seed: u32,
        (number, header): (u64, LogHeader),
        end: ScanEnd,
        (to, closed): (u64, bool),
    ) -> Result<()> {
        // A log that was being written has filler behind its end. A frame may end with the same bytes: searches for
        // frames go to the end of the file.
        let written = if closed || end.whole { to } else { written_end(file, end.offset, to)? };
        if end.offset != written {
            if closed || confirmed_further_on(file, seed, end.offset, to, end.next_lsn)? {
                return Err(file.damaged(end.offset, "a frame that was confirmed is not valid"));
            }
            if has_flipped_bit(file, seed, end.offset, to)? {
                return Err(file.damaged(end.offset, "one bit of a frame is wrong"));
            }
            let tail =
                TornTail { file: file.path().to_owned(), offset: end.offset, bytes: written - end.offset };
            self.torn = Some(tail);
        }
        self.last = (number, end.offset);
        let entry = LogEntry { number, first_lsn: header.first_lsn, bytes: end.offset };
        self.logs.retain(|known| known.number != number);
        self.logs.push(entry);
        self.tables.values_mut().for_each(|table| table.freeze(end.offset));
        Ok(())
    }

    /// Where a log ends, if another one follows. The newest one may be unfinished: then it has no frames.
    fn closed_at(
        &self,
        folder: &Folder,
        manifest: &Manifest,
        number: u64,
        newest: u64,
    ) -> Result<Option<u64>> {
        if number >= newest {
            return Ok(None);
        }
        let next = number + 1;
        let file = folder.open(&log_name(next)).map_err(|error| missing_log(folder, next, error))?;
        match LogHeader::read(&file, &manifest.store, next) {
            Ok(header) => Ok(Some(header.previous_end)),
            Err(error) if next < newest || error.damage().is_none() => Err(error),
            Err(error) => {
                let bytes = file.bytes()?;
                if bytes > LogHeader::BYTES as u64 { Err(error) } else { Ok(None) }
            }
        }
    }

    fn apply(&mut self, log: (u64, u64), frame: Frame<'_>) -> Result<()> {
        if !(frame.kind.is_write() || frame.kind == Kind::Clock) {
            self.apply_batch()?;
        }
        let understood = match frame.kind {
            Kind::CreateTable => self.create(frame),
            Kind::Clock => In(frame.payload).u64().map(|now| mark(&mut self.clock, frame.lsn, now)),
            Kind::DropTable => self.tables.remove(&frame.table).map(drop),
            _ => {
                self.changed.insert(frame.table);
                return self.change(log, frame);
            }
        };
        understood.ok_or_else(|| OplogError::damaged(&self.file, log.1, "the frame makes no sense"))
    }

    fn create(&mut self, frame: Frame<'_>) -> Option<()> {
        let meta = TableMeta::read(&mut In(frame.payload)).filter(|meta| meta.id == frame.table)?;
        self.next_table = self.next_table.max(meta.id + 1);
        self.tables.insert(meta.id, TableState::new(Arc::new(meta), frame.lsn));
        Some(())
    }

    fn change(&mut self, log: (u64, u64), frame: Frame<'_>) -> Result<()> {
        if let (Some(label), Some(table)) = (frame.label, self.tables.get_mut(&frame.table)) {
            table.labels.add(label.name(), label.done(frame.lsn));
        }
        if frame.kind == Kind::Write && self.add_to_batch(log, &frame)? {
            return Ok(());
        }
        self.apply_batch()?;
        let senseless = || OplogError::damaged(&self.file, log.1, "the frame makes no sense");
        let range = self.range(log.1, log.1 + frame.bytes()).ok_or_else(senseless)?;
        let table = self.tables.get_mut(&frame.table).ok_or_else(senseless)?;
        match frame.kind {
            Kind::Write | Kind::WriteExact => {
                let write =
                    PreparedWrite::decode(frame.payload, &table.meta, self.seed).ok_or_else(senseless)?;
                let rows = write.deletes.iter().chain(&write.upserts);
                if frame.kind == Kind::WriteExact {
                    load_keys(table, rows.flat_map(|rows| &rows.hashes))?;
                }
                table.replay(&write, frame.lsn, &mut self.next_unit, (log.0, range));
            }
            Kind::Truncate => drop(table.truncate(frame.lsn)),
            Kind::Expire => {
                let bound = In(frame.payload).var().ok_or_else(senseless)?;
                table.expire(bound, frame.lsn);
            }
            _ => {
                let number = table.meta.versions.len() as u32;
                let version = SchemaVersion::read(&mut In(frame.payload), number, &table.meta.key);
                table.alter(version.ok_or_else(senseless)?, frame.lsn, log.1);
            }
        }
        Ok(())
    }
}

/// Reads the keys that rows with these hashes must be compared with. If these keys are damaged, so is the table.
fn load_keys<'a>(table: &mut TableState, hashes: impl Iterator<Item = &'a u64>) -> Result<()> {
    for base in table.keys_needed(hashes) {
        match base.load_keys() {
            Ok(_) => {}
            Err(OplogError::Damaged(damage)) => {
                table.note(damage);
                table.incomplete = true;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
