//! INSERT, UPDATE, DELETE and TRUNCATE.
//!
//! The rows come from a query: rows to insert, new rows, or rows to delete. UPDATE and DELETE are committed
//! only if the rows still are as the query read them; if not, they run again. So no change of another
//! statement is lost, and readers never wait.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::{TableProvider, TableType, source_as_provider};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement};
use nyala_cube::live::{LiveProvider, ROW_VERSION};
use nyala_model::access::{Privilege, Securable};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{IfExists, Statement};
use nyala_storage::oplog::{Committed, LiveTable, Write};

use super::change::projection_of;
use super::insert::insert;
use super::values::Rows;
use super::{blocking, collect, is_view, not_live};
use crate::query::answer::{Answer, Completion};
use crate::query::deadline::Deadline;
use crate::query::execution::Execution;
use crate::query::plan::parameters::bind_input;
use crate::query::plan::parts::Parts;
use crate::query::plan::returning::GivenBack;
use crate::query::session::Session;

/// Attempts of a statement while others change its rows. After the first, an UPDATE or DELETE takes its turn,
/// and then meets only statements that write without reading.
pub const ATTEMPTS: usize = 1000;

/// Limits of a small statement, in rows and bytes: encoding it delays no other connection.
const SMALL_ROWS: usize = 16;
/// See [`SMALL_ROWS`].
const SMALL_BYTES: usize = 16 << 10;

/// Carries out a statement that writes rows.
pub async fn run(
    dml: &DmlStatement,
    parts: &Parts,
    parameters: &[ScalarValue],
    execution: Execution<'_>,
) -> Result<Answer> {
    let (session, deadline) = (execution.session, execution.deadline.clone());
    let provider = source_as_provider(&dml.target)?;
    let provider = provider.downcast_ref::<LiveProvider>();
    let provider = provider.ok_or_else(|| match source_as_provider(&dml.target) {
        Ok(other) if other.table_type() != TableType::Base => is_view(&dml.table_name.to_string()),
        _ => not_live(&dml.table_name.to_string()),
    })?;
    authorize(session, provider, &dml.op)?;
    let back = match &parts.returning {
        Some(returning) => {
            let (layout, writes) = layout(dml, provider)?;
            let engine = &session.engine;
            let state = engine.snapshots.current().state(&execution.settings);
            let threads = &engine.runtime.threads;
            let back = returning.compile(threads, state, parameters, layout, writes).await?;
            Some(Arc::new(back))
        }
        None => None,
    };
    let bound = || bind_input(&dml.input, parameters);
    let work = Work { provider, back, deadline };
    let (tag, (written, execution)) = match &dml.op {
        WriteOp::Insert(InsertOp::Append | InsertOp::Replace) => {
            let zone = execution.settings.options().execution.time_zone.as_deref().unwrap_or("UTC");
            let rows = Rows::of(&dml.input, &parts.parameter_types, parameters, zone)?;
            ("INSERT", work.insert(rows, parts.if_exists, execution).await?)
        }
        WriteOp::Update => ("UPDATE", work.read_and_write(work.updated(&bound()?)?, execution).await?),
        WriteOp::Delete => ("DELETE", work.read_and_write(work.deleted(&bound()?, dml)?, execution).await?),
        WriteOp::Truncate => {
            let tables = truncated(&parts.described.statement);
            check_further(tables.get(1..).unwrap_or_default(), &dml.op, &execution)?;
            if tables.len() > 1 {
                work.deadline.hand_over(truncate_each(session, &tables)).await?;
            } else {
                let table = provider.table().opened().await?;
                work.deadline.hand_over(blocking(move || Ok(table.truncate()?))).await?;
            }
            return Ok(Completion::of("TRUNCATE TABLE"));
        }
        other => {
            let message = format!("{} into a live table is not supported", other.name());
            return Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("INSERT replaces rows with the same key, and takes them from any query"));
        }
    };
    Ok(match written.given {
        Some(given) => execution.rows(given),
        None => Answer::Done(Completion { tag: tag.to_owned(), rows: Some(written.rows), notice: None }),
    })
}

