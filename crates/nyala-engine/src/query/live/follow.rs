//! The changes of a live table as they happen, for doors that stream them.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, BooleanArray, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::TableReference;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use nyala_cube::live::{LiveRef, change_rows, change_schema};
use nyala_cube::scan::decode_schema;
use nyala_model::access::{Privilege, Securable};
use nyala_model::{QualifiedName, TableEntry, TableId};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{ChangeFeed, LiveTable};
use tokio_util::sync::CancellationToken;

use super::blocking;
use crate::query::activity::Phase;
use crate::query::answer::{Answer, Batches, RowStream};
use crate::query::engine::Engine;
use crate::query::names::table_in;
use crate::query::nodes::{Follow, Forwarded, Forwarding};
use crate::query::options::SessionOptions;
use crate::query::session::Session;

/// How often an idle table, and the privilege to read it, are checked. A check takes no lock.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of log read at a time.
const STEP_BYTES: u64 = 1 << 20;
/// A further column on the way between nodes: whether the rows are the last that belong together.
const LAST: &str = "_last";

/// Follows one live table.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
    schema: SchemaRef,
    changes: Changes,
}

/// Where the changes come from.
enum Changes {
    Here {
        table: LiveTable,
        /// The feed of changes; none once a read has failed.
        feed: Option<ChangeFeed>,
    },
    There {
        rows: BoxStream<'static, Result<RecordBatch>>,
        /// Batches of changes that belong together, until the last of them has come.
        gathered: Vec<RecordBatch>,
        lsn: Option<u64>,
    },
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here { feed, .. } => f.debug_struct("Here").field("feed", feed).finish_non_exhaustive(),
            Self::There { lsn, .. } => f.debug_struct("There").field("lsn", lsn).finish_non_exhaustive(),
        }
    }
}

impl Session {
    /// Follows the changes of a live table after an LSN; without an LSN, the changes from now on.
    pub async fn follow(&self, table: &str, after: Option<u64>) -> Result<Follower> {
        let table = table_in(&TableReference::from(table), &self.settings())?;
        self.follow_table(&Follow { table, after }).await
    }

    async fn follow_table(&self, follow: &Follow) -> Result<Follower> {
        let on = Securable::Object(follow.table.clone());
        let catalog = self.engine.snapshots.catalog().snapshot();
        self.options().identity.require(&catalog, Privilege::Select, &on)?;
        let found = super::find(&self.engine, &follow.table)?;
        let reader = Reader::new(self, &follow.table, found.entry().id);
        match self.follow_here(&found, follow.after).await {
            Err(QueryError { owner: Some(owner), .. }) if self.options().sent_by.is_none() => {
                let node = self.engine.nodes.living(&owner.node)?;
                let sql = format!("SELECT * FROM changes('{}') /* as they happen */", follow.table);
                let statement = Forwarded { follow: Some(follow.clone()), ..self.forwarded(sql) };
                let Forwarding::Rows(schema, rows) = self.engine.elsewhere.run(&node, statement).await?
                else {
                    return Err(QueryError::internal("another node gives no changes"));
                };
                there(reader, &schema, rows).await
            }
            here => {
                let (schema, changes) = here?;
                Ok(Follower { reader, schema, changes })
            }
        }
    }

    async fn follow_here(&self, found: &LiveRef, after: Option<u64>) -> Result<(SchemaRef, Changes)> {
        let columns = decode_schema(found.entry())?;
        let table = found.opened().await?;
        let after = after.unwrap_or_else(|| table.version().lsn());
        // An ALTER TABLE does not affect the feed: it keeps the present columns and their names.
        let feed = Some(table.changes(after).with_columns(&columns)?);
        Ok((change_schema(&columns), Changes::Here { table, feed }))
    }

