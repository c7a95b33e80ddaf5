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
use crate::query::names::table_name;
use crate::query::options::SessionOptions;
use crate::query::session::Session;

/// How often a table that stands still is looked at. It costs two atomic loads.
const LOOK: Duration = Duration::from_millis(20);
/// So much log is read at a time.
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
    /// Follows the changes of a live table after an LSN; without one, those that happen from now on.
    pub async fn follow(&self, table: &str, after_lsn: Option<u64>) -> Result<Follower> {
        let settings = self.settings();
        let name = table_name(&TableReference::from(table), settings.schema())?;
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
        // Whatever becomes of the table's columns: who follows goes on with those there were, under their names.
        let feed = Some(table.changes(after).with_columns(&columns)?);
        Ok(Follower { reader, table, feed, schema, stopping: self.engine.runtime.stopping.clone() })
    }
}

/// Who follows.
#[derive(Debug)]
struct Reader {
    engine: Arc<Engine>,
    who: Arc<SessionOptions>,
    table: Securable,
}

impl Reader {
    /// Whether they may still read the table: nobody may for ever what was once allowed.
    fn check(&self) -> Result<()> {
        self.who.identity.require(&self.engine.snapshots.catalog().snapshot(), Privilege::Select, &self.table)
    }
}

impl Follower {
    /// Columns of the changes: `_lsn`, `_op`, and those that the table had when this began.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Everything up to this LSN was given; none if reading was broken off.
    pub fn lsn(&self) -> Option<u64> {
        self.feed.as_ref().map(ChangeFeed::lsn)
    }

    /// The next changes, as soon as there are some, all those of a statement together; none when the server stops.
    /// Dropping the future loses nothing but the place: begin again after the last LSN that was seen.
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
            // What is visible and not yet on disk is not given.
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
