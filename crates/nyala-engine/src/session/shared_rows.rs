//! The operator of [`SharedRows`]: of all places with one label, the first that is asked for rows computes them, and they are kept for the
//! others.
//!
//! Every place has an input of its own, of which only that of the first is executed. All rows are computed before any is given: a join may
//! read one place to its end before it asks the other for its first row. What has no room in memory is kept on disk.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, SpillManager, StatisticsArgs,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use nyala_sql::semantics::SharedRows;

use super::pass::only_input;

/// The rows, once they are computed. Each place that waits for them drives the computation.
type Computing = Shared<BoxFuture<'static, std::result::Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// Plans the [`SharedRows`] of one plan.
#[derive(Debug, Default)]
pub struct SharedRowsPlanner(Mutex<HashMap<Arc<str>, Arc<Keeper>>>);

#[async_trait]
impl ExtensionPlanner for SharedRowsPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let ([input], Some(node)) = (physical_inputs, node.as_any().downcast_ref::<SharedRows>()) else {
            return Ok(None);
        };
        let mut keepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = Arc::clone(keepers.entry(Arc::clone(node.label())).or_default());
        Ok(Some(Arc::new(SharedRowsExec::new(Arc::clone(input), keeper))))
    }
}

/// Keeps the rows of one run of a plan for all places that read them.
#[derive(Default)]
struct Keeper {
    rows: OnceLock<Computing>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("is_asked", &self.rows.get().is_some()).finish()
    }
}

/// Rows that were computed.
struct Kept {
    batches: Vec<RecordBatch>,
    /// The rows after the batches, if there was no memory for them.
    on_disk: Option<Arc<dyn SpillFile>>,
    /// Memory of the batches.
    _reserved: MemoryReservation,
}

impl Kept {
    async fn of(input: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>, disk: SpillManager) -> Result<Self> {
        let consumer = MemoryConsumer::new("SharedRowsExec").with_can_spill(true);
        let reserved = consumer.register(task.memory_pool());
        let mut rows = input.execute(0, task)?;
        let (mut batches, mut file) = (Vec::new(), None);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if file.is_none() && reserved.try_grow(get_record_batch_memory_size(&batch)).is_ok() {
                batches.push(batch);
                continue;
            }
            if file.is_none() {
                file = Some(disk.create_in_progress_file("rows that several places of a plan read")?);
            }
            if let Some(file) = &mut file {
                file.append_batch(&batch)?;
            }
        }
        let on_disk = match &mut file {
            Some(file) => file.finish()?,
            None => None,
        };
        Ok(Self { batches, on_disk, _reserved: reserved })
    }
}

/// Gives the rows that its input, or that of another place with the same keeper, has computed.
#[derive(Debug)]
pub struct SharedRowsExec {
    input: Arc<dyn ExecutionPlan>,
    keeper: Arc<Keeper>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedRowsExec {
    fn new(input: Arc<dyn ExecutionPlan>, keeper: Arc<Keeper>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.boundedness(),
        );
        Self { input, keeper, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for SharedRowsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            DisplayFormatType::Default | DisplayFormatType::Verbose => f.write_str("SharedRowsExec"),
        }
    }
}

impl ExecutionPlan for SharedRowsExec {
    fn name(&self) -> &str {
        "SharedRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
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
        Ok(Arc::new(Self::new(only_input(&children)?, Arc::clone(&self.keeper))))
    }

