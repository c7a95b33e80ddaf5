//! UPDATE of key columns: each row is deleted under its old key and inserted under its new one, in one write.

use std::collections::HashMap;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{Condition, LiveTable, Write};

use super::blocking;

/// The write that moves `rows`, which have all columns of the table, from their `old` keys, each last written at its version.
/// Fails if two rows would have one key.
pub async fn moving(
    table: &LiveTable,
    name: String,
    rows: RecordBatch,
    old: RecordBatch,
    versions: Vec<u64>,
) -> Result<Write> {
    let table = table.clone();
    blocking(move || write_of(&table, &name, rows, &old, &versions)).await
}

fn write_of(
    table: &LiveTable,
    name: &str,
    rows: RecordBatch,
    old: &RecordBatch,
    versions: &[u64],
) -> Result<Write> {
    let schema = table.key_schema()?;
    let of_table = |keys: &RecordBatch| {
        let columns = keys.columns().iter().zip(schema.fields());
        let cast = columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()));
        RecordBatch::try_new(schema.clone(), cast.collect::<std::result::Result<_, _>>()?)
    };
    let (new, old) = (of_table(&rows.project(&table.key())?)?, of_table(old)?);
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let (new_keys, old_keys) =
        (converter.convert_columns(new.columns())?, converter.convert_columns(old.columns())?);
    let before: HashMap<_, u64> = old_keys.iter().zip(versions.iter().copied()).collect();
    let mut after = HashMap::with_capacity(new_keys.num_rows());
    let there = table.row_versions(&new)?;
    for (at, (key, is_there)) in new_keys.iter().zip(there).enumerate() {
        let is_taken = is_there != 0 && !before.contains_key(&key);
        if after.insert(key, at).is_some() || is_taken {
            return Err(taken(name, &new, at)?);
        }
    }
    // A row may get the key that another row of the same statement gives up.
    let inserted = new_keys.iter().map(|key| before.get(&key).copied().unwrap_or(0));
    let leaves: Vec<bool> = old_keys.iter().map(|key| !after.contains_key(&key)).collect();
    let deleted = leaves.iter().zip(versions).filter(|(leaves, _)| **leaves).map(|(_, version)| *version);
    let condition = Condition::Versions(inserted.chain(deleted).collect());
    let deletes = filter_record_batch(&old, &BooleanArray::from(leaves))?;
    Ok(Write { upserts: Some(rows), deletes: Some(deletes), condition, ..Write::default() })
}

fn taken(table: &str, keys: &RecordBatch, at: usize) -> Result<QueryError> {
    let schema = keys.schema();
    let values = keys.columns().iter().map(|column| ScalarValue::try_from_array(column, at));
    let values: Vec<String> = values.map(|value| Ok(value?.to_string())).collect::<Result<_>>()?;
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let message = format!(
        "duplicate key: two rows of table `{table}` would have the key ({}) = ({})",
        names.join(", "),
        values.join(", ")
    );
    let hint = "give each row a key of its own, or delete the row that has this key first";
    Ok(QueryError::new(ErrorKind::Data, message).sqlstate("23505").hint(hint))
}
