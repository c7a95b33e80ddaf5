//! Rows of an UPDATE … FROM or a DELETE … USING that were joined to several rows of other tables.
//!
//! The outcome must not depend on chance: if the copies agree the row is written once, otherwise the
//! statement fails.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::blocking;

/// Each row of the table once, with its row of RETURNING. `key` says where the columns of its key are.
pub async fn once_each(
    rows: RecordBatch,
    given: Option<RecordBatch>,
    key: Vec<usize>,
    table: String,
) -> Result<(RecordBatch, Option<RecordBatch>)> {
    blocking(move || first_of_each(rows, given, &key, &table)).await
}

fn first_of_each(
    rows: RecordBatch,
    given: Option<RecordBatch>,
    key: &[usize],
    table: &str,
) -> Result<(RecordBatch, Option<RecordBatch>)> {
    let keys = comparable(rows.project(key)?.columns())?;
    let mut firsts = HashMap::with_capacity(rows.num_rows());
    let mut repeated = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        match firsts.entry(key) {
            Entry::Vacant(place) => {
                place.insert(at);
            }
            Entry::Occupied(first) => repeated.push((*first.get(), at)),
        }
    }
    if repeated.is_empty() {
        return Ok((rows, given));
    }
    let mut columns = rows.columns().to_vec();
    columns.extend(given.iter().flat_map(RecordBatch::columns).cloned());
    let whole = comparable(&columns)?;
    if let Some((_, at)) = repeated.iter().find(|(first, at)| whole.row(*first) != whole.row(*at)) {
        return Err(disagree(&rows, key, *at, table)?);
    }
    let mut kept = vec![true; rows.num_rows()];
    for (_, at) in repeated {
        if let Some(kept) = kept.get_mut(at) {
            *kept = false;
        }
    }
    let kept = BooleanArray::from(kept);
    let given = given.map(|given| filter_record_batch(&given, &kept)).transpose()?;
    Ok((filter_record_batch(&rows, &kept)?, given))
}

fn comparable(columns: &[ArrayRef]) -> Result<Rows> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    Ok(RowConverter::new(fields)?.convert_columns(columns)?)
}

fn disagree(rows: &RecordBatch, key: &[usize], at: usize, table: &str) -> Result<QueryError> {
    let key = rows.project(key)?;
    let schema = key.schema();
    let named = schema.fields().iter().zip(key.columns()).map(|(field, column)| {
        Ok(format!("{} = {}", field.name(), ScalarValue::try_from_array(column, at)?))
    });
    let named = named.collect::<Result<Vec<_>>>()?.join(", ");
    let message = format!(
        "the row of table `{table}` with {named} meets several rows of the other tables, which disagree about what becomes of it"
    );
    Ok(QueryError::new(ErrorKind::Data, message)
        .hint("let the other tables have one row for each row of the table, for example with GROUP BY or DISTINCT ON"))
}
