//! Batches with columns, cast to the columns of the table.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Schema, SchemaRef};
use nyala_engine::{ErrorKind, QueryError};

use super::load::Target;
use super::plain::plain_bytes;
use super::uuids;

/// Most bytes of a batch with each value written out: a dictionary or a view lets few bytes stand for many.
const MAX_PLAIN_BYTES: u64 = 512 << 20;
/// Memory of a value of variable width, besides its bytes.
const REFERENCE_BYTES: usize = 16;

/// The columns of the batch, matched by their names and cast to the types of the table.
pub fn conform(batch: &RecordBatch, target: &mut Target) -> Result<RecordBatch, QueryError> {
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    let schema = target.columns(&names)?;
    check_size(batch, &schema)?;
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if uuids::are_texts(field, column) {
            return uuids::of_texts(column);
        }
        cast_with_options(column, field.data_type(), &options)
            .map_err(|error| QueryError::new(ErrorKind::Data, format!("column `{}`: {error}", field.name())))
    });
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns.collect::<Result<_, _>>()?)?)
}

/// Refuses a batch before its values are copied into the types of the table.
fn check_size(batch: &RecordBatch, schema: &SchemaRef) -> Result<(), QueryError> {
    let rows = batch.num_rows() as u64;
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let width = field.data_type().primitive_width().unwrap_or(REFERENCE_BYTES);
        plain_bytes(column).max(rows.saturating_mul(width as u64))
    });
    if columns.fold(0, u64::saturating_add) <= MAX_PLAIN_BYTES {
        return Ok(());
    }
    let message =
        format!("the values of a batch have more than {} MiB, each written out", MAX_PLAIN_BYTES >> 20);
    Err(QueryError::new(ErrorKind::LimitExceeded, message).hint("send batches of fewer rows"))
}
