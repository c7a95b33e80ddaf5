//! An operator that passes rows on, and lets others compute in between.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, SchedulingType};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionConfig;
use futures::{Stream, StreamExt};

/// How long a patient thread computes before it looks up.
const TURN: Duration = Duration::from_micros(200);
/// So many rows at most are computed at a time on patient threads: it is between two batches that they look up.
const MOST_ROWS: usize = 4096;

thread_local! {
    /// When this thread last looked up, if it is one that gives way to others.
    static LOOKED_UP: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on this thread lets others in between two batches.
pub(crate) fn be_patient() {
    LOOKED_UP.set(Some(Instant::now()));
}

/// How work is done that patient threads do.
pub(crate) fn patient(config: SessionConfig) -> SessionConfig {
    let rows = config.batch_size().min(MOST_ROWS);
    config.with_batch_size(rows)
}

/// Linux lets a thread compute to the next tick, up to 4 ms, even though one of higher priority waits that has just had some.
fn look_up() {
    let Some(last) = LOOKED_UP.get() else { return };
    let now = Instant::now();
    if now.duration_since(last) >= TURN {
        std::thread::yield_now();
        LOOKED_UP.set(Some(Instant::now()));
    }
}

/// Passes batches on. Between two of them the task may end or let another one run, and a patient thread lets other threads run.
#[derive(Debug)]
pub(super) struct GiveWayExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GiveWayExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::clone(input.properties());
        Self { input, properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)) }
    }
}

impl DisplayAs for GiveWayExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GiveWayExec")
    }
}

impl ExecutionPlan for GiveWayExec {
    fn name(&self) -> &str {
        "GiveWayExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("it has one input, not {}", children.len());
        };
        Ok(Arc::new(Self::new(Arc::clone(input))))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, task)?;
        Ok(make_cooperative(Box::pin(LooksUp(rows))))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = inputs else {
            return internal_err!("it has one input, not {}", inputs.len());
        };
        Ok(Arc::clone(input))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

struct LooksUp(SendableRecordBatchStream);

impl Stream for LooksUp {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.0.poll_next_unpin(context));
        look_up();
        Poll::Ready(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl RecordBatchStream for LooksUp {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patient_threads_compute_few_rows_at_a_time() {
        for (configured, expected) in [(8192, MOST_ROWS), (100, 100)] {
            assert_eq!(patient(SessionConfig::new().with_batch_size(configured)).batch_size(), expected);
        }
    }
}
