//! The committer: orders statements, writes them to the log, makes them durable, then visible.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::failure;
use super::group::{check, must_sync, next_group};
use super::inner::Inner;
use super::queue::{Committed, Pending, Request};
use super::replay::Replayed;
use crate::oplog::codec::Out;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::LogEntry;
use crate::oplog::log::{Kind, Log, LogHeader, Record, TABLE_LIMIT};
use crate::oplog::meta::{SchemaVersion, TableMeta};
use crate::oplog::table::{SharedTable, TableState};

/// A clock frame is written when so much time has passed since the last one.
const CLOCK_MS: u64 = 1000;
/// So many clock marks are kept; older ones are thinned out.
const CLOCK_MARKS: usize = 1024;

/// Who writes the log.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) log: Log,
    pub(crate) next_lsn: u64,
    pub(crate) next_table: u32,
    pub(crate) next_unit: u64,
    /// LSNs with a time at or before which all up to there was written.
    pub(crate) clock: Vec<(u64, u64)>,
    /// Logs that are kept, the newest last.
    pub(crate) logs: Vec<LogEntry>,
    /// A new log could not be made, but may be there after a crash and say that this one ends here. Nothing
    /// may be written before it is made.
    rotation_owed: bool,
}

/// A change that is checked and waits for its record to be durable.
enum Change {
    Write(Arc<SharedTable>, Box<crate::oplog::write::PreparedWrite>),
    Truncate(Arc<SharedTable>),
    Expire(Arc<SharedTable>, u64),
    Create(TableMeta),
    Drop(u32),
    Alter(Arc<SharedTable>, SchemaVersion),
    Clock(u64),
}

impl Committer {
    /// After a start: what was replayed, and a new log.
    pub(crate) fn new(replayed: Replayed, log: Log) -> Self {
        let Replayed { next_lsn, next_table, next_unit, clock, mut logs, .. } = replayed;
        logs.retain(|known| known.number != log.number);
        logs.push(LogEntry { number: log.number, first_lsn: next_lsn, bytes: log.end });
        Self { log, next_lsn, next_table, next_unit, clock, logs, rotation_owed: false }
    }

    /// Commits all of them, group by group.
    pub(super) fn commit(&mut self, inner: &Inner, mut waiting: VecDeque<Pending>) {
        while !waiting.is_empty() {
            let group = next_group(&mut waiting);
            self.commit_group(inner, group);
        }
    }

