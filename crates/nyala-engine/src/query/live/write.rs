//! INSERT, UPDATE, DELETE and TRUNCATE.
//!
//! The rows come from a query: what to insert, or the rows as they shall be, or those that shall go. UPDATE and DELETE
//! are committed on condition that the rows still are what the query saw; if not, they are done again. So no change
//! of another statement is lost, and readers wait for nobody.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, WriteOp};
use nyala_model::access::{Privilege, Securable};
use nyala_storage::oplog::{Committed, Condition, LiveTable, OplogError, Write};

use super::values::literal_rows;
use super::{blocking, collect, not_live};
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::{LiveProvider, LiveRef, ROW_VERSION};
use crate::query::activity::Running;
use crate::query::answer::{Answer, Completion};
use crate::query::planning::{Unoptimized, bind};
use crate::query::run::Deadline;
use crate::query::session::Session;
use crate::session::Settings;
use crate::statement::IfExists;

/// So often a statement is done again because others changed its rows. With its turn taken it meets only
/// statements that write without reading.
const ATTEMPTS: usize = 1000;

/// Carries out a statement that writes rows.
pub(in crate::query) async fn run(
    session: &Session,
    dml: &DmlStatement,
    if_exists: IfExists,
    parameters: &[ScalarValue],
    settings: &Settings,
    deadline: &Deadline,
    running: Running,
) -> Result<Answer> {
    let provider = source_as_provider(&dml.target)?;
    let provider = provider.downcast_ref::<LiveProvider>();
    let provider = provider.ok_or_else(|| not_live(&dml.table_name.to_string()))?;
    authorize(session, provider, &dml.op)?;
    let bound = bind(Unoptimized::Resolved(dml.input.as_ref().clone()), parameters)?;
    let work = Work { session, provider, dml, settings, deadline };
    let (tag, rows) = match &dml.op {
        WriteOp::Insert(InsertOp::Append | InsertOp::Replace) => {
            ("INSERT", work.insert(bound, if_exists, running).await?)
        }
        WriteOp::Update => ("UPDATE", work.read_and_write(work.updated(&bound)?, running).await?),
        WriteOp::Delete => ("DELETE", work.read_and_write(work.deleted(bound)?, running).await?),
        WriteOp::Truncate => {
            let table = provider.table().opened().await?;
            blocking(move || Ok(table.truncate()?)).await?;
            return Ok(Completion::of("TRUNCATE TABLE"));
        }
        other => {
            let message = format!("{} into a live table is not supported", other.name());
            return Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("INSERT replaces rows with the same key, and takes them from any query"));
        }
    };
    Ok(Answer::Done(Completion { tag: tag.to_owned(), rows: Some(rows), notice: None }))
}

fn authorize(session: &Session, provider: &LiveProvider, op: &WriteOp) -> Result<()> {
    let privilege = match op {
        WriteOp::Insert(_) | WriteOp::Ctas => Privilege::Insert,
        WriteOp::Delete | WriteOp::Truncate => Privilege::Delete,
        _ => Privilege::Update,
    };
    let table = provider.table().entry().name.clone();
    let catalog = session.engine.catalog().snapshot();
    session.options().identity.require(&catalog, privilege, &Securable::Object(table))
}

/// One statement.
struct Work<'a> {
    session: &'a Session,
    provider: &'a LiveProvider,
    dml: &'a DmlStatement,
    settings: &'a Settings,
    deadline: &'a Deadline,
}

/// A query whose rows say what to write.
struct Reading {
    query: LogicalPlan,
    /// Whether they are keys of rows that shall go, and not rows as they shall be.
    deletes: bool,
}

