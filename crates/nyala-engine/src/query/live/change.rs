//! UPDATE and DELETE: a query reads the new rows, or the rows to delete, each with its version. The write is
//! committed only if the rows still have these versions; if not, the query runs again.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use nyala_cube::live::ROW_VERSION;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{Condition, LiveTable, Write};

use super::moved_keys::moving;
use super::numbers::in_store_order;
use super::write::{ATTEMPTS, Work, Written, commit, joined, without_versions};
use super::{collect, matches};
use crate::query::execution::Execution;
use crate::query::plan::logical::Unoptimized;
use crate::query::plan::returning::GivenBack;

/// The query of an UPDATE or DELETE.
pub struct Reading {
    query: LogicalPlan,
    /// Whether its rows are to be deleted. If not, they are the new rows.
    deletes: bool,
    /// Set if it may return a row of the table several times, once for each joined row of other tables: the
    /// number of columns that belong to the table.
    repeats: Option<usize>,
    /// Number of columns at the end of a row that have its old key, if the statement sets columns of the key.
    old_key: usize,
}

/// The outcome of one run of the query, ready to be written.
struct Step {
    write: Write,
    count: u64,
    given: Option<RecordBatch>,
}

/// The projection that the planner makes of an UPDATE: the columns of the table, over the rows of the table
/// and of the tables in FROM.
pub fn projection_of(input: &LogicalPlan) -> Result<&Projection> {
    match input {
        LogicalPlan::Projection(projection) => Ok(projection),
        _ => Err(QueryError::internal("an UPDATE has no projection")),
    }
}

