//! The end of the rows of the node that answers: what other nodes fail with afterwards concerns no row.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

/// Passes rows on, and records that all of them have come.
#[derive(Debug)]
pub struct EndsExec {
    input: Arc<dyn ExecutionPlan>,
    has_ended: Arc<AtomicBool>,
}

impl EndsExec {
    /// Over the operators that run on the node that answers.
    pub fn new(input: Arc<dyn ExecutionPlan>, has_ended: Arc<AtomicBool>) -> Self {
        Self { input, has_ended }
    }
}

impl DisplayAs for EndsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndsExec")
    }
}

impl ExecutionPlan for EndsExec {
    fn name(&self) -> &str {
        "EndsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
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
        Ok(Arc::new(Self::new(Arc::clone(input), Arc::clone(&self.has_ended))))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, task)?;
        Ok(Box::pin(Rows { rows, has_failed: false, has_ended: Arc::clone(&self.has_ended) }))
    }
}

struct Rows {
    rows: SendableRecordBatchStream,
    has_failed: bool,
    has_ended: Arc<AtomicBool>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.rows.poll_next_unpin(context));
        match &next {
            // The error is not yet told when the end comes.
            Some(Err(_)) => self.has_failed = true,
            None if !self.has_failed => self.has_ended.store(true, Ordering::Release),
            Some(Ok(_)) | None => {}
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