impl Work<'_> {
    async fn insert(&self, input: Unoptimized, if_exists: IfExists, running: Running) -> Result<u64> {
        let batches = match literal_rows(input.logical())? {
            Some(rows) => vec![rows],
            None => collect::run(self.session, input, self.settings, self.deadline, running).await?,
        };
        insert(self.provider.table(), batches, if_exists).await
    }

    /// The rows as an UPDATE leaves them, with the versions they had.
    fn updated(&self, input: &Unoptimized) -> Result<Reading> {
        let LogicalPlan::Projection(projection) = input.logical() else {
            return Err(QueryError::internal("an UPDATE has no projection"));
        };
        let key = self.provider.key();
        for expression in &projection.expr {
            let (_, name) = expression.qualified_name();
            let stays = matches!(expression.clone().unalias(), Expr::Column(column) if column.name == name);
            if !stays && (name == ROW_VERSION || key.index_of(&name).is_ok()) {
                let message = match name == ROW_VERSION {
                    true => format!("`{ROW_VERSION}` cannot be set"),
                    false => format!("column `{name}` is part of the primary key and cannot be changed"),
                };
                return Err(QueryError::new(ErrorKind::Unsupported, message)
                    .hint("insert the row under its new key and delete the old one"));
            }
        }
        Ok(Reading { query: input.logical().clone(), deletes: false })
    }

    /// The keys of the rows that a DELETE takes away, with their versions.
    fn deleted(&self, input: Unoptimized) -> Result<Reading> {
        let names = self.provider.key().fields().iter().map(|field| field.name().as_str());
        let columns = names.chain([ROW_VERSION]);
        let columns = columns.map(|name| Expr::Column(Column::new(Some(self.dml.table_name.clone()), name)));
        let columns: Vec<Expr> = columns.collect();
        let query = LogicalPlanBuilder::from(input.logical().clone()).project(columns)?.build()?;
        Ok(Reading { query, deletes: true })
    }

    async fn read_and_write(&self, reading: Reading, running: Running) -> Result<u64> {
        let table = self.provider.table().opened().await?;
        let text = running.entry().text.clone();
        let (mut running, mut turn, mut conflict) = (Some(running), None, None);
        for _ in 0..ATTEMPTS {
            let attempt = match running.take() {
                Some(first) => first,
                None => self.session.begin(&text, self.deadline),
            };
            let query = Unoptimized::Resolved(reading.query.clone());
            let batches = collect::run(self.session, query, self.settings, self.deadline, attempt).await?;
            let Some(rows) = joined(&batches)? else { return Ok(0) };
            let (rows, versions) = without_versions(&rows)?;
            let versions = versions.ok_or_else(|| QueryError::internal("rows have no versions"))?;
            let count = rows.num_rows() as u64;
            let write = if reading.deletes { Write::delete(rows) } else { Write::upsert(rows) };
            match commit(&table, write.when(Condition::Versions(versions))).await {
                Ok(_) => return Ok(count),
                Err(error) if error.kind == ErrorKind::Conflict => conflict = Some(error),
                Err(error) => return Err(error),
            }
            if turn.is_none() {
                turn = Some(self.provider.table().turn.lock().await);
            }
        }
        Err(conflict.unwrap_or_else(|| QueryError::internal("a statement was never tried")))
    }
}

/// Writes rows with all columns of the table and perhaps the versions they replace. Returns how many.
pub(super) async fn insert(table: &LiveRef, batches: Vec<RecordBatch>, if_exists: IfExists) -> Result<u64> {
    let Some(rows) = joined(&batches)? else { return Ok(0) };
    let table = table.opened().await?;
    let (rows, versions) = without_versions(&rows)?;
    if if_exists == IfExists::Keep {
        return insert_new(table, rows).await;
    }
    let count = rows.num_rows() as u64;
    let condition = versions.map_or(Condition::Always, Condition::Versions);
    commit(&table, Write::upsert(rows).when(condition)).await?;
    Ok(count)
}

/// Writes those rows whose keys are not there, the first of each key.
async fn insert_new(table: LiveTable, rows: RecordBatch) -> Result<u64> {
    for _ in 0..ATTEMPTS {
        let (asked, all) = (table.clone(), rows.clone());
        let new = blocking(move || Ok(missing(&asked, &all)?)).await?;
        if new.num_rows() == 0 {
            return Ok(0);
        }
        let count = new.num_rows() as u64;
        match commit(&table, Write::upsert(new).when(Condition::Absent)).await {
            Ok(_) => return Ok(count),
            Err(error) if error.kind == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    let message = "rows with these keys come and go all the time";
    Err(QueryError::new(ErrorKind::Conflict, message).hint("try again"))
}

fn missing(table: &LiveTable, rows: &RecordBatch) -> nyala_storage::oplog::Result<RecordBatch> {
    let failed = |error: arrow::error::ArrowError| OplogError::Invalid { reason: error.to_string() };
    let keys = rows.project(&table.key()).map_err(failed)?;
    let keys = RecordBatch::try_new(table.key_schema()?, keys.columns().to_vec()).map_err(failed)?;
    let found = table.row_versions(&keys)?;
    let mut seen = std::collections::HashSet::new();
    let converter = arrow::row::RowConverter::new(
        keys.schema().fields().iter().map(|f| arrow::row::SortField::new(f.data_type().clone())).collect(),
    );
    let as_rows =
        converter.and_then(|converter| converter.convert_columns(keys.columns())).map_err(failed)?;
    let new =
        found.iter().zip(as_rows.iter()).map(|(version, key)| *version == 0 && seen.insert(key.owned()));
    let new: arrow::array::BooleanArray = new.map(Some).collect();
    arrow::compute::filter_record_batch(rows, &new).map_err(failed)
}

/// Hands a statement to the store and waits until it is as durable as the table wants it.
pub(super) async fn commit(table: &LiveTable, write: Write) -> Result<Committed> {
    let table = table.clone();
    let ticket = blocking(move || Ok(table.submit(write)?)).await?;
    Ok(ticket.await?)
}

/// One batch; none if there are no rows.
fn joined(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
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
fn without_versions(rows: &RecordBatch) -> Result<(RecordBatch, Option<Vec<u64>>)> {
    let Ok(at) = rows.schema().index_of(ROW_VERSION) else {
        return Ok((rows.clone(), None));
    };
    let mut rest = rows.clone();
    let versions = rest.remove_column(at);
    // Which columns allow nulls is the table's business, which says so by their names.
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