    fn commit_group(&mut self, inner: &Inner, group: Vec<Pending>) {
        if let Err(error) = self.rotate_if_owed(inner) {
            group.iter().for_each(|pending| pending.ticket.complete(Err(error.clone())));
            return;
        }
        let sync = must_sync(&group);
        let (mut changes, mut records, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
        if let Some((change, record)) = self.tick(inner) {
            changes.push(change);
            records.push(record);
            tickets.push(None);
        }
        let marks = records.len();
        for Pending { request, ticket } in group {
            match self.prepare(inner, request) {
                Err(error) => ticket.complete(Err(error)),
                Ok(None) => ticket.complete(Ok(Committed { lsn: inner.last_lsn(), ..Committed::default() })),
                Ok(Some((change, record))) => {
                    changes.push(change);
                    records.push(record);
                    tickets.push(Some(ticket));
                }
            }
        }
        if records.len() == marks {
            return;
        }
        let from = self.log.end;
        if let Err(error) = self.write(&records, sync) {
            let error = failure::after_write(self, inner, from, error);
            tickets.iter().flatten().for_each(|ticket| ticket.complete(Err(error.clone())));
            return;
        }
        let mut at = from;
        for ((change, record), ticket) in changes.into_iter().zip(&records).zip(tickets) {
            let committed = self.apply(inner, change, at);
            at += record.bytes();
            if let Some(ticket) = ticket {
                ticket.complete(Ok(committed));
            }
        }
    }

    fn write(&mut self, records: &[Record], sync: bool) -> Result<()> {
        self.log.append(records, self.next_lsn)?;
        if sync { self.log.sync() } else { Ok(()) }
    }

    /// A clock frame, if it is time for one.
    fn tick(&self, inner: &Inner) -> Option<(Change, Record)> {
        let now = inner.environment.clock.now_ms();
        let last = self.clock.last().map_or(0, |(_, ms)| *ms);
        let due = now >= last.saturating_add(CLOCK_MS);
        due.then(|| (Change::Clock(now), Record::new(Kind::Clock, 0, now.to_le_bytes().to_vec())))
    }

    /// Checks a statement; gives nothing if there is nothing to do.
    fn prepare(&self, inner: &Inner, request: Request) -> Result<Option<(Change, Record)>> {
        let record = |kind, table: &SharedTable, payload| Record::new(kind, table.meta().id, payload);
        let mut out = Out::default();
        Ok(Some(match request {
            Request::Write { table, write, record } => {
                check(inner, &table, &write)?;
                if write.deletes.is_none() && write.upserts.is_none() {
                    return Ok(None);
                }
                (Change::Write(table, Box::new(write)), record)
            }
            Request::Truncate { table } => {
                self.check_table(inner, &table)?;
                let record = record(Kind::Truncate, &table, Vec::new());
                (Change::Truncate(table), record)
            }
            Request::Expire { table, before_ms } => {
                self.check_table(inner, &table)?;
                table.read().check_whole()?;
                let bound = self.lsn_at(before_ms);
                if !table.read().has_expired(bound) {
                    return Ok(None);
                }
                out.var(bound);
                let record = record(Kind::Expire, &table, out.0);
                (Change::Expire(table, bound), record)
            }
            Request::Create { spec } => {
                inner.check_writable(false)?;
                let meta = TableMeta::new(self.next_table, &spec)?;
                if inner.table_named(&meta.name).is_some() {
                    return Err(OplogError::TableExists { table: meta.name });
                }
                if meta.id >= TABLE_LIMIT {
                    return Err(OplogError::invalid("the store has had too many tables; make another store"));
                }
                meta.write(&mut out)?;
                let record = Record::new(Kind::CreateTable, meta.id, out.0);
                (Change::Create(meta), record)
            }
            Request::Drop { table } => {
                self.check_table(inner, &table)?;
                let record = record(Kind::DropTable, &table, Vec::new());
                (Change::Drop(table.meta().id), record)
            }
            Request::Alter { table, change } => {
                self.check_table(inner, &table)?;
                table.read().check_whole()?;
                let version = table.meta().altered(&change)?;
                version.write(&mut out)?;
                let record = record(Kind::AlterTable, &table, out.0);
                (Change::Alter(table, version), record)
            }
        }))
    }

    fn check_table(&self, inner: &Inner, table: &Arc<SharedTable>) -> Result<()> {
        inner.check_there(table)?;
        inner.check_writable(true)
    }

    /// What is durable becomes visible.
    fn apply(&mut self, inner: &Inner, change: Change, offset: u64) -> Committed {
        let lsn = self.next_lsn;
        let log = (self.log.number, offset);
        let mut committed = Committed { lsn, ..Committed::default() };
        match change {
            Change::Write(table, write) => {
                let applied = table.change(|state| state.apply(&write, lsn, &mut self.next_unit, log));
                committed.inserted = applied.inserted;
                committed.replaced = applied.replaced;
                committed.deleted = applied.deleted;
            }
            Change::Truncate(table) => committed.deleted = table.change(|state| state.truncate(lsn)),
            Change::Expire(table, bound) => {
                committed.deleted = table.change(|state| state.expire(bound, lsn))
            }
            Change::Create(meta) => {
                self.next_table = meta.id + 1;
                inner.add_table(meta.id, SharedTable::new(TableState::new(Arc::new(meta), lsn)));
            }
            Change::Drop(id) => inner.remove_table(id),
            Change::Alter(table, version) => table.change(|state| state.alter(version, lsn, offset)),
            Change::Clock(now) => mark(&mut self.clock, lsn, now),
        }
        self.next_lsn += 1;
        inner.lsn.store(lsn, Relaxed);
        committed
    }

    /// The last LSN that is known to have been written at or before a time.
    pub(crate) fn lsn_at(&self, ms: u64) -> u64 {
        let after = self.clock.partition_point(|(_, at)| *at <= ms);
        match self.clock.last() {
            Some((_, at)) if at + CLOCK_MS <= ms => self.next_lsn - 1,
            _ => after.checked_sub(1).and_then(|before| self.clock.get(before)).map_or(0, |(lsn, _)| *lsn),
        }
    }

    /// Begins a new log. What comes behind `end` in the old one does not count.
    pub(crate) fn rotate(&mut self, inner: &Inner, end: u64) -> Result<()> {
        let (store, number) = (inner.store, self.log.number + 1);
        let header = LogHeader { store, number, first_lsn: self.next_lsn, previous_end: end };
        self.rotation_owed = true;
        let log = Log::create(&inner.folder, header)?;
        self.rotation_owed = false;
        if let Some(last) = self.logs.last_mut() {
            last.bytes = end;
        }
        self.logs.push(LogEntry { number, first_lsn: self.next_lsn, bytes: log.end });
        self.log = log;
        for table in inner.all_tables() {
            table.change(|state| state.freeze(end));
        }
        Ok(())
    }

    fn rotate_if_owed(&mut self, inner: &Inner) -> Result<()> {
        if !self.rotation_owed {
            return Ok(());
        }
        inner.check_writable(true)?;
        let rotated = self.rotate(inner, self.log.end);
        rotated.inspect_err(|error| {
            if error.is_full() {
                inner.enter_full();
            }
        })
    }

    /// Makes what was written without it durable.
    pub(crate) fn sync_if_needed(&mut self, inner: &Inner) -> Result<()> {
        if self.log.synced == self.log.end {
            return Ok(());
        }
        let end = self.log.end;
        self.log.sync().map_err(|error| failure::after_write(self, inner, end, error))
    }
}

/// Adds a clock mark: what has its LSN or a lower one was written at or before `now`. The mark before it is moved
/// on: until this one came, no time of `CLOCK_MS` had passed. Of many marks every second one is dropped, in the
/// older half.
pub(super) fn mark(clock: &mut Vec<(u64, u64)>, lsn: u64, now: u64) {
    if let Some(last) = clock.last_mut() {
        *last = (lsn, now.min(last.1 + CLOCK_MS));
    }
    clock.push((lsn, now));
    if clock.len() > CLOCK_MARKS {
        let mut number = 0;
        clock.retain(|_| {
            number += 1;
            number > CLOCK_MARKS / 2 || number % 2 == 0
        });
    }
}
