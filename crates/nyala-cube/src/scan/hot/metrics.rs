//! Metrics of an operator over memory.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

/// Of DataFusion's usual metrics the two that are looked at: they are made anew for each query, and so for queries
/// that take less than all of them would.
pub struct OperatorMetrics {
    pub elapsed: Time,
    pub output_rows: Count,
}

impl OperatorMetrics {
    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            elapsed: MetricBuilder::new(metrics).elapsed_compute(partition),
            output_rows: MetricBuilder::new(metrics).output_rows(partition),
        }
    }
}
