//! The changes of a live table as they happen, for doors that stream them.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::TableReference;
use nyala_cube::live::{change_rows, change_schema};
use nyala_cube::scan::decode_schema;
use nyala_model::access::{Privilege, Securable};
use nyala_sql::error::Result;
use nyala_storage::oplog::{ChangeFeed, LiveTable};
use tokio_util::sync::CancellationToken;

use super::blocking;
use crate::query::engine::Engine;
use crate::query::names::table_in;
use crate::query::options::SessionOptions;
use crate::query::session::Session;

/// How often an idle table, and the privilege to read it, are checked. A check takes no lock.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of log read at a time.
const STEP_BYTES: u64 = 1 << 20;

/// Follows one live table.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    table: LiveTable,
    feed: Option<ChangeFeed>,
    schema: SchemaRef,
    stopping: CancellationToken,
}

impl Session {
    /// Follows the changes of a live table after an LSN; without an LSN, the changes from now on.
    pub async fn follow(&self, table: &str, after_lsn: Option<u64>) -> Result<Follower> {
        let settings = self.settings();
        let name = table_in(&TableReference::from(table), &settings)?;
        let reader = Reader {
            engine: Arc::clone(&self.engine),
            who: Arc::clone(self.options()),
            table: Securable::Object(name.clone()),
        };
        reader.check()?;
        let found = super::find(&self.engine, &name)?;
        let columns = decode_schema(found.entry())?;
        let schema = change_schema(&columns);
        let table = found.opened().await?;
        let after = after_lsn.unwrap_or_else(|| table.version().lsn());
        // An ALTER TABLE does not affect the feed: it keeps the present columns and their names.
        let feed = Some(table.changes(after).with_columns(&columns)?);
        Ok(Follower { reader, table, feed, schema, stopping: self.engine.runtime.stopping.clone() })
    }
}

/// A session that follows a table.
#[derive(Debug)]
struct Reader {
    engine: Arc<Engine>,
    who: Arc<SessionOptions>,
    table: Securable,
}

impl Reader {
    /// Fails if the session may no longer read the table: its privilege may be revoked meanwhile.
    fn check(&self) -> Result<()> {
        self.who.identity.require(&self.engine.snapshots.catalog().snapshot(), Privilege::Select, &self.table)
    }
}

impl Follower {
    /// Columns of the changes: `_lsn`, `_op`, and the columns that the table had at the beginning.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All changes up to this LSN were returned; none if a read failed or was dropped.
    pub fn lsn(&self) -> Option<u64> {
        self.feed.as_ref().map(ChangeFeed::lsn)
    }

    /// The next changes, as soon as there are some, with all changes of a statement together; none when the
    /// server stops. Dropping the future loses only the position: follow again after the last LSN received.
    pub async fn next(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        while let Some(mut feed) = self.feed.take() {
            let schema = Arc::clone(&self.schema);
            let (feed, batches) = blocking(move || {
                let changes = feed.next(STEP_BYTES)?;
                let rows = changes.iter().map(|change| Ok(change_rows(change, &schema)?));
                let batches: Vec<RecordBatch> = rows.collect::<Result<_>>()?;
                Ok((feed, batches))
            })
            .await?;
            let seen = self.feed.insert(feed).lsn();
            self.reader.check()?;
            if !batches.is_empty() {
                return Ok(Some(batches));
            }
            // A change that is visible but not yet on disk is not returned.
            while self.table.version().lsn().min(self.table.durable_lsn()) <= seen {
                tokio::select! {
                    () = self.stopping.cancelled() => return Ok(None),
                    () = tokio::time::sleep(LOOK) => {}
                }
                self.reader.check()?;
            }
        }
        Ok(None)
    }
}
