//! Many rows on their way into a live table, for COPY and for doors.
//!
//! Rows are written in statements of some megabytes, each whole or not at all, while more are being read. A load that
//! fails half-way leaves the statements before; since rows are replaced by key, doing it again is harmless.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use nyala_model::QualifiedName;
use nyala_model::access::{Privilege, Securable};
use nyala_storage::oplog::{LiveTable, Ticket, Write};

use super::blocking;
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::LiveRef;
use crate::query::session::Session;
use crate::scan::decode_schema;

/// Rows are gathered until they have about this size: few frames, and little memory.
const STATEMENT_BYTES: usize = 8 << 20;
/// Statements that may wait for the disk while more rows are read.
const STATEMENTS_AHEAD: usize = 4;

/// A load into one live table.
#[derive(Debug)]
pub struct Ingest {
    table: Arc<LiveRef>,
    live: Option<LiveTable>,
    /// All columns of the table.
    whole: SchemaRef,
    /// The columns that rows are given with.
    given: SchemaRef,
    gathered: Vec<RecordBatch>,
    bytes: usize,
    underway: VecDeque<Ticket>,
    rows: u64,
}

impl Ingest {
    /// Begins a load of rows that have these columns of the table, or all of them if none are named.
    pub(super) fn begin(session: &Session, name: &QualifiedName, columns: &[String]) -> Result<Self> {
        let engine = &session.engine;
        let catalog = engine.catalog().snapshot();
        let on = Securable::Object(name.clone());
        session.options().identity.require(&catalog, Privilege::Insert, &on)?;
        let table = super::find(engine, name)?;
        let whole = decode_schema(table.entry())?;
        let fields = match columns.is_empty() {
            true => whole.fields().iter().map(|field| field.as_ref().clone()).collect(),
            false => named(&whole, columns, name)?,
        };
        Ok(Self {
            table,
            live: None,
            whole: Arc::new(nullable(&whole)),
            given: Arc::new(Schema::new(fields)),
            gathered: Vec::new(),
            bytes: 0,
            underway: VecDeque::new(),
            rows: 0,
        })
    }

    /// The columns that rows are to have.
    pub fn schema(&self) -> &SchemaRef {
        &self.given
    }

    /// Rows that were pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows with the columns of [`Self::schema`], in order. Waits while too much is on its way.
    pub async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.bytes = self.bytes.saturating_add(batch.get_array_memory_size());
        self.gathered.push(self.widen(&batch)?);
        if self.bytes >= STATEMENT_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    /// Writes what is left, and waits until all is as durable as the table wants it. Returns how many rows there were.
    pub async fn finish(mut self) -> Result<u64> {
        self.write().await?;
        while let Some(ticket) = self.underway.pop_front() {
            ticket.await?;
        }
        Ok(self.rows)
    }

    /// The rows with all columns of the table.
    fn widen(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let column = |field: &Arc<Field>| -> ArrayRef {
            match self.given.index_of(field.name()).ok().and_then(|at| batch.columns().get(at)) {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            }
        };
        let columns = self.whole.fields().iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.whole), columns, &options)?)
    }

    async fn write(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.gathered);
        self.bytes = 0;
        let Some(first) = batches.first() else { return Ok(()) };
        let rows = match batches.as_slice() {
            [one] => one.clone(),
            _ => concat_batches(&first.schema(), &batches)?,
        };
        if self.underway.len() >= STATEMENTS_AHEAD
            && let Some(oldest) = self.underway.pop_front()
        {
            oldest.await?;
        }
        let live = match &self.live {
            Some(live) => live.clone(),
            None => self.live.insert(self.table.opened().await?).clone(),
        };
        let ticket = blocking(move || Ok(live.submit(Write::upsert(rows))?)).await?;
        self.underway.push_back(ticket);
        Ok(())
    }
}

fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}

fn named(whole: &Schema, columns: &[String], table: &QualifiedName) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    for column in columns {
        let field = whole.field_with_name(column).map_err(|_| {
            let message = format!("table `{table}` has no column `{column}`");
            QueryError::new(ErrorKind::UndefinedColumn, message)
        })?;
        if fields.iter().any(|other| other.name() == column) {
            let message = format!("column `{column}` is named twice");
            return Err(QueryError::new(ErrorKind::InvalidText, message));
        }
        fields.push(field.clone());
    }
    Ok(fields)
}

impl Session {
    /// Begins a load into a live table: `name` or `schema.name`, of rows that have the named columns, or all.
    pub fn ingest(&self, table: &str, columns: &[String]) -> Result<Ingest> {
        let settings = self.settings();
        let name = datafusion::common::TableReference::from(table);
        let name = crate::query::ddl::table_name(&name, settings.schema())?;
        Ingest::begin(self, &name, columns)
    }
}
