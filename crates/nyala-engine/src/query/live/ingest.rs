//! Loads of many rows into a live table, for COPY and for doors.
//!
//! Rows are written in statements of some megabytes, each whole or not at all, while more rows are read. A
//! load that fails half-way leaves the statements before; since rows are replaced by key, repeating it is
//! harmless.
//!
//! A load with a label is one statement: it is gathered whole, and the store keeps the label with the rows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use nyala_cube::live::LiveRef;
use nyala_cube::scan::decode_schema;
use nyala_model::QualifiedName;
use nyala_model::access::{Privilege, Securable};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::semantics::{Phase, lower_expr};
use nyala_storage::oplog::{Condition, Label, Labelled, LiveTable, Ticket, Write};

use super::numbers::with_new_numbers;
use super::{blocking, collect};
use crate::query::answer::Ingested;
use crate::query::deadline::Deadline;
use crate::query::engine::Engine;
use crate::query::nodes::{Forwarded, ForwardedLoad, LoadPart, LoadThere};
use crate::query::session::Session;

/// Rows are gathered until they have about this size: few frames, and little memory.
const STATEMENT_BYTES: usize = 8 << 20;
/// Statements that may wait for the disk while more rows are read.
const STATEMENTS_AHEAD: usize = 4;
/// Rows of a load that is one statement are gathered up to this size in memory. No store takes larger statements.
const WHOLE_BYTES: usize = 1 << 30;

/// How a load is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'l> {
    /// A load with a label is done once.
    pub label: Option<&'l str>,
    /// Whether it is one statement also without a label.
    pub at_once: bool,
    /// Whether its rows may be sent to the node of the table.
    pub may_be_sent: bool,
}

/// A load into one live table.
#[derive(Debug)]
pub struct Ingest {
    table: Arc<LiveRef>,
    place: Place,
    /// All columns of the table.
    whole: SchemaRef,
    /// The columns of pushed rows.
    given: SchemaRef,
    /// The defaults of missing columns; without a default they are null.
    defaults: HashMap<String, Arc<dyn PhysicalExpr>>,
    gathered: Vec<RecordBatch>,
    bytes: usize,
    underway: VecDeque<Ticket>,
    rows: u64,
    /// LSN of the last statement that is done.
    lsn: Option<u64>,
    label: Option<Label>,
    /// Whether it is one statement: with a label it always is.
    at_once: bool,
}

/// Where the table is: found when it is needed first.
#[derive(Debug)]
enum Place {
    /// Not known yet. The load as it is sent, if the table may be on another node.
    Unknown(Option<Box<(Arc<Engine>, ForwardedLoad)>>),
    Here(LiveTable),
    There(LoadThere),
}

/// The outcome of an earlier load of the same label.
fn before(done: Labelled) -> Ingested {
    Ingested { rows: done.rows, rejected: done.rejected, lsn: Some(done.lsn), before: true }
}

impl Ingest {
    /// Begins a load of rows that have these columns of the table, or all of them if none are named. Rows of a table of another node
    /// are sent there, if they may be; otherwise the load fails, and its whole statement is sent.
    pub fn begin(
        session: &Session,
        name: &QualifiedName,
        columns: &[String],
        as_asked: Asked<'_>,
    ) -> Result<Self> {
        let Asked { label, at_once, may_be_sent } = as_asked;
        let engine = &session.engine;
        let catalog = engine.snapshots.catalog().snapshot();
        let on = Securable::Object(name.clone());
        if !session.settings().is_temporary(name) {
            session.options().identity.require(&catalog, Privilege::Insert, &on)?;
        }
        let table = super::find(engine, name)?;
        let whole = decode_schema(table.entry())?;
        let fields = match columns.is_empty() {
            true => whole.fields().iter().map(|field| field.as_ref().clone()).collect(),
            false => named(&whole, columns, name)?,
        };
        let given = Schema::new(fields);
        let defaults = defaults(session, &table, &whole, &given)?;
        let given = Arc::new(given);
        // Rows are sent on only if there are other nodes, and only if none of them has sent this load.
        let may_be_sent = may_be_sent && engine.catalog().is_shared() && session.options().sent_by.is_none();
        let sent = may_be_sent.then(|| {
            let sql = format!("COPY {name} FROM STDIN");
            let statement = Forwarded { changes: true, ..session.forwarded(sql) };
            // All columns are named, because the other node may know the table as it was a moment ago.
            let columns = given.fields().iter().map(|field| field.name().clone()).collect();
            let (table, label) = (name.clone(), label.map(str::to_owned));
            let schema = Arc::clone(&given);
            let load = ForwardedLoad { statement, table, columns, label, at_once, schema };
            Box::new((Arc::clone(engine), load))
        });
        Ok(Self {
            table,
            place: Place::Unknown(sent),
            whole: Arc::new(nullable(&whole)),
            given,
            defaults,
            gathered: Vec::new(),
            bytes: 0,
            underway: VecDeque::new(),
            rows: 0,
            lsn: None,
            label: label.map(Label::new).transpose()?,
            at_once: at_once || label.is_some(),
        })
    }

