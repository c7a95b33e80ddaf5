//! An operator that passes rows on, and between two batches ends with its statement or lets others compute.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, resources_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use nyala_runtime::{check, turn_is_over};

use super::pass::{Pass, PassExec};

/// Rows of the largest slice: those of a usual batch.
const MAX_ROWS: usize = 8192;
/// If the consumer takes longer than this for a slice, the next one is smaller.
const SLOW: Duration = Duration::from_millis(2);
/// If the consumer takes less than this for a slice, the next one is larger.
const FAST: Duration = Duration::from_micros(500);
/// Factor by which a slice grows or shrinks.
const FACTOR: usize = 4;

/// Passes batches on. Between two of them it
/// - fails if the statement must end, so that operators above it end in the middle of a poll,
/// - lets other tasks of its threads run, if it has computed for a turn.
pub type YieldExec = PassExec<Yielding>;

/// What a [`YieldExec`] does besides.
#[derive(Debug)]
pub enum Yielding {
    /// Nothing.
    Only,
    /// It cuts batches into slices, see [`slicing`].
    Slices {
        /// Rows of the first slice.
        first_rows: usize,
    },
    /// It is executed once, see [`once`].
    Once {
        /// Whether it was executed.
        executed: AtomicBool,
    },
}

/// An operator that passes the batches of `input` on, and yields.
pub fn yielding(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(YieldExec::new(input, Yielding::Only))
}

/// A yielding operator that also cuts batches into slices: of few rows where the operator above takes long for a row, as a join does that
/// compares it with millions of others and gives none, and whole where it does not. Begins with `first_rows`.
pub fn slicing(input: Arc<dyn ExecutionPlan>, first_rows: usize) -> Arc<dyn ExecutionPlan> {
    Arc::new(YieldExec::new(without_yield(input), Yielding::Slices { first_rows }))
}

/// A yielding operator that also fails with a lack of memory if a partition is executed after another. NestedLoopJoinExec of DataFusion
/// 55 executes its left input once more when it, or an operator below it, has had no memory. But most operators cannot give their rows
/// twice: exchanges panic, and scans that share files among partitions give what is left of them
/// (<https://github.com/apache/datafusion/issues/24676>). And what the join does then is wrong for outer and semi joins with
/// several partitions (<https://github.com/apache/datafusion/issues/22641>). No release has the fixes yet.
pub fn once(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(YieldExec::new(without_yield(input), Yielding::Once { executed: AtomicBool::new(false) }))
}

/// The input of an operator that only yields: one that does more takes its place.
fn without_yield(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match input.downcast_ref::<YieldExec>() {
        Some(yields) if matches!(yields.pass(), Yielding::Only) => Arc::clone(yields.input()),
        _ => input,
    }
}

impl Pass for Yielding {
    fn name(&self) -> &'static str {
        "YieldExec"
    }

    fn detail(&self) -> Option<&'static str> {
        match self {
            Self::Only => None,
            Self::Slices { .. } => Some("slices"),
            Self::Once { .. } => Some("once"),
        }
    }

    fn anew(&self) -> Self {
        match self {
            Self::Only => Self::Only,
            Self::Slices { first_rows } => Self::Slices { first_rows: *first_rows },
            Self::Once { .. } => Self::Once { executed: AtomicBool::new(false) },
        }
    }

    fn claims(&self, input: &dyn ExecutionPlan) -> Arc<PlanProperties> {
        let claims = PlanProperties::clone(input.properties());
        Arc::new(claims.with_scheduling_type(SchedulingType::Cooperative))
    }

    fn rows(
        &self,
        input: &dyn ExecutionPlan,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if let Self::Once { executed } = self
            && executed.swap(true, Ordering::Relaxed)
        {
            return resources_err!(
                "a join that compares all pairs of rows has no memory for one side, or what computes that side has none"
            );
        }
        let rows = input.execute(partition, task)?;
        let yields: SendableRecordBatchStream = match self {
            Self::Slices { first_rows } => {
                Box::pin(Yields { schema: rows.schema(), rows: Slices::new(rows, *first_rows) })
            }
            Self::Only | Self::Once { .. } => Box::pin(Yields { schema: rows.schema(), rows }),
        };
        Ok(make_cooperative(yields))
    }
}

/// Whether an operator passes rows on and yields.
pub fn is_yield(operator: &dyn ExecutionPlan) -> bool {
    operator.is::<YieldExec>()
}

/// Fails if the statement that the calling thread computes must end.
pub fn check_statement() -> Result<()> {
    check().map_err(|ended| DataFusionError::External(Box::new(ended)))
}

struct Yields<S> {
    schema: SchemaRef,
    rows: S,
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> Stream for Yields<S> {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        check_statement()?;
        if turn_is_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.rows.poll_next_unpin(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> RecordBatchStream for Yields<S> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Batches, cut by how long the operator above takes for them.
struct Slices {
    rows: SendableRecordBatchStream,
    /// The rest of the last batch.
    rest: Option<RecordBatch>,
    /// Rows of the next slice.
    size: usize,
    given: Option<Instant>,
}

impl Slices {
    fn new(rows: SendableRecordBatchStream, first_rows: usize) -> Self {
        Self { rows, rest: None, size: first_rows, given: None }
    }

    /// Chooses the size of the next slice by the time until the operator above asks again.
    fn adapt(&mut self) {
        let Some(needed) = self.given.take().map(|given| given.elapsed()) else { return };
        if needed > SLOW {
            self.size = (self.size / FACTOR).max(1);
        } else if needed < FAST {
            self.size = self.size.saturating_mul(FACTOR).min(MAX_ROWS);
        }
    }

    /// The next rows of `batch`, the others kept.
    fn cut(&mut self, batch: RecordBatch) -> RecordBatch {
        let size = self.size.min(batch.num_rows());
        // Most batches are of this size, and whole ones are not to be copied or cut.
        if size == batch.num_rows() || self.size == MAX_ROWS {
            return batch;
        }
        self.rest = Some(batch.slice(size, batch.num_rows() - size));
        batch.slice(0, size)
    }
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.adapt();
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.rows.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        let slice = self.cut(batch);
        self.given = Some(Instant::now());
        Poll::Ready(Some(Ok(slice)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    fn slices(batches: &[std::ops::Range<i64>], first_rows: usize) -> Slices {
        let batch = |rows: &std::ops::Range<i64>| {
            let column = Arc::new(Int64Array::from_iter_values(rows.clone())) as _;
            RecordBatch::try_from_iter([("n", column)]).unwrap()
        };
        let batches: Vec<RecordBatch> = batches.iter().map(batch).collect();
        let schema = batches.first().unwrap().schema();
        let stream = futures::stream::iter(batches.into_iter().map(Ok));
        Slices::new(Box::pin(RecordBatchStreamAdapter::new(schema, stream)), first_rows)
    }

    #[tokio::test]
    async fn slices_grow_where_rows_are_cheap_and_hold_every_row_in_order() {
        let all: Vec<RecordBatch> = slices(&[0..3000, 3000..10_000], 1).map(Result::unwrap).collect().await;
        let sizes: Vec<usize> = all.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes.first(), Some(&1));
        assert!(sizes.len() < 40, "{sizes:?}");
        let rows = all.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(rows.eq(0..10_000));
    }

    #[tokio::test]
    async fn slices_shrink_where_a_row_takes_long() {
        let mut rows = slices(std::slice::from_ref(&(0..4000)), 1024);
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1024);
        std::thread::sleep(SLOW * 2);
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 256);
        std::thread::sleep(SLOW * 2);
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 64);
    }
}