    /// Prepares the next step of a recursive query. Rows that do not depend on the step before are kept, as those of a query in WITH.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let keeper = match reads_steps(self.input.as_ref()) {
            true => Arc::default(),
            false => Arc::clone(&self.keeper),
        };
        Ok(Arc::new(Self::new(Arc::clone(&self.input), keeper)))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        if partition != 0 || partitions != 1 {
            return internal_err!("partition {partition} of {partitions} was asked for rows that are shared");
        }
        let disk = SpillManager::new(task.runtime_env(), SpillMetrics::new(&self.metrics, 0), self.schema());
        let compute = || {
            let kept = Kept::of(Arc::clone(&self.input), task, disk.clone());
            kept.map(|kept| kept.map(Arc::new).map_err(Arc::new)).boxed().shared()
        };
        let computing = self.keeper.rows.get_or_init(compute).clone();
        let rows = async move {
            let kept = computing.await.map_err(DataFusionError::Shared)?;
            let on_disk = match &kept.on_disk {
                Some(file) => Some(disk.read_spill_as_stream(Arc::clone(file), None)?),
                None => None,
            };
            let in_memory = stream::iter(kept.batches.clone()).map(Ok);
            Ok::<_, DataFusionError>(in_memory.chain(stream::iter(on_disk).flatten()))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        only_input(inputs)
    }
}

/// Whether an operator reads the rows of the step before. Only one place of a recursive query may read them.
fn reads_steps(operator: &dyn ExecutionPlan) -> bool {
    operator.is::<WorkTableExec>() || operator.children().into_iter().any(|child| reads_steps(child.as_ref()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::array::{AsArray, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::execution_plan::reset_plan_states;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use datafusion::physical_plan::union::UnionExec;
    use datafusion::physical_plan::{collect, displayable};

    use super::*;

    /// Gives another number each time it is executed, in many batches.
    #[derive(Debug)]
    struct Counter {
        schema: SchemaRef,
        executed: Arc<AtomicU64>,
    }

    const BATCHES: usize = 20;

    impl PartitionStream for Counter {
        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
            let number = self.executed.fetch_add(1, Ordering::Relaxed);
            let column = Arc::new(UInt64Array::from(vec![number; 1024]));
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![column]).unwrap();
            let batches = stream::iter(vec![batch; BATCHES]).map(Ok);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
        }
    }

    fn counter(executed: &Arc<AtomicU64>) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, false)]));
        let partition = Counter { schema: Arc::clone(&schema), executed: Arc::clone(executed) };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(partition)];
        Arc::new(StreamingTableExec::try_new(schema, partitions, None, None, false, None).unwrap())
    }

    /// Two places that read the same rows.
    fn twice(executed: &Arc<AtomicU64>) -> Arc<dyn ExecutionPlan> {
        let keeper = Arc::new(Keeper::default());
        let place = || -> Arc<dyn ExecutionPlan> {
            Arc::new(SharedRowsExec::new(counter(executed), Arc::clone(&keeper)))
        };
        UnionExec::try_new(vec![place(), place()]).unwrap()
    }

    async fn check(plan: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>, number: u64) {
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let batches = collect(plan, task).await.unwrap();
        let numbers: Vec<u64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec())
            .collect();
        assert_eq!(numbers, vec![number; 2 * 1024 * BATCHES], "{shown}");
    }

    #[tokio::test]
    async fn rows_are_computed_once_for_all_places() {
        let executed = Arc::new(AtomicU64::new(0));
        check(twice(&executed), Arc::new(TaskContext::default()), 0).await;
        assert_eq!(executed.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn all_steps_of_a_recursive_query_have_the_same_rows() {
        let executed = Arc::new(AtomicU64::new(0));
        let plan = twice(&executed);
        for _ in 0..3 {
            let step = reset_plan_states(Arc::clone(&plan)).unwrap();
            check(step, Arc::new(TaskContext::default()), 0).await;
        }
    }

    #[tokio::test]
    async fn rows_without_room_are_kept_on_disk() {
        let executed = Arc::new(AtomicU64::new(0));
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(64 << 10, 1.0).build_arc().unwrap();
        let task = Arc::new(TaskContext::default().with_runtime(runtime));
        let plan = twice(&executed);
        check(Arc::clone(&plan), task, 0).await;
        let spilled: usize = plan.children().iter().filter_map(|place| place.metrics()?.spill_count()).sum();
        assert_eq!(spilled, 1, "what one place has computed is written once");
    }
}
