//! Metrics of an operator over memory.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

/// Only two of DataFusion's usual metrics: they are made anew for each query, and making all would take longer than a short
/// query takes.
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