    /// The changes of a table of this node, for a node whose client follows it: first a row without an operation, which tells the
    /// position, and in all rows whether they are the last that belong together.
    pub(in crate::query) async fn follow_for_another(&self, text: &str, follow: &Follow) -> Result<Answer> {
        let follower = self.follow_table(follow).await?;
        // The statement goes on until it is cancelled.
        let deadline = self.own_deadline().without_time();
        let running = self.begin(text, &deadline);
        running.entry().enter(Phase::Sending);
        let schema = with_last_field(follower.schema());
        let first = position(&schema, follower.lsn())?;
        let rows = stream::unfold(Some((follower, Arc::clone(&schema))), |following| async {
            let (mut follower, schema) = following?;
            match follower.next().await {
                Ok(Some(batches)) => {
                    let last = batches.len().saturating_sub(1);
                    let marked = batches.iter().enumerate();
                    let marked: Vec<Result<RecordBatch>> =
                        marked.map(|(at, batch)| with_last(batch, &schema, at == last)).collect();
                    Some((marked, Some((follower, schema))))
                }
                Ok(None) => None,
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        let rows = stream::iter([Ok(first)]).chain(rows.flat_map(stream::iter)).boxed();
        Ok(Answer::Rows(RowStream::new(schema, Batches::Elsewhere(rows.fuse()), running, Some(deadline))))
    }
}

/// A follower of another node's table, once that node has told the position.
async fn there(
    reader: Reader,
    schema: &Schema,
    mut rows: BoxStream<'static, Result<RecordBatch>>,
) -> Result<Follower> {
    let fields = schema.fields().split_last().map_or(&[][..], |(_, fields)| fields);
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let first = rows.try_next().await?;
    let lsn = first.as_ref().and_then(lsn_of);
    Ok(Follower { reader, schema, changes: Changes::There { rows, gathered: Vec::new(), lsn } })
}

fn with_last_field(schema: &Schema) -> SchemaRef {
    let last = Arc::new(Field::new(LAST, DataType::Boolean, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([last]).collect::<Vec<_>>()))
}

fn with_last(batch: &RecordBatch, schema: &SchemaRef, is_last: bool) -> Result<RecordBatch> {
    // Only the last row of the last batch is marked, because batches may be cut on the way.
    let rows = batch.num_rows();
    let last = (0..rows).map(|row| Some(is_last && row + 1 == rows));
    let last: ArrayRef = Arc::new(last.collect::<BooleanArray>());
    let columns = batch.columns().iter().cloned().chain([last]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// A row that is no change, and tells up to which LSN a follower knows all changes.
fn position(schema: &SchemaRef, lsn: Option<u64>) -> Result<RecordBatch> {
    let column = |(at, field): (usize, &Arc<Field>)| -> ArrayRef {
        match at {
            0 => Arc::new(UInt64Array::from(vec![lsn.unwrap_or_default()])),
            1 => Arc::new(StringArray::from(vec![""])),
            _ if at + 1 == schema.fields().len() => Arc::new(BooleanArray::from(vec![true])),
            _ => new_null_array(field.data_type(), 1),
        }
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), schema.fields().iter().enumerate().map(column).collect())?)
}

/// The LSN of the last row.
fn lsn_of(batch: &RecordBatch) -> Option<u64> {
    batch.columns().first()?.as_primitive_opt::<UInt64Type>()?.values().last().copied()
}

/// A session that follows a table.
#[derive(Debug)]
struct Reader {
    engine: Arc<Engine>,
    who: Arc<SessionOptions>,
    table: Securable,
    id: TableId,
    stopping: CancellationToken,
}

impl Reader {
    fn new(session: &Session, table: &QualifiedName, id: TableId) -> Self {
        Self {
            engine: Arc::clone(&session.engine),
            who: Arc::clone(session.options()),
            table: Securable::Object(table.clone()),
            id,
            stopping: session.engine.runtime.stopping.clone(),
        }
    }

    /// Fails if the session may no longer read the table, or there is none any more: a privilege may be revoked, and the table dropped,
    /// meanwhile.
    fn check(&self) -> Result<()> {
        let catalog = self.engine.snapshots.catalog().snapshot();
        self.who.identity.require(&catalog, Privilege::Select, &self.table)?;
        let Securable::Object(name) = &self.table else { return Ok(()) };
        let is_there = |table: &Arc<TableEntry>| table.id == self.id;
        // The table may have another name by now.
        if catalog.tables.get(name).is_some_and(is_there) || catalog.tables.values().any(is_there) {
            return Ok(());
        }
        Err(QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` was dropped")))
    }
}

impl Follower {
    /// Columns of the changes: `_lsn`, `_op`, and the columns that the table had at the beginning.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All changes up to this LSN were returned; none if a read failed or was dropped.
    pub fn lsn(&self) -> Option<u64> {
        match &self.changes {
            Changes::Here { feed, .. } => feed.as_ref().map(ChangeFeed::lsn),
            Changes::There { lsn, .. } => *lsn,
        }
    }

    /// The next changes, as soon as there are some, with all changes of a statement together; none when the
    /// server stops. Dropping the future loses only the position: follow again after the last LSN received.
    pub async fn next(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        let Self { reader, schema, changes } = self;
        match changes {
            Changes::Here { table, feed } => next_here(reader, schema, table, feed).await,
            Changes::There { rows, gathered, lsn } => next_there((reader, schema), rows, gathered, lsn).await,
        }
    }
}

async fn next_here(
    reader: &Reader,
    schema: &SchemaRef,
    table: &LiveTable,
    feed: &mut Option<ChangeFeed>,
) -> Result<Option<Vec<RecordBatch>>> {
    while let Some(mut read) = feed.take() {
        let schema = Arc::clone(schema);
        let (read, batches) = blocking(move || {
            let changes = read.next(STEP_BYTES)?;
            let rows = changes.iter().map(|change| Ok(change_rows(change, &schema)?));
            let batches: Vec<RecordBatch> = rows.collect::<Result<_>>()?;
            Ok((read, batches))
        })
        .await?;
        let seen = feed.insert(read).lsn();
        reader.check()?;
        if !batches.is_empty() {
            return Ok(Some(batches));
        }
        // A change that is visible but not yet on disk is not returned.
        while table.version().lsn().min(table.durable_lsn()) <= seen {
            tokio::select! {
                () = reader.stopping.cancelled() => return Ok(None),
                () = tokio::time::sleep(LOOK) => {}
            }
            reader.check()?;
        }
    }
    Ok(None)
}

async fn next_there(
    (reader, schema): (&Reader, &SchemaRef),
    rows: &mut BoxStream<'static, Result<RecordBatch>>,
    gathered: &mut Vec<RecordBatch>,
    lsn: &mut Option<u64>,
) -> Result<Option<Vec<RecordBatch>>> {
    loop {
        let next = tokio::select! {
            () = reader.stopping.cancelled() => return Ok(None),
            next = rows.try_next() => next,
        };
        let next = match next {
            // The other node stops: its followers end, as those of this node do when it stops.
            Err(error) if error.kind == ErrorKind::ShuttingDown => return Ok(None),
            next => next?,
        };
        let Some(batch) = next else { return Ok(None) };
        let (last, columns) = batch.columns().split_last().ok_or_else(no_columns)?;
        let is_last = last.as_boolean_opt().is_some_and(|last| last.iter().last() == Some(Some(true)));
        gathered.push(RecordBatch::try_new(Arc::clone(schema), columns.to_vec())?);
        if is_last {
            reader.check()?;
            *lsn = lsn_of(&batch).or(*lsn);
            return Ok(Some(std::mem::take(gathered)));
        }
    }
}

fn no_columns() -> QueryError {
    QueryError::internal("another node gives changes without columns")
}
