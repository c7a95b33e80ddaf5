//! Notes when the node that answers has all rows of a query: errors of other nodes after that concern no row.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use nyala_engine::Pass;

/// Records that all rows of the operators of this node have come.
#[derive(Debug)]
pub struct NotesEnd(pub Arc<AtomicBool>);

impl Pass for NotesEnd {
    fn name(&self) -> &'static str {
        "NotesEndExec"
    }

    fn anew(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn rows(
        &self,
        input: &dyn ExecutionPlan,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, task)?;
        Ok(Box::pin(Rows { rows, has_failed: false, has_ended: Arc::clone(&self.0) }))
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
            // Rows that failed end, too: that end must not hide the error.
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
