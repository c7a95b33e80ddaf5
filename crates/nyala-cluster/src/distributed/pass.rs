//! An operator that passes the rows of its input on.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// How a [`PassExec`] runs its input.
pub trait Pass: Debug + Send + Sync + 'static {
    /// The name of the operator.
    fn name(&self) -> &'static str;

    /// The rows of a partition of the input, as they are passed on.
    fn rows(
        &self,
        input: &dyn ExecutionPlan,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;
}

/// Passes rows on, in their partitions and in their order.
#[derive(Debug)]
pub struct PassExec {
    input: Arc<dyn ExecutionPlan>,
    pass: Arc<dyn Pass>,
}

impl PassExec {
    /// The operator whose rows it passes on.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Over an operator.
    pub fn new(input: Arc<dyn ExecutionPlan>, pass: Arc<dyn Pass>) -> Self {
        Self { input, pass }
    }
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name())
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        self.pass.name()
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
        Ok(Arc::new(Self::new(Arc::clone(input), Arc::clone(&self.pass))))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.pass.rows(self.input.as_ref(), partition, task)
    }
}