/// The tables of a TRUNCATE.
fn truncated(statement: &Statement) -> Vec<ObjectName> {
    match statement.ast() {
        Some(SqlStatement::Truncate(truncate)) => {
            truncate.table_names.iter().map(|table| table.name.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Empties each table by a statement of its own, on the node that has the table. A statement about all of them would be sent to the node
/// of the first, which sends nothing on: it would fail there once the first is empty.
async fn truncate_each(session: &Session, tables: &[ObjectName]) -> Result<()> {
    for name in tables {
        Box::pin(session.query(&format!("TRUNCATE TABLE {name}"))).await?;
    }
    Ok(())
}

/// Fails unless all of these tables are there and may be emptied. Each is emptied by a statement of its own, whose refusal
/// would come after the tables before it are empty.
fn check_further(names: &[ObjectName], op: &WriteOp, execution: &Execution<'_>) -> Result<()> {
    let context = execution.engine().snapshots.current();
    names.iter().try_for_each(|name| match context.live_table_named(name, &execution.settings) {
        Some(table) => authorize(execution.session, table, op),
        None => {
            let message = format!("live table `{name}` does not exist");
            Err(QueryError::new(ErrorKind::UndefinedTable, message))
        }
    })
}

pub fn authorize(session: &Session, provider: &LiveProvider, op: &WriteOp) -> Result<()> {
    let privilege = match op {
        WriteOp::Insert(_) | WriteOp::Ctas => Privilege::Insert,
        WriteOp::Delete | WriteOp::Truncate => Privilege::Delete,
        _ => Privilege::Update,
    };
    let table = provider.table().entry().name.clone();
    if session.settings().is_temporary(&table) {
        return Ok(());
    }
    let catalog = session.engine.snapshots.catalog().snapshot();
    session.options().identity.require(&catalog, privilege, &Securable::Object(table))
}

/// The columns of the rows that RETURNING reads, and whether these rows are written and not deleted.
fn layout(dml: &DmlStatement, provider: &LiveProvider) -> Result<(DFSchema, bool)> {
    Ok(match &dml.op {
        WriteOp::Update => (projection_of(&dml.input)?.input.schema().as_ref().clone(), true),
        WriteOp::Delete => match dml.input.as_ref() {
            LogicalPlan::Projection(joined) => (joined.input.schema().as_ref().clone(), false),
            input => (input.schema().as_ref().clone(), false),
        },
        _ => (DFSchema::try_from(provider.schema())?, true),
    })
}

/// A statement that writes rows.
pub struct Work<'a> {
    pub provider: &'a LiveProvider,
    /// Computes RETURNING; none without such a clause.
    pub back: Option<Arc<GivenBack>>,
    pub deadline: Deadline,
}

/// The outcome of a statement.
pub struct Written {
    /// Number of rows affected.
    pub rows: u64,
    /// The rows of RETURNING, if there is one.
    pub given: Option<RecordBatch>,
}

impl Written {
    pub fn nothing(back: Option<&Arc<GivenBack>>) -> Self {
        Self { rows: 0, given: back.map(|back| back.nothing()) }
    }

    /// `rows` were written; `given` was computed from them before.
    pub fn new(
        rows: u64,
        given: Option<RecordBatch>,
        back: Option<&Arc<GivenBack>>,
        done: &Committed,
    ) -> Result<Self> {
        let given = match (given, back) {
            (Some(given), Some(back)) => Some(back.with_version(&given, done.lsn)?),
            _ => None,
        };
        Ok(Self { rows, given })
    }
}

impl Work<'_> {
    async fn insert<'e>(
        &self,
        rows: Rows,
        if_exists: IfExists,
        execution: Execution<'e>,
    ) -> Result<(Written, Execution<'e>)> {
        let query = match rows {
            Rows::Given(rows) => return Ok((self.write_new(vec![rows], if_exists).await?, execution)),
            Rows::Planned(query) => query,
        };
        if if_exists != IfExists::Merge {
            let (batches, execution) = collect::run(query, execution).await?;
            return Ok((self.write_new(batches, if_exists).await?, execution));
        }
        let (mut execution, mut turn, mut conflict) = (execution, None, None);
        for _ in 0..ATTEMPTS {
            let (batches, ended) = collect::run(query.clone(), execution).await?;
            match self.write_new(batches, if_exists).await {
                Err(error) if error.kind == ErrorKind::Conflict => {
                    (conflict, execution) = (Some(error), ended)
                }
                written => return Ok((written?, ended)),
            }
            if turn.is_none() {
                turn = Some(self.provider.table().turn.lock().await);
            }
        }
        Err(conflict.unwrap_or_else(|| QueryError::internal("a statement was never tried")))
    }

    async fn write_new(&self, batches: Vec<RecordBatch>, if_exists: IfExists) -> Result<Written> {
        insert(self.provider.table(), batches, if_exists, self.back.as_ref(), &self.deadline).await
    }
}

/// Hands a statement to the store and waits until it is as durable as its table requires.
pub async fn commit(table: &LiveTable, write: Write, deadline: &Deadline) -> Result<Committed> {
    if is_small(&write)
        && let Some(ticket) = table.try_submit(write.clone())?
    {
        return Ok(deadline.hand_over(ticket).await?);
    }
    let table = table.clone();
    let submitted = async {
        let ticket = blocking(move || Ok(table.submit(write)?)).await?;
        Ok(ticket.await?)
    };
    deadline.hand_over(submitted).await
}

/// Whether checking and encoding it takes a connection's thread no longer than handing it to another thread.
fn is_small(write: &Write) -> bool {
    let batches = || write.upserts.iter().chain(&write.deletes);
    let columns = || batches().flat_map(RecordBatch::columns);
    batches().map(RecordBatch::num_rows).sum::<usize>() <= SMALL_ROWS
        && columns().fold(0, |sum: usize, column| sum.saturating_add(content_bytes(column))) <= SMALL_BYTES
}

/// Bytes of the values alone: rows from a query often lie in buffers with room for many more. Nested values
/// are not measured, but taken as too large.
pub fn content_bytes(column: &ArrayRef) -> usize {
    let beside = match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        data_type if data_type.is_nested() => return usize::MAX,
        _ => 0,
    };
    column.to_data().get_slice_memory_size().map_or(usize::MAX, |bytes| bytes.saturating_add(beside))
}

