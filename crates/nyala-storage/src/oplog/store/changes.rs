//! The change feed: the changes of a table, read from the retained logs.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};

use super::LiveTable;
use super::inner::Inner;
use super::queue::lock;
use crate::oplog::codec::In;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::LogEntry;
use crate::oplog::log::{Frame, Kind, LogHeader, log_name, scan};
use crate::oplog::meta::SchemaVersion;
use crate::oplog::table::SharedTable;
use crate::oplog::vfs::FileHandle;
use crate::oplog::write::decode_write;

/// A change of a table. One statement may give two: first its deleted rows, then its written ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Rows were inserted or replaced. They have the columns the table had then, or the requested ones of these.
    Upserted {
        /// LSN of the statement.
        lsn: u64,
        /// The rows; of several with one key the last one counts.
        rows: RecordBatch,
    },
    /// Rows were deleted, if they existed.
    Deleted {
        /// LSN of the statement.
        lsn: u64,
        /// The keys of the rows.
        keys: RecordBatch,
    },
    /// All rows were removed.
    Truncated {
        /// LSN of the statement.
        lsn: u64,
    },
    /// Rows died of age.
    Expired {
        /// LSN of the statement.
        lsn: u64,
        /// The expired rows: all that were last written at this LSN or a lower one.
        up_to: u64,
    },
    /// The columns changed: later changes have the new ones.
    Altered {
        /// LSN of the statement.
        lsn: u64,
    },
}

/// Follows the changes of a table, from an LSN on.
#[derive(Debug)]
pub struct ChangeFeed {
    inner: Arc<Inner>,
    table: Arc<SharedTable>,
    /// The last LSN that was given.
    lsn: u64,
    /// Log and offset of the next frame, once it is known.
    place: Option<(u64, u64)>,
    /// Changes behind this LSN are not given.
    up_to: u64,
    /// The requested columns; none for the columns at the time of each change.
    columns: Option<Arc<SchemaVersion>>,
}

/// Ends a scan when enough was read.
struct Enough;

impl LiveTable {
    /// The changes after an LSN. A reader with a copy of the table goes on from the copied version's LSN.
    pub fn changes(&self, after_lsn: u64) -> ChangeFeed {
        ChangeFeed {
            inner: self.inner.clone(),
            table: self.shared.clone(),
            lsn: after_lsn,
            place: None,
            up_to: u64::MAX,
            columns: None,
        }
    }

    /// LSN of the last change of the store that is on disk. A feed gives changes up to here: a waiting follower waits
    /// until this is above [`ChangeFeed::lsn`]. It takes no lock.
    pub fn durable_lsn(&self) -> u64 {
        self.inner.durable_lsn.load(Relaxed)
    }
}

impl ChangeFeed {
    /// Gives rows with the columns of `schema`, which the table has or had, under these names, even if the columns had
    /// other names when the rows were written. Columns that the table did not have then are left out.
    pub fn with_columns(mut self, schema: &Schema) -> Result<Self> {
        let meta = self.table.meta();
        let same = |version: &&Arc<SchemaVersion>| version.schema.fields() == schema.fields();
        let known = meta.versions.iter().rev().find(same).cloned();
        let known = known.ok_or_else(|| {
            OplogError::invalid(format!("table `{}` never had the columns that are asked for", meta.name))
        })?;
        self.columns = Some(known);
        Ok(self)
    }

    /// Gives no change behind this LSN, so that a follower comes to an end even while faster writers go on.
    pub fn up_to(self, lsn: u64) -> Self {
        Self { up_to: lsn, ..self }
    }

    /// The last LSN that was given.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The next changes, about `bytes` of log at most but a whole statement at least; none if there are no newer ones
    /// on disk now: a change that a power cut may take back is never given. It reads the disk.
    pub fn next(&mut self, bytes: u64) -> Result<Vec<Change>> {
        self.inner.check_there(&self.table)?;
        let (logs, synced) = self.logs()?;
        let last = synced.min(self.up_to);
        let mut changes = Vec::new();
        while changes.is_empty() && self.lsn < last {
            let log = self.log_to_read(&logs)?;
            let behind = self.read(&log, bytes, &mut changes)?;
            if behind && log.number == logs.last().map_or(0, |log| log.number) {
                self.lsn = self.lsn.max(last);
            } else if behind {
                self.place = Some((log.number + 1, LogHeader::BYTES as u64));
            }
        }
        Ok(changes)
    }

    /// Logs with where each ends on disk, and the last LSN there, at one moment.
    fn logs(&self) -> Result<(Vec<LogEntry>, u64)> {
        let committer = lock(&self.inner.committer);
        let mut logs = committer.logs.clone();
        if let Some(last) = logs.last_mut() {
            last.bytes = committer.log.synced;
        }
        // Older logs may be kept for other reasons, with gaps.
        let mut next = logs.last().map_or(0, |log| log.number + 1);
        let gap = logs.iter().rposition(|log| {
            let follows = log.number + 1 == next;
            next = log.number;
            !follows
        });
        let logs = logs.split_off(gap.map_or(0, |gap| gap + 1));
        if self.lsn >= committer.next_lsn {
            // A follower at this LSN saw changes that were then lost. Other changes have, or will have, their LSNs.
            return Err(self.gone(&logs));
        }
        Ok((logs, committer.log.synced_lsn))
    }

