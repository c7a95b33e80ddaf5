//! The public interface of a live table.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::inner::Inner;
use super::queue::{Committed, Request, Ticket, lock};
use crate::oplog::codec::Out;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::labels::Labelled;
use crate::oplog::log::{Kind, Record};
use crate::oplog::meta::{Alteration, Durability};
use crate::oplog::table::{Found, Located, RowId, SharedTable, Version};
use crate::oplog::write::{PreparedWrite, Write};

/// A live table. Handles are cheap to copy; one of a table that was dropped gives errors.
#[derive(Debug, Clone)]
pub struct LiveTable {
    pub(super) inner: Arc<Inner>,
    pub(super) shared: Arc<SharedTable>,
}

impl LiveTable {
    /// The table's name, unique in its store.
    pub fn name(&self) -> String {
        self.shared.meta().name.clone()
    }

    /// The table's number, which no other table of the store ever had.
    pub fn id(&self) -> u32 {
        self.shared.meta().id
    }

    /// The table's columns.
    pub fn schema(&self) -> SchemaRef {
        self.version().schema()
    }

    /// Positions of the key columns in the schema, in the order of the key.
    pub fn key(&self) -> Vec<usize> {
        self.shared.meta().current().map(|version| version.key.clone()).unwrap_or_default()
    }

    /// The key columns, in the order of the key, as deletes and lookups take them.
    pub fn key_schema(&self) -> Result<SchemaRef> {
        Ok(self.shared.meta().current()?.key_schema.clone())
    }

    /// When writes are acknowledged.
    pub fn durability(&self) -> Durability {
        self.shared.meta().durability
    }

    /// How long a row lives after it was last written, in milliseconds.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.shared.meta().ttl_ms
    }

    /// The newest version, for scans. It takes no lock and never waits.
    pub fn version(&self) -> Arc<Version> {
        self.shared.version()
    }

    /// Commits a statement and waits for it.
    pub fn write(&self, write: Write) -> Result<Committed> {
        self.submit(write)?.wait()
    }

    /// Checks, hashes and encodes a statement on this thread and hands it to the committer. It blocks while too many
    /// bytes are waiting to be committed.
    pub fn submit(&self, write: Write) -> Result<Ticket> {
        Ok(self.inner.submit(self.prepare(write)?))
    }

    /// Submits a statement like [`Self::submit`]; none, with no statement queued, if that would have to wait: then call [`Self::submit`] on a
    /// thread that may block. Checking and encoding a few rows takes less time than handing them to another thread. A store
    /// without threads commits at once, and blocks.
    pub fn try_submit(&self, write: Write) -> Result<Option<Ticket>> {
        Ok(self.inner.try_submit(self.prepare(write)?))
    }

    fn prepare(&self, write: Write) -> Result<Request> {
        let limit = self.inner.options.statement_bytes;
        // Checked before any copy: rows that share their texts can be small here and larger than memory on disk.
        check_size(write.text_bytes(), limit)?;
        let meta = self.shared.meta();
        let write = PreparedWrite::new(&meta, write, self.inner.seed)?;
        let mut out = Out::default();
        if let Some(label) = &write.label {
            label.write(&mut out, write.upserted());
        }
        let prefix = out.0.len();
        write.encode(&mut out)?;
        let payload = out.0;
        check_size(payload.len() as u64, limit)?;
        let write = write.compact(payload.get(prefix..).unwrap_or_default(), &meta, self.inner.seed)?;
        let record = Record::new(Kind::Write, meta.id, payload);
        let record = if prefix > 0 { record.labelled() } else { record };
        Ok(Request::Write { table: self.shared.clone(), write, record })
    }

    /// The effect of the statement of a label, if it is one of the newest [`super::StoreOptions::retain_labels`].
    pub fn label(&self, name: &str) -> Option<Labelled> {
        self.shared.read().labels.get(name)
    }

    /// All labels that are known, the oldest first.
    pub fn labels(&self) -> Vec<(Arc<str>, Labelled)> {
        self.shared.read().labels.iter().map(|(name, done)| (name.clone(), done)).collect()
    }

    /// The rows with these keys, given as the columns of [`Self::key_schema`]. It sees every statement that was
    /// acknowledged before, and blocks while keys or values that are not in memory are read.
    pub fn lookup(&self, keys: &RecordBatch) -> Result<Found> {
        self.shared.lookup(keys, self.inner.seed)
    }

    /// Where the rows with these keys are, so that some of their columns can be read with [`Version::take`]. It sees
    /// every statement that was acknowledged before. No value is read, and of keys that are not in memory only the
    /// ones to compare.
    pub fn locate(&self, keys: &RecordBatch) -> Result<Located> {
        self.shared.locate(keys, self.inner.seed)
    }

    /// Where the rows with these keys are in a given version, for statements that read all of one version. None if the rows are no
    /// longer known because one was written, deleted or moved since: then the version has to be scanned.
    pub fn locate_in(&self, version: &Version, keys: &RecordBatch) -> Result<Option<Vec<Option<RowId>>>> {
        self.shared.locate_in(version, keys, self.inner.seed)
    }

    /// The LSNs at which the rows with these keys were last written; 0 for rows that do not exist. No value is
    /// read.
    pub fn row_versions(&self, keys: &RecordBatch) -> Result<Vec<u64>> {
        self.shared.row_versions(keys, self.inner.seed)
    }

    /// Removes all rows, also damaged ones.
    pub fn truncate(&self) -> Result<Committed> {
        self.inner.submit(Request::Truncate { table: self.shared.clone() }).wait()
    }

    /// Removes rows that were last written before a time, in milliseconds since 1970, give or take a second.
    /// Tables with a time to live do this by themselves.
    pub fn expire(&self, before_ms: u64) -> Result<Committed> {
        self.inner.submit(Request::Expire { table: self.shared.clone(), before_ms }).wait()
    }

    /// Changes the columns.
    pub fn alter(&self, change: Alteration) -> Result<Committed> {
        self.inner.submit(Request::Alter { table: self.shared.clone(), change }).wait()
    }

    /// Drops the table. Holders of a version can read on.
    pub fn drop_table(self) -> Result<Committed> {
        self.inner.submit(Request::Drop { table: self.shared }).wait()
    }

    /// Makes the commits so far durable, if they are not. It blocks.
    pub fn persist(&self) -> Result<()> {
        lock(&self.inner.committer).sync_if_needed(&self.inner)
    }

    /// Whether all values are in memory.
    pub fn is_loaded(&self) -> bool {
        let version = self.version();
        version.units().iter().filter_map(|unit| unit.data.base.as_ref()).all(|base| base.is_loaded())
    }
}

fn check_size(bytes: u64, limit: usize) -> Result<()> {
    if bytes <= limit as u64 {
        return Ok(());
    }
    Err(OplogError::invalid(format!(
        "a statement of {bytes} bytes is larger than {limit}; split it, or raise `statement_bytes`"
    )))
}