    /// The columns that pushed rows must have.
    pub fn schema(&self) -> &SchemaRef {
        &self.given
    }

    /// The outcome of an earlier load of the same label, if there was one.
    pub async fn known(&mut self) -> Result<Option<Ingested>> {
        let Some(label) = self.label.clone() else { return Ok(None) };
        Ok(match self.place().await? {
            Place::There(load) => load.known,
            _ => self.opened().await?.label(label.name()).map(before),
        })
    }

    /// Where the table is. If it is on another node, the load is begun there.
    async fn place(&mut self) -> Result<&mut Place> {
        if let Place::Unknown(sent) = &mut self.place {
            self.place = match (self.table.opened().await, sent.take()) {
                (Ok(live), _) => Place::Here(live),
                (Err(QueryError { owner: Some(owner), .. }), Some(sent)) => {
                    let (engine, load) = *sent;
                    Place::There(engine.elsewhere.load(&engine.nodes.living(&owner.node)?, load).await?)
                }
                (Err(error), _) => return Err(error),
            };
        }
        Ok(&mut self.place)
    }

    async fn opened(&mut self) -> Result<LiveTable> {
        match self.place().await? {
            Place::Here(live) => Ok(live.clone()),
            _ => Err(QueryError::internal("rows of another node's table are written here")),
        }
    }

    /// Adds rows with the columns of [`Self::schema`], in order. Waits while too many statements are under
    /// way.
    pub async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if let Place::There(load) = self.place().await? {
            return send(load, LoadPart::Rows(batch)).await;
        }
        self.rows += batch.num_rows() as u64;
        let (batch, bytes) = collect::compact(&self.widen(&batch)?)?;
        self.bytes = self.bytes.saturating_add(bytes);
        self.gathered.push(batch);
        if !self.at_once && self.bytes >= STATEMENT_BYTES {
            self.write().await?;
        }
        if self.at_once && self.bytes > WHOLE_BYTES {
            let message =
                format!("a load that is one statement has more than {} MiB in memory", WHOLE_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("split it into several loads, with a label each if they must not be done twice"));
        }
        Ok(())
    }

    /// Writes the rest, and waits until all is as durable as the table requires. `rejected` rows were left
    /// out.
    pub async fn finish(mut self, rejected: u64, deadline: &Deadline) -> Result<Ingested> {
        self.place().await?;
        if let Place::There(mut load) = self.place {
            send(&mut load, LoadPart::End { rejected }).await?;
            let outcome = load.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
            return deadline.hand_over(outcome).await;
        }
        if let Some(label) = self.label.take() {
            return self.write_labelled(label, rejected, deadline).await;
        }
        self.write().await?;
        while self.await_oldest().await? {}
        Ok(Ingested { rows: self.rows, rejected, lsn: self.lsn, before: false })
    }

    async fn write_labelled(&mut self, label: Label, rejected: u64, deadline: &Deadline) -> Result<Ingested> {
        let rows = self.take_gathered()?.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.whole)));
        let live = self.opened().await?;
        let write = self.write_of(rows, &live)?.labelled(label.rejecting(rejected));
        let done = super::write::commit(&live, write, deadline).await?;
        Ok(match done.before {
            Some(done) => before(done),
            None => Ingested { rows: self.rows, rejected, lsn: Some(done.lsn), before: false },
        })
    }

    /// Waits for the statement that was begun first; false if none is under way.
    async fn await_oldest(&mut self) -> Result<bool> {
        let Some(oldest) = self.underway.pop_front() else { return Ok(false) };
        self.lsn = Some(oldest.await?.lsn);
        Ok(true)
    }

    /// The rows with all columns of the table.
    fn widen(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // A default reads no columns, but may have another value in each row, as uuid() has.
        let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        let column = |field: &Arc<Field>| -> Result<ArrayRef> {
            if let Some(column) =
                self.given.index_of(field.name()).ok().and_then(|at| batch.columns().get(at))
            {
                return Ok(Arc::clone(column));
            }
            Ok(match self.defaults.get(field.name()) {
                Some(default) => default.evaluate(&nothing)?.into_array(rows)?,
                None => new_null_array(field.data_type(), rows),
            })
        };
        let columns = self.whole.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.whole), columns, &options)?)
    }

    /// The gathered rows as one batch.
    fn take_gathered(&mut self) -> Result<Option<RecordBatch>> {
        let batches = std::mem::take(&mut self.gathered);
        self.bytes = 0;
        Ok(match batches.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            [first, ..] => Some(concat_batches(&first.schema(), &batches)?),
        })
    }

    fn write_of(&self, rows: RecordBatch, live: &LiveTable) -> Result<Write> {
        let rows = self.table.fit(rows)?;
        Ok(match self.table.source().numbered {
            true => Write::upsert(with_new_numbers(&rows, &live.schema())?).when(Condition::Absent),
            false => Write::upsert(rows),
        })
    }

    async fn write(&mut self) -> Result<()> {
        let Some(rows) = self.take_gathered()? else { return Ok(()) };
        if self.underway.len() >= STATEMENTS_AHEAD {
            self.await_oldest().await?;
        }
        let live = self.opened().await?;
        let write = self.write_of(rows, &live)?;
        let ticket = blocking(move || Ok(live.submit(write)?)).await?;
        self.underway.push_back(ticket);
        Ok(())
    }
}

