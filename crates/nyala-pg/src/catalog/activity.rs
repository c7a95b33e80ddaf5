//! `pg_stat_activity`: the statements that run now, from the table `system.queries`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit, TimestampMicrosecondType};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::Result;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::cells::{Cell, Row, batch_of, row, schema_of};
use super::database::{DATABASE, Database};
use super::functions::OWNER;
use super::oids;
use super::statistics::ACTIVITY_COLUMNS;

/// Its name.
pub const NAME: &str = "pg_stat_activity";

/// The view over a snapshot's system tables.
#[derive(Debug)]
pub struct Activity {
    schema: SchemaRef,
    database: Arc<Database>,
}

impl Activity {
    pub fn new(database: Arc<Database>) -> Self {
        Self { schema: schema_of(ACTIVITY_COLUMNS), database }
    }

    async fn rows(&self, session: &dyn Session) -> Result<Vec<Row>> {
        let Some(queries) = self.database.system_table("queries").await? else { return Ok(Vec::new()) };
        let plan = queries.scan(session, None, &[], None).await?;
        let batches = collect(plan, session.task_ctx()).await?;
        Ok(batches.iter().flat_map(rows_of).collect())
    }
}

#[async_trait]
impl TableProvider for Activity {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = batch_of(&self.schema, ACTIVITY_COLUMNS, &self.rows(session).await?)?;
        let scan = MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?;
        Ok(scan)
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    (0..batch.num_rows()).map(|at| row_of(batch, at)).collect()
}

fn row_of(batch: &RecordBatch, at: usize) -> Row {
    let (user, begun) = (text(batch, "user", at), time(batch, "started_at", at));
    let role = match user.as_deref() {
        Some(OWNER) | None => oids::OWNER,
        Some(user) => oids::role(user),
    };
    let number = number(batch, "query_id", at);
    row![
        oids::DATABASE,
        DATABASE,
        Cell::Int(number.unwrap_or_default() & 0x7fff_ffff),
        Cell::Null,
        role,
        user,
        text(batch, "application", at),
        text(batch, "client", at),
        Cell::Null,
        -1,
        begun.clone(),
        begun.clone(),
        begun.clone(),
        begun,
        Cell::Null,
        Cell::Null,
        "active",
        Cell::Null,
        Cell::Null,
        number.map_or(Cell::Null, Cell::Int),
        text(batch, "query", at),
        "client backend",
    ]
}

fn text(batch: &RecordBatch, name: &str, at: usize) -> Option<String> {
    let column = cast(batch.column_by_name(name)?, &DataType::Utf8).ok()?;
    column.is_valid(at).then(|| column.as_string::<i32>().value(at).to_owned())
}

fn number(batch: &RecordBatch, name: &str, at: usize) -> Option<i64> {
    let column = cast(batch.column_by_name(name)?, &DataType::Int64).ok()?;
    column.is_valid(at).then(|| column.as_primitive::<Int64Type>().value(at))
}

fn time(batch: &RecordBatch, name: &str, at: usize) -> Cell {
    let wanted = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let column = batch.column_by_name(name).and_then(|column| cast(column, &wanted).ok());
    match column {
        Some(column) if column.is_valid(at) => {
            Cell::Time(column.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        _ => Cell::Null,
    }
}
