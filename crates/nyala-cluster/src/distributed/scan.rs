//! A scan of the parts of files that are at home on one node.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use nyala_model::QualifiedName;

/// A scan that knows its table, so that the node that gets it finds its own readers of that table.
#[derive(Debug)]
pub struct HomeScanExec {
    /// The scan.
    pub scan: Arc<dyn ExecutionPlan>,
    /// Its table.
    pub table: QualifiedName,
    /// The tags that tell versions of its files apart, in the order of the files.
    pub tags: Vec<Option<String>>,
}

impl DisplayAs for HomeScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HomeScanExec: table={}, ", self.table)?;
        self.scan.fmt_as(format, f)
    }
}

impl ExecutionPlan for HomeScanExec {
    fn name(&self) -> &str {
        "HomeScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.scan.execute(partition, task)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.scan.metrics()
    }
}
