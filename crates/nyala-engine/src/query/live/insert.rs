//! INSERT: rows that replace the rows with the same keys, or are left out where there are some.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::datasource::{TableProvider, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use nyala_cube::live::{LiveProvider, LiveRef, ROW_VERSION};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{Conflict, IfExists};
use nyala_storage::oplog::{Condition, LiveTable, OplogError, Write};

use super::blocking;
use super::numbers::with_new_numbers;
use super::write::{ATTEMPTS, Written, authorize, commit, joined, without_versions};
use crate::query::deadline::Deadline;
use crate::query::plan::returning::GivenBack;
use crate::query::session::Session;

/// Fails for an ON CONFLICT that does anything but replace or keep rows of this table. Privileges are checked
/// first: a role without them learns nothing of its columns.
pub fn check_conflict(session: &Session, insert: &LogicalPlan, conflict: &Conflict) -> Result<()> {
    let LogicalPlan::Dml(dml) = insert else { return Ok(()) };
    let provider = source_as_provider(&dml.target)?;
    // Other tables take no rows; running the statement reports that.
    let Some(provider) = provider.downcast_ref::<LiveProvider>() else { return Ok(()) };
    authorize(session, provider, &dml.op)?;
    if provider.table().source().numbered {
        return conflict.check_without_key(&provider.table().entry().name);
    }
    let schema = provider.schema();
    let key: Vec<&str> = provider.key().fields().iter().map(|field| field.name().as_str()).collect();
    let columns = schema.fields().iter().map(|field| field.name().as_str());
    let columns: Vec<&str> = columns.filter(|name| *name != ROW_VERSION).collect();
    conflict.check(&key, &columns)
}

/// Writes rows with all columns of the table, and optionally the versions they replace.
pub async fn insert(
    table: &LiveRef,
    batches: Vec<RecordBatch>,
    if_exists: IfExists,
    back: Option<&Arc<GivenBack>>,
    deadline: &Deadline,
) -> Result<Written> {
    let Some(rows) = joined(&batches)? else { return Ok(Written::nothing(back)) };
    let live = table.opened().await?;
    let (rows, versions) = without_versions(&rows)?;
    let rows = table.fit(rows)?;
    if table.source().numbered {
        return insert_numbered(&live, &rows, back, deadline).await;
    }
    if if_exists == IfExists::Keep {
        return insert_new((table, live), rows, back, deadline).await;
    }
    if if_exists == IfExists::Merge {
        check_once_each(&live, &rows)?;
    }
    let condition = versions.map_or(Condition::Always, Condition::Versions);
    write(&live, (rows, condition), back, deadline).await
}

/// Writes rows that get numbers.
async fn insert_numbered(
    table: &LiveTable,
    rows: &RecordBatch,
    back: Option<&Arc<GivenBack>>,
    deadline: &Deadline,
) -> Result<Written> {
    let given = GivenBack::of(back, rows).await?;
    for _ in 0..ATTEMPTS {
        let numbered = with_new_numbers(rows, &table.schema())?;
        match commit(table, Write::upsert(numbered).when(Condition::Absent), deadline).await {
            Err(error) if error.kind == ErrorKind::Conflict => {}
            done => return Written::new(rows.num_rows() as u64, given, back, &done?),
        }
    }
    Err(busy())
}

fn busy() -> QueryError {
    let message =
        format!("gave up after {ATTEMPTS} attempts: other statements keep changing rows with these keys");
    QueryError::new(ErrorKind::Conflict, message)
        .hint("retry with fewer rows, or when the other writers have finished")
}

async fn write(
    table: &LiveTable,
    (rows, condition): (RecordBatch, Condition),
    back: Option<&Arc<GivenBack>>,
    deadline: &Deadline,
) -> Result<Written> {
    let count = rows.num_rows() as u64;
    let given = GivenBack::of(back, &rows).await?;
    let done = commit(table, Write::upsert(rows).when(condition), deadline).await?;
    Written::new(count, given, back, &done)
}

/// Writes the rows with new keys, the first row of each key.
async fn insert_new(
    (target, table): (&LiveRef, LiveTable),
    rows: RecordBatch,
    back: Option<&Arc<GivenBack>>,
    deadline: &Deadline,
) -> Result<Written> {
    let mut turn = None;
    for _ in 0..ATTEMPTS {
        let (asked, all) = (table.clone(), rows.clone());
        let new = blocking(move || Ok(missing(&asked, &all)?)).await?;
        if new.num_rows() == 0 {
            return Ok(Written::nothing(back));
        }
        match write(&table, (new, Condition::Absent), back, deadline).await {
            Err(error) if error.kind == ErrorKind::Conflict => {}
            done => return done,
        }
        if turn.is_none() {
            turn = Some(target.turn.lock().await);
        }
    }
    Err(busy())
}

/// Fails if two rows have one key: which of them is to be merged first would be chance.
fn check_once_each(table: &LiveTable, rows: &RecordBatch) -> Result<()> {
    let keys = rows.project(&table.key())?;
    let fields = keys.schema().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
    let as_rows = RowConverter::new(fields)?.convert_columns(keys.columns())?;
    let mut seen = HashSet::with_capacity(rows.num_rows());
    if as_rows.iter().all(|key| seen.insert(key)) {
        return Ok(());
    }
    let message =
        "ON CONFLICT DO UPDATE cannot affect a row a second time: two rows of the statement have one key";
    Err(QueryError::new(ErrorKind::Data, message)
        .sqlstate("21000")
        .hint("give each key once, for example with DISTINCT ON"))
}

fn missing(table: &LiveTable, rows: &RecordBatch) -> nyala_storage::oplog::Result<RecordBatch> {
    let failed = |error: ArrowError| OplogError::Invalid { reason: error.to_string() };
    let keys = rows.project(&table.key()).map_err(failed)?;
    let keys = RecordBatch::try_new(table.key_schema()?, keys.columns().to_vec()).map_err(failed)?;
    let found = table.row_versions(&keys)?;
    let mut seen = HashSet::new();
    let fields = keys.schema().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
    let as_rows = RowConverter::new(fields).and_then(|converter| converter.convert_columns(keys.columns()));
    let as_rows = as_rows.map_err(failed)?;
    let new = found.iter().zip(as_rows.iter()).map(|(version, key)| *version == 0 && seen.insert(key));
    let new: BooleanArray = new.map(Some).collect();
    filter_record_batch(rows, &new).map_err(failed)
}
