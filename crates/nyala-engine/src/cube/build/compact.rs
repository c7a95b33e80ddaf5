//! Batches that own no more than their rows.
//!
//! An aggregation gives its groups as slices of one large set of arrays. A sort counts for each slice the
//! whole of what it points to, so that a cuboid of some megabytes seems to take gigabytes; and the arrays
//! live as long as any slice. Copies of the slices are as large as they look.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of `input` in batches of their own.
pub(super) fn compact(input: &Plan) -> Result<Plan> {
    let schema = input.schema();
    let count = input.output_partitioning().partition_count();
    let partitions = (0..count).map(|partition| {
        let (input, schema) = (Arc::clone(input), Arc::clone(&schema));
        Arc::new(Compacted { input, schema, partition }) as Arc<dyn PartitionStream>
    });
    let plan = StreamingTableExec::try_new(Arc::clone(&schema), partitions.collect(), None, [], false, None)?;
    Ok(Arc::new(plan))
}

struct Compacted {
    input: Plan,
    schema: SchemaRef,
    partition: usize,
}

impl fmt::Debug for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compacted").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl PartitionStream for Compacted {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = match self.input.execute(self.partition, context) {
            Ok(stream) => stream.map(|batch| own(&batch?)).boxed(),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    let every = UInt32Array::from_iter_values(0..rows);
    let columns = batch.columns().iter().map(|column| own_column(column, &every));
    Ok(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)?)
}

fn own_column(column: &ArrayRef, every: &UInt32Array) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        // Taking from these copies the views and keeps what they point to.
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => take(column, every, None)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn a_slice_is_copied_out_of_what_it_points_to() {
        let texts: Vec<String> =
            (0..10_000).map(|n| format!("a text that is not kept in the view {n}")).collect();
        let large = RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef),
            ("text", Arc::new(StringViewArray::from_iter_values(&texts)) as ArrayRef),
        ])
        .unwrap();
        let slice = large.slice(5_000, 10);
        let owned = own(&slice).unwrap();
        assert_eq!(owned, slice);
        assert!(owned.get_array_memory_size() < slice.get_array_memory_size() / 100);
    }
}
