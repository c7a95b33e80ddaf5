//! Where a planned query runs.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};

use crate::query::plan::cost_class::CostClass;

/// A query that is planned and has its slot.
#[derive(Debug)]
pub struct PlannedQuery {
    /// Its operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The session's settings and functions, and the query's part of the memory.
    pub task: Arc<TaskContext>,
    /// How much work it is.
    pub class: CostClass,
}

impl PlannedQuery {
    /// Begins the query in this process, on the thread that polls the stream.
    pub fn run_here(self) -> datafusion::error::Result<SendableRecordBatchStream> {
        execute_stream(self.plan, self.task)
    }
}

/// Decides where a query runs, once it is planned. Queries by cached plans and EXPLAIN ANALYZE run in this process.
pub trait Placement: Debug + Send + Sync {
    /// The rows of a query. The engine polls them on a thread for queries of its class; dropping them ends the query.
    fn place(&self, query: PlannedQuery) -> datafusion::error::Result<SendableRecordBatchStream>;
}

/// Every query runs in the process that planned it.
#[derive(Debug)]
pub struct HereOnly;

impl Placement for HereOnly {
    fn place(&self, query: PlannedQuery) -> datafusion::error::Result<SendableRecordBatchStream> {
        query.run_here()
    }
}
