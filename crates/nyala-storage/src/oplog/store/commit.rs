//! The committer: orders statements, writes them to the log, makes them durable, then visible.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::failure;
use super::group::{must_sync, next_group};
use super::inner::{Inner, Status};
use super::prepare::{Change, Judged, Prepared};
use super::queue::{Committed, Pending};
use super::replay::Replayed;
use crate::oplog::error::Result;
use crate::oplog::files::LogEntry;
use crate::oplog::log::{Log, LogHeader, Record};
use crate::oplog::table::{SharedTable, TableState};

/// Time between two clock frames, in milliseconds.
pub const CLOCK_MS: u64 = 1000;
/// Most clock marks that are kept; older ones are thinned out.
const CLOCK_MARKS: usize = 1024;

/// The writer of the log.
#[derive(Debug)]
pub struct Committer {
    pub log: Log,
    pub next_lsn: u64,
    pub next_table: u32,
    pub next_unit: u64,
    /// LSNs, each with a time by which all changes up to it were written.
    pub clock: Vec<(u64, u64)>,
    /// Logs that are kept, the newest last.
    pub logs: Vec<LogEntry>,
    /// A new log could not be made, but may be there after a crash and say that this log ends here. So no write may come
    /// before the new log is made.
    rotation_owed: bool,
}

impl Committer {
    /// The committer after a start, with the replayed state and a new log.
    pub fn new(replayed: Replayed, log: Log) -> Self {
        let Replayed { next_lsn, next_table, next_unit, clock, mut logs, .. } = replayed;
        logs.retain(|known| known.number != log.number);
        logs.push(LogEntry { number: log.number, first_lsn: next_lsn, bytes: log.end });
        Self { log, next_lsn, next_table, next_unit, clock, logs, rotation_owed: false }
    }

    /// Commits all statements, group by group.
    pub fn commit(&mut self, inner: &Inner, mut waiting: VecDeque<Pending>) {
        while !waiting.is_empty() {
            let group = next_group(&mut waiting);
            self.commit_group(inner, group);
        }
    }

    fn commit_group(&mut self, inner: &Inner, group: Vec<Pending>) {
        if let Err(error) = self.make_room(inner) {
            group.into_iter().for_each(|pending| pending.promise.complete(Err(error.clone())));
            return;
        }
        let sync = must_sync(&group);
        let mut prepared = Prepared::default();
        if let Some((change, record)) = self.tick(inner) {
            prepared.push(change, record, None);
        }
        let marks = prepared.records.len();
        for Pending { request, promise } in group {
            match self.prepare(inner, request) {
                Err(error) => promise.complete(Err(error)),
                Ok(Judged::Done(committed)) => promise.complete(Ok(committed)),
                Ok(Judged::Do(change, record)) => prepared.push(change, record, Some(promise)),
            }
        }
        if prepared.records.len() > marks {
            self.commit_prepared(inner, prepared, sync);
        }
    }

    fn commit_prepared(&mut self, inner: &Inner, prepared: Prepared, sync: bool) {
        let from = self.log.end;
        let Prepared { changes, records, promises } = prepared;
        if let Err(error) = self.write(&records, sync) {
            let error = failure::after_write(self, inner, from, error);
            self.tell_durable(inner);
            promises.into_iter().flatten().for_each(|promise| promise.complete(Err(error.clone())));
            return;
        }
        let offsets =
            records.iter().scan(from, |at, record| Some(std::mem::replace(at, *at + record.bytes())));
        let placed: Vec<(Change, u64)> = changes.into_iter().zip(offsets).collect();
        let done = self.apply_all(inner, placed);
        self.tell_durable(inner);
        for (promise, committed) in promises.into_iter().zip(done) {
            if let Some(promise) = promise {
                promise.complete(Ok(committed));
            }
        }
    }

    fn write(&mut self, records: &[Record], sync: bool) -> Result<()> {
        self.log.append(records, self.next_lsn)?;
        if sync { self.log.sync() } else { Ok(()) }
    }

    /// Publishes the last durable LSN to waiting feeds. Changes are visible before they are published as durable.
    fn tell_durable(&self, inner: &Inner) {
        inner.durable_lsn.store(self.log.synced_lsn, Relaxed);
    }