impl Work<'_> {
    /// The query of an UPDATE: the new rows with their old versions; with RETURNING also the columns of the
    /// other tables.
    pub fn updated(&self, input: &Unoptimized) -> Result<Reading> {
        let projection = projection_of(input.logical())?;
        let moves = self.sets_key(projection)?;
        let mut reading = self.joined(projection, projection.expr.clone(), false)?;
        if let (true, LogicalPlan::Projection(all)) = (moves, &mut reading.query) {
            let mut columns = all.expr.clone();
            columns.extend(self.old_key(projection));
            reading.old_key = columns.len() - all.expr.len();
            *all = Projection::try_new(columns, Arc::clone(&all.input))?;
        }
        Ok(reading)
    }

    /// The query of a DELETE: the rows to delete, with their versions. RETURNING needs all columns, else the
    /// key is enough.
    pub fn deleted(&self, input: &Unoptimized, dml: &DmlStatement) -> Result<Reading> {
        let needs = |name: &str| {
            self.back.is_some() || name == ROW_VERSION || self.provider.key().index_of(name).is_ok()
        };
        if let LogicalPlan::Projection(projection) = input.logical() {
            let needed = projection.expr.iter().filter(|column| needs(&column.qualified_name().1));
            return self.joined(projection, needed.cloned().collect(), true);
        }
        let whole = input.logical();
        let columns = whole.schema().columns().into_iter().filter(|column| needs(&column.name));
        let columns =
            columns.map(|column| Expr::Column(Column::new(Some(dml.table_name.clone()), column.name)));
        let query = LogicalPlanBuilder::from(whole.clone()).project(columns.collect::<Vec<_>>())?.build()?;
        Ok(Reading { query, deletes: true, repeats: None, old_key: 0 })
    }

    /// `own` columns of the table; with RETURNING also the columns of the tables joined to it.
    fn joined(&self, projection: &Projection, own: Vec<Expr>, deletes: bool) -> Result<Reading> {
        let (all, width) = (projection.input.schema(), projection.expr.len());
        let repeats = (all.fields().len() > width).then_some(own.len());
        let mut columns = own;
        if self.back.is_some() {
            columns.extend(others(all, width));
        }
        let query = LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(&projection.input))?);
        Ok(Reading { query, deletes, repeats, old_key: 0 })
    }

    /// Whether a column of the key is set. Fails if the version is.
    fn sets_key(&self, projection: &Projection) -> Result<bool> {
        let (key, target) = (self.provider.key(), target_of(projection));
        let mut sets_key = false;
        for expression in &projection.expr {
            let (_, name) = expression.qualified_name();
            let stays = matches!(
                expression.clone().unalias(),
                Expr::Column(column) if column.name == name && column.relation.as_ref() == target
            );
            if !stays && name == ROW_VERSION {
                return Err(QueryError::new(
                    ErrorKind::Unsupported,
                    format!("`{ROW_VERSION}` cannot be set"),
                ));
            }
            sets_key |= !stays && key.index_of(&name).is_ok();
        }
        Ok(sets_key)
    }

    /// The columns of the key as they are before the statement, under names that no table has.
    fn old_key(&self, projection: &Projection) -> Vec<Expr> {
        let target = target_of(projection);
        let columns = self.provider.key().fields().iter().map(|field| {
            Expr::Column(Column::new(target.cloned(), field.name())).alias(format!("__old_{}", field.name()))
        });
        columns.collect()
    }

    pub async fn read_and_write<'e>(
        &self,
        reading: Reading,
        execution: Execution<'e>,
    ) -> Result<(Written, Execution<'e>)> {
        let table = self.provider.table().opened().await?;
        let (mut execution, mut turn, mut conflict) = (execution, None, None);
        for _ in 0..ATTEMPTS {
            let query = Unoptimized::Resolved(reading.query.clone());
            let (batches, ended) = collect::run(query, execution).await?;
            let Some(rows) = joined(&batches)? else {
                return Ok((Written::nothing(self.back.as_ref()), ended));
            };
            let Step { write, count, given } = self.step(&table, &reading, rows).await?;
            match commit(&table, write, &self.deadline).await {
                Ok(done) => return Ok((Written::new(count, given, self.back.as_ref(), &done)?, ended)),
                Err(error) if error.kind == ErrorKind::Conflict => {
                    (conflict, execution) = (Some(error), ended)
                }
                Err(error) => return Err(error),
            }
            if turn.is_none() {
                turn = Some(self.provider.table().turn.lock().await);
            }
        }
        Err(conflict.unwrap_or_else(|| QueryError::internal("a statement was never tried")))
    }

    async fn step(&self, table: &LiveTable, reading: &Reading, rows: RecordBatch) -> Result<Step> {
        let (rows, old) = split(&rows, reading.old_key)?;
        let rows = if reading.deletes { rows } else { self.provider.table().fit(rows)? };
        let given = GivenBack::of(self.back.as_ref(), &rows).await?;
        let (rows, old, given) = match reading.repeats {
            Some(own) => self.once_each(rows, old, given, own).await?,
            None => (rows, old, given),
        };
        let count = rows.num_rows() as u64;
        let (rows, versions) = without_versions(&rows)?;
        let versions = versions.ok_or_else(|| QueryError::internal("rows have no versions"))?;
        if let Some(old) = old {
            let name = self.provider.table().entry().name.to_string();
            let write = moving(table, name, rows, old, versions).await?;
            return Ok(Step { write, count, given });
        }
        let write = match reading.deletes {
            true => Write::delete(self.keys_of(&rows)?),
            false if self.provider.table().source().numbered => {
                Write::upsert(in_store_order(&rows, &table.schema(), None)?)
            }
            false => Write::upsert(rows),
        };
        Ok(Step { write: write.when(Condition::Versions(versions)), count, given })
    }

    /// Drops copies of rows that were joined to several rows of other tables. The first `own` columns of `rows` are the table's.
    async fn once_each(
        &self,
        rows: RecordBatch,
        old: Option<RecordBatch>,
        given: Option<RecordBatch>,
        own: usize,
    ) -> Result<(RecordBatch, Option<RecordBatch>, Option<RecordBatch>)> {
        let name = self.provider.table().entry().name.to_string();
        let rows = rows.project(&(0..own).collect::<Vec<_>>())?;
        let Some(old) = old else {
            let key = self.key_positions(&rows)?;
            let (rows, given) = matches::once_each(rows, given, key, name).await?;
            return Ok((rows, None, given));
        };
        let (width, key) = (old.num_columns(), (own..own + old.num_columns()).collect());
        let (rows, given) = matches::once_each(beside(&rows, &old)?, given, key, name).await?;
        let (rows, old) = split(&rows, width)?;
        Ok((rows, old, given))
    }

    fn key_positions(&self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let schema = rows.schema();
        let positions = self.provider.key().fields().iter().map(|field| schema.index_of(field.name()));
        Ok(positions.collect::<std::result::Result<Vec<_>, _>>()?)
    }

    fn keys_of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        Ok(rows.project(&self.key_positions(rows)?)?)
    }
}

/// The table that is written: the first one of the query.
fn target_of(projection: &Projection) -> Option<&TableReference> {
    projection.input.schema().iter().next().and_then(|(table, _)| table)
}

/// The rows without their last `width` columns, and these columns, if there are any.
fn split(rows: &RecordBatch, width: usize) -> Result<(RecordBatch, Option<RecordBatch>)> {
    if width == 0 {
        return Ok((rows.clone(), None));
    }
    let rest = rows.num_columns().saturating_sub(width);
    let last = rows.project(&(rest..rows.num_columns()).collect::<Vec<_>>())?;
    Ok((rows.project(&(0..rest).collect::<Vec<_>>())?, Some(last)))
}

/// The columns of both batches, side by side.
fn beside(rows: &RecordBatch, others: &RecordBatch) -> Result<RecordBatch> {
    let (own, more) = (rows.schema(), others.schema());
    let fields: Vec<FieldRef> = own.fields().iter().chain(more.fields()).cloned().collect();
    let columns = rows.columns().iter().chain(others.columns()).cloned().collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The columns after the first `own`, under names that no table has.
fn others(all: &DFSchema, own: usize) -> impl Iterator<Item = Expr> {
    let others = all.iter().enumerate().skip(own);
    others.map(|(at, column)| Expr::Column(Column::from(column)).alias(format!("__other_{at}")))
}
