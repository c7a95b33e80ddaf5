//! `changes('table', after_lsn)`: the changes of a live table, as rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl};
use datafusion::common::{DataFusionError, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::{StreamExt, TryStreamExt};
use nyala_sql::error::QueryError;
use nyala_storage::oplog::{Change, ChangeFeed};

use super::table::LiveRef;

/// Columns before those of the table: the LSN of the statement, and its operation.
const LSN: &str = "_lsn";
const OPERATION: &str = "_op";
/// Bytes of the log that are read at a time.
const STEP_BYTES: u64 = 1 << 20;

/// Finds a live table by its name in a statement.
pub type Finder = Box<dyn Fn(&str) -> std::result::Result<(Arc<LiveRef>, Schema), QueryError> + Send + Sync>;

/// The table function.
pub struct Changes {
    find: Finder,
}

impl Changes {
    /// Name of the function.
    pub const NAME: &'static str = "changes";

    /// The function over the tables that `find` finds.
    pub fn new(find: Finder) -> Self {
        Self { find }
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}

impl TableFunctionImpl for Changes {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = || plan_datafusion_err!("write changes('table') or changes('table', after_lsn)");
        let literal = |expression: &Expr| match expression {
            Expr::Literal(value, _) => Some(value.clone()),
            _ => None,
        };
        let given: Option<Vec<ScalarValue>> = args.exprs().iter().map(literal).collect();
        let given = given.ok_or_else(usage)?;
        let (name, after) = match given.as_slice() {
            [name] => (name, 0),
            [name, after] => match after.cast_to(&DataType::UInt64)? {
                ScalarValue::UInt64(Some(after)) => (name, after),
                _ => return plan_err!("the LSN of changes() must not be null"),
            },
            _ => return Err(usage()),
        };
        let name = name.try_as_str().flatten().ok_or_else(usage)?;
        let (table, schema) = (self.find)(name)?;
        let given = change_schema(&schema);
        Ok(Arc::new(ChangesProvider { table, columns: Arc::new(schema), schema: given, after }))
    }
}

/// Columns of the changes of a table with these columns.
pub fn change_schema(table: &Schema) -> SchemaRef {
    let own = [Field::new(LSN, DataType::UInt64, false), Field::new(OPERATION, DataType::Utf8, false)];
    let columns = table.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(own.into_iter().chain(columns).collect::<Vec<_>>()))
}

/// The changes of one table after an LSN, up to the last one when it is read.
#[derive(Debug)]
pub struct ChangesProvider {
    table: Arc<LiveRef>,
    /// Columns of the table when the statement was planned.
    columns: SchemaRef,
    schema: SchemaRef,
    after: u64,
}

impl ChangesProvider {
    /// The table.
    pub fn table(&self) -> &Arc<LiveRef> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for ChangesProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Each scan reads the changes up to its own moment. A temporary table is scanned once for all copies of it in a plan.
    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stream = ChangeStream {
            table: Arc::clone(&self.table),
            columns: Arc::clone(&self.columns),
            schema: Arc::clone(&self.schema),
            after: self.after,
        };
        let exec = StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(stream)],
            projection,
            None,
            false,
            limit,
        )?;
        Ok(Arc::new(exec))
    }
}

#[derive(Debug)]
struct ChangeStream {
    table: Arc<LiveRef>,
    columns: SchemaRef,
    schema: SchemaRef,
    after: u64,
}

impl PartitionStream for ChangeStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, after) = (Arc::clone(&self.table), self.after);
        let (columns, schema) = (Arc::clone(&self.columns), Arc::clone(&self.schema));
        let begin = async move {
            let table = table.opened().await?;
            let feed = table.changes(after).up_to(table.durable_lsn());
            let feed = feed.with_columns(&columns).map_err(QueryError::from)?;
            Ok::<_, DataFusionError>(futures::stream::try_unfold(
                (feed, schema),
                |(feed, schema)| async move {
                    let (feed, batches) = step(feed, Arc::clone(&schema)).await?;
                    Ok::<_, DataFusionError>(batches.map(|batches| (batches, (feed, schema))))
                },
            ))
        };
        let batches = futures::stream::once(begin).try_flatten();
        let batches =
            batches.map_ok(|batches: Vec<RecordBatch>| futures::stream::iter(batches.into_iter().map(Ok)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.try_flatten().boxed()))
    }
}

/// Reads the next changes on a blocking thread. None if there are no newer ones.
async fn step(mut feed: ChangeFeed, schema: SchemaRef) -> Result<(ChangeFeed, Option<Vec<RecordBatch>>)> {
    let read = tokio::task::spawn_blocking(move || {
        let changes = feed.next(STEP_BYTES).map_err(QueryError::from)?;
        let batches =
            changes.iter().map(|change| change_rows(change, &schema)).collect::<Result<Vec<_>>>()?;
        Ok((feed, (!batches.is_empty()).then_some(batches)))
    });
    read.await.map_err(QueryError::internal)?
}

/// A change as rows: one for each row that was written or deleted, one for a change of the whole table. Its columns
/// have the names of `schema` already.
pub fn change_rows(change: &Change, schema: &SchemaRef) -> Result<RecordBatch> {
    let (lsn, operation, rows) = match change {
        Change::Upserted { lsn, rows } => (*lsn, "upsert", Some(rows)),
        Change::Deleted { lsn, keys } => (*lsn, "delete", Some(keys)),
        Change::Truncated { lsn } => (*lsn, "truncate", None),
        Change::Expired { lsn, .. } => (*lsn, "expire", None),
        Change::Altered { lsn } => (*lsn, "alter", None),
    };
    let count = rows.map_or(1, RecordBatch::num_rows);
    let column = |field: &Field| -> ArrayRef {
        let found = rows.and_then(|rows| rows.column_by_name(field.name()));
        match found.filter(|column| column.data_type() == field.data_type()) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), count),
        }
    };
    let own: [ArrayRef; 2] = [
        Arc::new(UInt64Array::from_value(lsn, count)),
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(operation, count))),
    ];
    let columns = own.into_iter().chain(schema.fields().iter().skip(2).map(|field| column(field)));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}
