//! Changes to the batches of a build between operators.
//!
//! An aggregation gives its groups as slices of one large set of arrays. A sort counts the whole arrays for
//! each slice, so that a cuboid of some megabytes seems to take gigabytes; and the arrays live as long as any
//! slice. Copies of the slices are as large as they look.

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
type Change = dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync;

/// The rows of `input` in batches of their own.
pub fn compact(input: &Plan) -> Result<Plan> {
    map_batches(input, input.schema(), own)
}

/// The batches of `input` after `change`, which gives them this `schema`.
pub fn map_batches(
    input: &Plan,
    schema: SchemaRef,
    change: impl Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync + 'static,
) -> Result<Plan> {
    let change: Arc<Change> = Arc::new(change);
    let partitions = (0..input.output_partitioning().partition_count()).map(|partition| {
        let (input, schema, change) = (Arc::clone(input), Arc::clone(&schema), Arc::clone(&change));
        Arc::new(Changed { input, schema, partition, change }) as Arc<dyn PartitionStream>
    });
    let partitions = partitions.collect();
    Ok(Arc::new(StreamingTableExec::try_new(schema, partitions, None, [], false, None)?))
}

struct Changed {
    input: Plan,
    schema: SchemaRef,
    partition: usize,
    change: Arc<Change>,
}

impl fmt::Debug for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changed").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl PartitionStream for Changed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let change = Arc::clone(&self.change);
        let stream = match self.input.execute(self.partition, context) {
            Ok(stream) => stream.map(move |batch| change(&batch?)).boxed(),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(own_column);
    Ok(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)?)
}

/// A copy of a column that owns no more than its values.
pub fn own_column(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        // `take` would copy the views and keep the buffers they point to.
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => {
            let rows = u32::try_from(column.len()).unwrap_or(u32::MAX);
            take(column, &UInt32Array::from_iter_values(0..rows), None)?
        }
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