/// One batch; none if there are no rows.
pub fn joined(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone()).filter(|batch| batch.num_rows() > 0)),
        [first, ..] => {
            let all = concat_batches(&first.schema(), batches)?;
            Ok(Some(all).filter(|batch| batch.num_rows() > 0))
        }
    }
}

/// The rows without the column of versions, and the versions if there are any.
pub fn without_versions(rows: &RecordBatch) -> Result<(RecordBatch, Option<Vec<u64>>)> {
    let Ok(at) = rows.schema().index_of(ROW_VERSION) else {
        return Ok((rows.clone(), None));
    };
    let mut rest = rows.clone();
    let versions = rest.remove_column(at);
    // The table itself checks for nulls, and its errors name the column.
    let fields: Vec<_> =
        rest.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let rest = RecordBatch::try_new(Arc::new(Schema::new(fields)), rest.columns().to_vec())?;
    if versions.null_count() == versions.len() {
        return Ok((rest, None));
    }
    let versions = versions.as_primitive_opt::<UInt64Type>().filter(|versions| versions.null_count() == 0);
    let versions = versions.ok_or_else(|| {
        QueryError::new(ErrorKind::Data, format!("some rows have a `{ROW_VERSION}` and some have none"))
            .hint("give every row the version it replaces, 0 for a row that must not exist")
    })?;
    Ok((rest, Some(versions.values().to_vec())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Int64Array, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn small(column: ArrayRef) -> bool {
        is_small(&Write::upsert(RecordBatch::try_from_iter([("c", column)]).unwrap()))
    }

    #[test]
    fn a_statement_is_small_by_its_values_not_by_their_buffers() {
        let numbers = Int64Array::from_iter_values(0..100_000);
        assert!(small(Arc::new(numbers.slice(500, 16))));
        assert!(!small(Arc::new(numbers.slice(500, 17))));
        let text = |bytes| "x".repeat(bytes);
        let texts = |bytes: [usize; 2]| bytes.map(text).to_vec();
        assert!(small(Arc::new(StringArray::from(texts([60_000, 9])).slice(1, 1))));
        assert!(!small(Arc::new(StringArray::from(texts([60_000, 9])))));
        assert!(small(Arc::new(StringViewArray::from(texts([60_000, 90])).slice(1, 1))));
        assert!(!small(Arc::new(StringViewArray::from(texts([60_000, 90])))));
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]);
        assert!(!small(Arc::new(list)), "nobody has counted");
    }
}
