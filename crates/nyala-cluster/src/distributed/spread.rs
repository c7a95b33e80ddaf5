//! The root of a query of which other nodes do parts, on the node that answers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::display_plan_ascii;
use futures::StreamExt;
use nyala_engine::node_not_reached;

use super::channels::Channels;
use super::errors::{from_any, is_own_lack_of_memory};

/// The root operator. It turns errors of other nodes, which arrive as text, into the errors that they were.
#[derive(Debug)]
pub struct SpreadExec {
    input: Arc<dyn ExecutionPlan>,
    channels: Channels,
    /// Whether all rows have come.
    has_ended: Arc<AtomicBool>,
}

impl SpreadExec {
    /// The root over the operator that sends the parts. `has_ended` tells when the operators of this node have given all rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, channels: Channels, has_ended: Arc<AtomicBool>) -> Self {
        Self { input, channels, has_ended }
    }

    /// The operator that sends the parts.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for SpreadExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => f.write_str("stages on several nodes"),
            // The operators below are shown by stage; those of other stages are no children of it.
            _ => write!(f, "SpreadExec\n{}", display_plan_ascii(self.input.as_ref(), false)),
        }
    }
}

impl ExecutionPlan for SpreadExec {
    fn name(&self) -> &str {
        "SpreadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
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
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("it has no inputs, and got {}", children.len()),
        }
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let channels = self.channels.clone();
        let told = move |error: DataFusionError| {
            // The engine finds out whether other queries hold the memory, and needs the error as it is.
            if is_own_lack_of_memory(&error) {
                return error;
            }
            let error = from_any(error);
            // The connection may have broken between two other nodes, and this node has not noticed.
            if let Some(node) = node_not_reached(&error) {
                channels.note_broken(&node);
            }
            DataFusionError::from(error)
        };
        let rows = self.input.execute(partition, task).map_err(&told)?;
        let has_ended = Arc::clone(&self.has_ended);
        let rows = rows.filter_map(move |batch| {
            let batch = batch.map_err(&told);
            // A node whose part has ended may be gone before it has said so.
            let late = batch.is_err() && has_ended.load(Ordering::Acquire);
            std::future::ready((!late).then_some(batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
