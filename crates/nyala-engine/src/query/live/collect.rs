//! Collects all rows that a statement is about to write: it writes all or nothing.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryViewArray, GenericByteViewArray, StringViewArray, UInt64Array,
    make_array,
};
use arrow::compute::take;
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use futures::StreamExt;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::write::content_bytes;
use crate::query::answer::{Answer, RowStream};
use crate::query::execution::Execution;
use crate::query::plan::logical::Unoptimized;
use crate::query::run_query::{self, Query};
use crate::query::session::Session;

/// Rows of one statement are held in memory up to this size. No store takes larger statements.
const MAX_BYTES: usize = 1 << 30;
/// Bytes that a column may hold beyond twice the size of its values: saving less is not worth a copy.
const SLACK_BYTES: usize = 4096;

/// Runs a query to its end. The statement goes on.
pub async fn run(query: Unoptimized, execution: Execution<'_>) -> Result<(Vec<RecordBatch>, Execution<'_>)> {
    execution.running.entry().set_goes_on(true);
    let (session, settings, deadline) =
        (execution.session, execution.settings.clone(), execution.deadline.clone());
    let query = Query { plan: &query, text: None, parameters: &[], reads: None };
    let (batches, rows) = gather(run_query::run(query, execution).await?).await?;
    let running = rows.into_running();
    running.entry().set_goes_on(false);
    Ok((batches, Execution { session, settings, deadline, running, only_here: true }))
}

/// The rows of a query, as those of a statement of its own: it is sent to another node if its tables are there.
pub async fn rows_of(query: &str, session: &Session) -> Result<Vec<RecordBatch>> {
    Ok(gather(session.query(query).await?).await?.0)
}

/// All rows of an answer, and its stream, which has no more.
async fn gather(answer: Answer) -> Result<(Vec<RecordBatch>, RowStream)> {
    let Answer::Rows(mut rows) = answer else {
        return Err(QueryError::internal("a query gave no rows to write"));
    };
    let (mut batches, mut bytes) = (Vec::new(), 0_usize);
    while let Some(batch) = rows.next().await {
        let (batch, size) = compact(&batch?)?;
        bytes = bytes.saturating_add(size);
        if bytes > MAX_BYTES {
            let message = format!("a statement writes more than {} MiB", MAX_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("write fewer rows at a time, or load a file with COPY"));
        }
        batches.push(batch);
    }
    Ok((batches, rows))
}

/// The rows, and their bytes. Scans often return slices of much larger columns, or the few texts that a
/// filter left of many. Counted by its buffers, each slice would count the whole column again; kept as it is,
/// it would hold the column in memory. So columns that need less than half of their buffers are copied.
pub fn compact(batch: &RecordBatch) -> Result<(RecordBatch, usize)> {
    let (mut columns, mut bytes) = (Vec::with_capacity(batch.num_columns()), 0_usize);
    for column in batch.columns() {
        let (column, size) = compact_column(column)?;
        bytes = bytes.saturating_add(size);
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok((RecordBatch::try_new_with_options(batch.schema(), columns, &options)?, bytes))
}

fn compact_column(column: &ArrayRef) -> Result<(ArrayRef, usize)> {
    // The size of nested values is known after the copy.
    let content = if column.data_type().is_nested() { 0 } else { content_bytes(column) };
    let held = column.get_array_memory_size();
    if held <= content.saturating_mul(2).saturating_add(SLACK_BYTES) {
        // Views may share bytes, and each view writes its own copy of them.
        return Ok((Arc::clone(column), held.max(content)));
    }
    let all = UInt64Array::from_iter_values(0..column.len() as u64);
    let mut copy = make_array(own_views(take(column.as_ref(), &all, None)?.into_data())?);
    copy.shrink_to_fit();
    let held = copy.get_array_memory_size();
    Ok((copy, held.max(content)))
}

/// Copies the texts behind views. A copy of the views alone leaves the texts where they are.
fn own_views(data: ArrayData) -> std::result::Result<ArrayData, ArrowError> {
    match data.data_type().clone() {
        DataType::Utf8View => Ok(own(StringViewArray::from(data)).into_data()),
        DataType::BinaryView => Ok(own(BinaryViewArray::from(data)).into_data()),
        data_type if data_type.is_nested() => {
            let children = data.child_data().iter().cloned().map(own_views);
            let children = children.collect::<std::result::Result<Vec<_>, _>>()?;
            data.into_builder().child_data(children).build()
        }
        _ => Ok(data),
    }
}

fn own<T: ByteViewType + ?Sized>(views: GenericByteViewArray<T>) -> GenericByteViewArray<T> {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    // If several views share bytes, copies would take more.
    if views.total_buffer_bytes_used() < held { views.gc() } else { views }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Int64Array, ListArray, StringArray, StructArray};
    use arrow::datatypes::{Field, Int64Type};

    use super::*;

    /// A slice of so many rows must be counted and held in `at_most` bytes.
    fn check(column: ArrayRef, rows: usize, at_most: usize) {
        let all = RecordBatch::try_from_iter([("c", column)]).unwrap();
        let slice = all.slice(all.num_rows() / 2, rows);
        let (compacted, bytes) = compact(&slice).unwrap();
        assert_eq!(compacted, slice);
        assert!(bytes <= at_most, "{bytes} bytes for {}", slice.schema());
        assert!(compacted.get_array_memory_size() <= at_most, "{} are kept", slice.schema());
    }

    #[test]
    fn a_slice_is_counted_and_held_by_its_values() {
        const ROWS: usize = 100_000;
        let numbers = Int64Array::from_iter_values(0..ROWS as i64);
        check(Arc::new(numbers.clone()), 1000, 12_000);
        let text = |n: usize| format!("{n:0100}");
        check(Arc::new(StringArray::from_iter_values((0..ROWS).map(text))), 1000, 120_000);
        let views = StringViewArray::from_iter_values((0..ROWS).map(text));
        check(Arc::new(views.clone()), 1000, 140_000);
        let lists = (0..ROWS as i64).map(|n| Some([Some(n), None]));
        check(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)), 1000, 60_000);
        let fields = [("n", DataType::Int64), ("t", DataType::Utf8View)];
        let fields = fields.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)));
        let pairs = fields.into_iter().zip([Arc::new(numbers) as ArrayRef, Arc::new(views)]);
        check(Arc::new(StructArray::from(pairs.collect::<Vec<_>>())), 1000, 150_000);
    }

    #[test]
    fn what_is_held_tightly_is_not_copied_and_what_is_written_of_it_counts() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let (same, _) = compact_column(&numbers).unwrap();
        assert!(Arc::ptr_eq(&same, &numbers));
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(1000)]));
        let repeated = take(text.as_ref(), &UInt64Array::from(vec![0; 500]), None).unwrap();
        let (same, bytes) = compact_column(&repeated).unwrap();
        assert!(Arc::ptr_eq(&same, &repeated) && bytes >= 500_000, "{bytes}");
    }
}
