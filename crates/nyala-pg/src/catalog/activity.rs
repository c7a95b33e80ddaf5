//! `pg_stat_activity`: the connections, and the statements that they run now, from the table
//! `system.local_queries`: connections are of one node.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit, TimestampMicrosecondType};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::physical_plan::collect;
use nyala_engine::MadeRows;

use super::cells::{Cell, Row, batch_of, row, schema_of};
use super::database::{DATABASE, Database};
use super::functions::OWNER;
use super::oids;
use super::statistics::ACTIVITY_COLUMNS;
use crate::backends::{Asleep, BACKENDS, Backend};

/// Name of the view.
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

    /// A row for each connection.
    async fn connections(&self, session: &dyn Session) -> Result<Vec<Row>> {
        let mut running = HashMap::new();
        if let Some(queries) = self.database.system_table("local_queries").await? {
            let plan = queries.scan(session, None, &[], None).await?;
            for batch in &collect(plan, session.task_ctx()).await? {
                running.extend((0..batch.num_rows()).filter_map(|at| running_of(batch, at)));
            }
        }
        let row = |backend: &Arc<Backend>| {
            let asleep = || backend.asleep().map(RunningQuery::from);
            row_of(backend, running.remove(&backend.process_id).or_else(asleep).as_ref())
        };
        Ok(BACKENDS.all().iter().map(row).collect())
    }
}

/// The statement that a connection runs.
struct RunningQuery {
    number: Option<i64>,
    text: Option<String>,
    begun: Cell,
}

impl From<Asleep> for RunningQuery {
    fn from(asleep: Asleep) -> Self {
        Self { number: None, text: Some(asleep.text), begun: Cell::Time(asleep.since_us) }
    }
}

fn running_of(batch: &RecordBatch, at: usize) -> Option<(i32, RunningQuery)> {
    let process_id = i32::try_from(number(batch, "process_id", at)?).ok()?;
    let running = RunningQuery {
        number: number(batch, "query_id", at),
        text: text(batch, "query", at),
        begun: time(batch, "started_at", at),
    };
    Some((process_id, running))
}

#[async_trait]
impl MadeRows for Activity {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch> {
        Ok(batch_of(&self.schema, ACTIVITY_COLUMNS, &self.connections(session).await?)?)
    }
}

fn row_of(backend: &Backend, running: Option<&RunningQuery>) -> Row {
    let role = match backend.role.as_deref() {
        Some(OWNER) | None => oids::OWNER,
        Some(role) => oids::role(role),
    };
    let address = backend.client.parse::<SocketAddr>().ok();
    let begun = running.map_or(Cell::Null, |running| running.begun.clone());
    row![
        oids::DATABASE,
        DATABASE,
        backend.process_id,
        Cell::Null,
        role,
        backend.user.clone(),
        backend.application(),
        address.map_or(Cell::Null, |address| Cell::from(address.ip().to_string())),
        Cell::Null,
        address.map_or(-1, |address| i32::from(address.port())),
        Cell::Time(backend.begun_us),
        begun.clone(),
        begun.clone(),
        begun,
        Cell::Null,
        Cell::Null,
        if running.is_some() { "active" } else { "idle" },
        Cell::Null,
        Cell::Null,
        running.and_then(|running| running.number).map_or(Cell::Null, Cell::Int),
        running.and_then(|running| running.text.clone()).unwrap_or_default(),
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