    fn gone(&self, logs: &[LogEntry]) -> OplogError {
        let oldest = logs.first().map_or(0, |log| log.first_lsn.saturating_sub(1));
        OplogError::ChangesGone { after: self.lsn, oldest }
    }

    fn log_to_read(&self, logs: &[LogEntry]) -> Result<LogEntry> {
        let gone = || self.gone(logs);
        match self.place {
            Some((number, _)) => logs.iter().find(|log| log.number == number).copied().ok_or_else(gone),
            None => logs.iter().rev().find(|log| log.first_lsn <= self.lsn + 1).copied().ok_or_else(gone),
        }
    }

    /// Reads a log from the last position; gives whether its end was reached.
    fn read(&mut self, log: &LogEntry, bytes: u64, changes: &mut Vec<Change>) -> Result<bool> {
        let file = self.inner.folder.open(&log_name(log.number))?;
        let seed = LogHeader::seed(&self.inner.store, log.number);
        let from = self.place.map_or(LogHeader::BYTES as u64, |(_, offset)| offset);
        let (mut enough, mut next, mut lsn) = (None, from, self.lsn);
        let end = scan(&file, seed, (from, log.bytes), None, &mut |offset, frame| {
            let behind = frame.lsn > self.up_to;
            if behind {
                lsn = lsn.max(self.up_to);
            }
            if behind || offset > from + bytes && !changes.is_empty() {
                enough = Some(Enough);
                return Err(OplogError::invalid("enough"));
            }
            if frame.lsn > self.lsn && frame.table == self.table.meta().id {
                self.decode(&file, offset, &frame, changes)?;
            }
            (next, lsn) = (offset + frame.bytes(), lsn.max(frame.lsn));
            Ok(())
        });
        self.place = Some((log.number, next));
        self.lsn = lsn;
        match (end, enough) {
            (_, Some(Enough)) => Ok(false),
            (Err(error), _) => Err(error),
            (Ok(end), _) if !end.whole => Err(file.damaged(end.offset, "a frame is not valid")),
            _ => Ok(true),
        }
    }

    fn decode(
        &self,
        file: &FileHandle,
        offset: u64,
        frame: &Frame<'_>,
        changes: &mut Vec<Change>,
    ) -> Result<()> {
        let lsn = frame.lsn;
        let senseless = || file.damaged(offset, "the frame makes no sense");
        match frame.kind {
            Kind::Write | Kind::WriteExact => return self.decode_rows(frame, changes).ok_or_else(senseless),
            Kind::Truncate => changes.push(Change::Truncated { lsn }),
            Kind::Expire => {
                let up_to = In(frame.payload).var().ok_or_else(senseless)?;
                changes.push(Change::Expired { lsn, up_to });
            }
            Kind::AlterTable => changes.push(Change::Altered { lsn }),
            Kind::CreateTable | Kind::DropTable | Kind::Clock => {}
        }
        Ok(())
    }

    fn decode_rows(&self, frame: &Frame<'_>, changes: &mut Vec<Change>) -> Option<()> {
        let meta = self.table.meta();
        let schema = meta.versions.get(In(frame.payload).var()? as usize)?;
        let write = decode_write(frame.payload, |_| Some(schema))?;
        let whole: Vec<usize> = (0..schema.columns.len()).collect();
        let keys = self.named(schema, &schema.key, write.deleted_keys)?;
        let rows = self.named(schema, &whole, write.columns)?;
        if keys.num_rows() > 0 {
            changes.push(Change::Deleted { lsn: frame.lsn, keys });
        }
        if rows.num_rows() > 0 {
            changes.push(Change::Upserted { lsn: frame.lsn, rows });
        }
        Some(())
    }

    /// Values of the columns of `then` at these positions, under the requested names.
    fn named(&self, then: &SchemaVersion, positions: &[usize], values: Vec<ArrayRef>) -> Option<RecordBatch> {
        let Some(wanted) = &self.columns else {
            return RecordBatch::try_new(Arc::new(then.schema.project(positions).ok()?), values).ok();
        };
        // The name may belong to another column by now; the id never changes.
        let id = |at: &usize| then.columns.get(*at).map(|column| column.id);
        let ids: Vec<u32> = positions.iter().map(id).collect::<Option<_>>()?;
        let found = wanted.columns.iter().filter_map(|column| {
            let at = ids.iter().position(|id| *id == column.id)?;
            Some((column.field.clone(), values.get(at)?.clone()))
        });
        let (fields, values): (Vec<Arc<Field>>, Vec<ArrayRef>) = found.unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), values).ok()
    }
}
