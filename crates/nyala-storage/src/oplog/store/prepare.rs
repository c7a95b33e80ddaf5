//! Judging statements: their changes, and the records of these.

use std::sync::Arc;

use super::commit::{CLOCK_MS, Committer};
use super::group::{check, done_before};
use super::inner::Inner;
use super::queue::{Committed, Promise, Request};
use crate::oplog::codec::Out;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::log::{Kind, Record, TABLE_LIMIT};
use crate::oplog::meta::{SchemaVersion, TableMeta, TableSpec};
use crate::oplog::table::SharedTable;
use crate::oplog::write::PreparedWrite;

/// A change that is checked and waits for its record to be durable.
pub enum Change {
    Write(Arc<SharedTable>, Box<PreparedWrite>),
    Truncate(Arc<SharedTable>),
    Expire(Arc<SharedTable>, u64),
    Create(TableMeta),
    Drop(u32),
    Alter(Arc<SharedTable>, SchemaVersion),
    Clock(u64),
}

/// The verdict on a statement.
pub enum Judged {
    /// The statement changes no rows.
    Done(Committed),
    Do(Change, Record),
}

/// Changes to be logged and then applied, in order.
#[derive(Default)]
pub struct Prepared {
    pub changes: Vec<Change>,
    pub records: Vec<Record>,
    pub promises: Vec<Option<Promise>>,
}

impl Prepared {
    pub fn push(&mut self, change: Change, record: Record, promise: Option<Promise>) {
        self.changes.push(change);
        self.records.push(record);
        self.promises.push(promise);
    }
}

impl Committer {
    /// A clock frame, if it is time for one.
    pub fn tick(&self, inner: &Inner) -> Option<(Change, Record)> {
        let now = inner.environment.clock.now_ms();
        let last = self.clock.last().map_or(0, |(_, ms)| *ms);
        let due = now >= last.saturating_add(CLOCK_MS);
        due.then(|| (Change::Clock(now), Record::new(Kind::Clock, 0, now.to_le_bytes().to_vec())))
    }

    /// Checks a statement.
    pub fn prepare(&self, inner: &Inner, request: Request) -> Result<Judged> {
        let record = |kind, table: &SharedTable, payload| Record::new(kind, table.meta().id, payload);
        let mut out = Out::default();
        let nothing = || Judged::Done(Committed { lsn: inner.last_lsn(), ..Committed::default() });
        let (change, record) = match request {
            Request::Write { table, write, mut record } => {
                if let Some(before) = done_before(inner, &table, &write)? {
                    let committed =
                        Committed { lsn: before.lsn, before: Some(before), ..Committed::default() };
                    return Ok(Judged::Done(committed));
                }
                record.kind = check(inner, &table, &write)?;
                if write.is_empty() {
                    return Ok(nothing());
                }
                (Change::Write(table, Box::new(write)), record)
            }
            Request::Truncate { table } => {
                self.check_table(inner, &table)?;
                let record = record(Kind::Truncate, &table, Vec::new());
                (Change::Truncate(table), record)
            }
            Request::Expire { table, before_ms } => {
                let Some(bound) = self.prepare_expiry(inner, &table, before_ms)? else {
                    return Ok(nothing());
                };
                out.var(bound);
                let record = record(Kind::Expire, &table, out.0);
                (Change::Expire(table, bound), record)
            }
            Request::Create { spec } => {
                let meta = self.prepare_table(inner, &spec)?;
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
        };
        Ok(Judged::Do(change, record))
    }

    /// The LSN up to which rows are to die; none if there are no such rows.
    fn prepare_expiry(&self, inner: &Inner, table: &Arc<SharedTable>, before_ms: u64) -> Result<Option<u64>> {
        self.check_table(inner, table)?;
        let state = table.read();
        state.check_whole()?;
        let bound = self.lsn_at(before_ms);
        Ok(state.has_expired(bound).then_some(bound))
    }

    fn prepare_table(&self, inner: &Inner, spec: &TableSpec) -> Result<TableMeta> {
        inner.check_writable(false)?;
        let meta = TableMeta::new(self.next_table, spec)?;
        if inner.table_named(&meta.name).is_some() {
            return Err(OplogError::TableExists { table: meta.name });
        }
        if meta.id >= TABLE_LIMIT {
            return Err(OplogError::invalid("the store has had too many tables; make another store"));
        }
        Ok(meta)
    }

    fn check_table(&self, inner: &Inner, table: &Arc<SharedTable>) -> Result<()> {
        inner.check_there(table)?;
        inner.check_writable(true)
    }
}
