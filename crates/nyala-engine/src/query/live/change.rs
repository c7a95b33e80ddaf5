//! UPDATE and DELETE: a query reads the new rows, or the rows to delete, each with its version. The write is
//! committed only if the rows still have these versions; if not, the query runs again.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use nyala_cube::live::ROW_VERSION;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{Condition, LiveTable, Write};

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
        self.check_assignments(projection)?;
        self.joined(projection, projection.expr.clone(), false)
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
        Ok(Reading { query, deletes: true, repeats: None })
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
        Ok(Reading { query, deletes, repeats })
    }

    /// Fails if a key column or version is set. The target is the first table of the query.
    fn check_assignments(&self, projection: &Projection) -> Result<()> {
        let (key, input) = (self.provider.key(), projection.input.schema());
        let target = input.iter().next().and_then(|(table, _)| table);
        for expression in &projection.expr {
            let (_, name) = expression.qualified_name();
            let stays = matches!(
                expression.clone().unalias(),
                Expr::Column(column) if column.name == name && column.relation.as_ref() == target
            );
            if !stays && (name == ROW_VERSION || key.index_of(&name).is_ok()) {
                let message = match name == ROW_VERSION {
                    true => format!("`{ROW_VERSION}` cannot be set"),
                    false => format!("column `{name}` is part of the primary key and cannot be changed"),
                };
                return Err(QueryError::new(ErrorKind::Unsupported, message)
                    .hint("insert the row under its new key and delete the old one"));
            }
        }
        Ok(())
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
        let rows = if reading.deletes { rows } else { self.provider.table().fit(rows)? };
        let given = GivenBack::of(self.back.as_ref(), &rows).await?;
        let (rows, given) = match reading.repeats {
            Some(own) => {
                let own: Vec<usize> = (0..own).collect();
                matches::once_each(rows.project(&own)?, given, self.provider).await?
            }
            None => (rows, given),
        };
        let count = rows.num_rows() as u64;
        let (rows, versions) = without_versions(&rows)?;
        let versions = versions.ok_or_else(|| QueryError::internal("rows have no versions"))?;
        let write = match reading.deletes {
            true => Write::delete(self.keys_of(&rows)?),
            false if self.provider.table().source().numbered => {
                Write::upsert(in_store_order(&rows, &table.schema(), None)?)
            }
            false => Write::upsert(rows),
        };
        Ok(Step { write: write.when(Condition::Versions(versions)), count, given })
    }

    fn keys_of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let schema = rows.schema();
        let positions = self.provider.key().fields().iter().map(|field| schema.index_of(field.name()));
        Ok(rows.project(&positions.collect::<std::result::Result<Vec<_>, _>>()?)?)
    }
}

/// The columns after the first `own`, under names that no table has.
fn others(all: &DFSchema, own: usize) -> impl Iterator<Item = Expr> {
    let others = all.iter().enumerate().skip(own);
    others.map(|(at, column)| Expr::Column(Column::from(column)).alias(format!("__other_{at}")))
}