/// Sends a part of a load to another node. If that does not take it, the load has failed there.
async fn send(load: &mut LoadThere, part: LoadPart) -> Result<()> {
    if load.parts.send(part).await.is_ok() {
        return Ok(());
    }
    match load.outcome.get_mut().unwrap_or_else(PoisonError::into_inner).await {
        Ok(_) => Err(QueryError::internal("a load ended before its last row was sent")),
        Err(error) => Err(error),
    }
}

/// The DEFAULTs of the missing columns. A value that is constant within a statement, such as now(), is
/// computed here: a load counts as one statement, however many it writes.
fn defaults(
    session: &Session,
    table: &LiveRef,
    whole: &Schema,
    given: &Schema,
) -> Result<HashMap<String, Arc<dyn PhysicalExpr>>> {
    let missing = |column: &str| given.index_of(column).is_err();
    let wanted = table.source().defaults.iter().filter(|(column, _)| missing(column));
    let mut wanted = wanted.peekable();
    if wanted.peek().is_none() {
        return Ok(HashMap::new());
    }
    let state = session.engine.snapshots.current().state(&session.settings());
    let mut defaults = HashMap::new();
    for (column, text) in wanted {
        let field = whole.field_with_name(column)?;
        defaults.insert(column.clone(), default(&state, text, field)?);
    }
    Ok(defaults)
}

/// Computes a DEFAULT, which reads no columns, as the planner of an INSERT does.
fn default(state: &SessionState, text: &str, field: &Field) -> Result<Arc<dyn PhysicalExpr>> {
    let nothing = DFSchema::empty();
    let expression = state.create_logical_expr(text, &nothing)?.cast_to(field.data_type(), &nothing)?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(nothing.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let lower = |expression, phase| lower_expr(expression, phase, &nothing, state.config_options());
    let expression = simplifier.coerce(lower(expression, Phase::Types)?, &nothing)?;
    let expression = lower(lower(expression, Phase::Constants)?, Phase::Operators)?;
    let expression = simplifier.simplify(expression)?;
    Ok(state.create_physical_expr(expression, &nothing)?)
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
    /// A load with a label is done once. With `at_once` the load is one statement, as every load with a label is.
    pub fn ingest(
        &self,
        table: &str,
        columns: &[String],
        label: Option<&str>,
        at_once: bool,
    ) -> Result<Ingest> {
        let settings = self.settings();
        let name = datafusion::common::TableReference::from(table);
        let name = crate::query::names::table_in(&name, &settings)?;
        Ingest::begin(self, &name, columns, Asked { label, at_once, may_be_sent: true })
    }
}
