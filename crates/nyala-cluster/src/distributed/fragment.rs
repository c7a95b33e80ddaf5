//! The head of the operators that a node runs for another: they compute in the scope of their statement and end with it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_distributed::BroadcastExec;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use nyala_engine::{Fragment, Pass, PassExec};

use super::errors::of_part;
use super::panics::WithoutPanics;

/// Runs its input in the scope of a statement, and gives errors the form in which they travel.
#[derive(Debug)]
struct InScope(Arc<Fragment>);

/// The operators of a task, in the scope of their statement.
pub fn in_scope(plan: Arc<dyn ExecutionPlan>, fragment: &Arc<Fragment>) -> Result<Arc<dyn ExecutionPlan>> {
    with_head(plan, InScope(Arc::clone(fragment)))
}

/// The operators of a task with such a head. The operator that divides rows among the tasks of the next stage stays on top, where
/// datafusion-distributed looks for it.
pub fn with_head(plan: Arc<dyn ExecutionPlan>, head: impl Pass) -> Result<Arc<dyn ExecutionPlan>> {
    let within = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        Arc::new(PassExec::new(Arc::clone(input), head))
    };
    match plan.children()[..] {
        [input] if plan.is::<RepartitionExec>() || plan.is::<BroadcastExec>() => {
            let input = within(input);
            replace_children_if_necessary(plan, vec![input])
        }
        _ => Ok(within(&plan)),
    }
}

impl Pass for InScope {
    fn name(&self) -> &'static str {
        "InScopeExec"
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
        let rows = self.0.scope().call(|| input.execute(partition, task));
        let rows = rows.map_err(|error| of_part(error, &self.0))?;
        let fragment = Arc::clone(&self.0);
        let must_end = async move { fragment.must_end().await }.boxed();
        Ok(Box::pin(Rows {
            schema: input.schema(),
            rows: Some(Box::pin(WithoutPanics(rows))),
            must_end,
            fragment: Arc::clone(&self.0),
        }))
    }
}

struct Rows {
    schema: SchemaRef,
    /// The rows of the operators; none once they have ended.
    rows: Option<SendableRecordBatchStream>,
    must_end: BoxFuture<'static, DataFusionError>,
    fragment: Arc<Fragment>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(rows) = &mut this.rows else { return Poll::Ready(None) };
        let polled = match this.must_end.poll_unpin(context) {
            Poll::Ready(error) => Poll::Ready(Some(Err(error))),
            Poll::Pending => this.fragment.scope().call(|| rows.poll_next_unpin(context)),
        };
        if let Poll::Ready(None | Some(Err(_))) = polled {
            // The operators are dropped in the scope, so that their memory is subtracted from the statement's account.
            let rows = this.rows.take();
            this.fragment.scope().call(|| drop(rows));
        }
        polled.map(|polled| polled.map(|batch| batch.map_err(|error| of_part(error, &this.fragment))))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(rows) = self.rows.take() {
            self.fragment.scope().call(|| drop(rows));
        }
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