    /// Applies changes in order. Consecutive writes to one table become visible together.
    fn apply_all(&mut self, inner: &Inner, changes: Vec<(Change, u64)>) -> Vec<Committed> {
        let mut done = Vec::with_capacity(changes.len());
        let mut changes = changes.into_iter().peekable();
        while let Some((change, offset)) = changes.next() {
            let Change::Write(table, write) = change else {
                done.push(self.apply(inner, change, offset));
                continue;
            };
            let mut writes = vec![(write, offset)];
            let follows = |next: &(Change, u64)| matches!(&next.0, Change::Write(other, _) if Arc::ptr_eq(other, &table));
            while let Some((Change::Write(_, write), offset)) = changes.next_if(follows) {
                writes.push((write, offset));
            }
            table.change(|state| {
                for (write, offset) in &writes {
                    let log = (self.log.number, *offset);
                    let applied = state.apply(write, self.next_lsn, &mut self.next_unit, log);
                    done.push(applied.committed(self.next_lsn));
                    self.next_lsn += 1;
                }
                state.labels.keep_newest(inner.options.retain_labels);
            });
            inner.lsn.store(self.next_lsn - 1, Relaxed);
        }
        done
    }

    /// Makes a logged change visible.
    fn apply(&mut self, inner: &Inner, change: Change, offset: u64) -> Committed {
        let lsn = self.next_lsn;
        let mut committed = Committed { lsn, ..Committed::default() };
        match change {
            Change::Write(table, write) => {
                let log = (self.log.number, offset);
                let applied = table.change(|state| state.apply(&write, lsn, &mut self.next_unit, log));
                committed = applied.committed(lsn);
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
    pub fn lsn_at(&self, ms: u64) -> u64 {
        let after = self.clock.partition_point(|(_, at)| *at <= ms);
        match self.clock.last() {
            Some((_, at)) if at + CLOCK_MS <= ms => self.next_lsn - 1,
            _ => after.checked_sub(1).and_then(|before| self.clock.get(before)).map_or(0, |(lsn, _)| *lsn),
        }
    }

    /// Begins a new log. Frames behind `end` in the old log do not count.
    pub fn rotate(&mut self, inner: &Inner, end: u64) -> Result<()> {
        let (store, number) = (inner.store, self.log.number + 1);
        let header = LogHeader { store, number, first_lsn: self.next_lsn, previous_end: end };
        self.rotation_owed = true;
        // When space is scarce, it is kept for statements, and not filled ahead.
        let ahead = if inner.status() == Status::Writable { inner.options.preallocate_bytes } else { 0 };
        let log = Log::create(&inner.folder, header, ahead)?;
        self.rotation_owed = false;
        if let Some(last) = self.logs.last_mut() {
            last.bytes = end;
        }
        self.logs.push(LogEntry { number, first_lsn: self.next_lsn, bytes: log.end });
        std::mem::replace(&mut self.log, log).finish();
        for table in inner.all_tables() {
            table.change(|state| state.freeze(end));
        }
        Ok(())
    }

    /// Makes a new log if one is owed, or if the log is much larger than it should be: that is so when sealing
    /// does not keep up or is stopped by damage, and units have limits.
    fn make_room(&mut self, inner: &Inner) -> Result<()> {
        let large = self.log.end >= inner.options.seal_bytes.saturating_mul(2);
        if !self.rotation_owed && !large {
            return Ok(());
        }
        inner.check_writable(true)?;
        self.sync_if_needed(inner)?;
        let rotated = self.rotate(inner, self.log.end);
        rotated.inspect_err(|error| {
            if error.is_full() {
                inner.enter_full();
            }
        })
    }

    /// Makes appends that were not synced durable. After a failure it is not known which of them are on disk.
    pub fn sync_if_needed(&mut self, inner: &Inner) -> Result<()> {
        if self.log.synced == self.log.end {
            return Ok(());
        }
        let synced = self.log.sync();
        self.tell_durable(inner);
        synced.inspect_err(|error| {
            inner.set_status(Status::ReadOnly(error.to_string()));
        })
    }
}

/// Adds a clock mark: changes with its LSN or a lower one were written at or before `now`. The mark before it is moved
/// on: until this one came, no time of `CLOCK_MS` had passed. Of many marks every second one is dropped, in the older
/// half.
pub fn mark(clock: &mut Vec<(u64, u64)>, lsn: u64, now: u64) {
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
