//! An operator that passes rows on, and claims less of them than its input does.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// Which properties of its input a [`ForgetExec`] does not tell the operators above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// Their order.
    Order,
    /// Also which columns are constant, equal to others, or unique.
    Values,
    /// Also which values lie in which partition.
    Everything,
}

/// Passes rows on, and claims less of them. It stays in a plan while that runs: operators above derive from the claims of their
/// input how they compute, anew on each node that gets them.
#[derive(Debug)]
pub struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    forgotten: Forgotten,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, forgotten: Forgotten) -> Self {
        let known = match forgotten {
            Forgotten::Order => {
                let mut known = input.equivalence_properties().clone();
                known.clear_orderings();
                known
            }
            Forgotten::Values | Forgotten::Everything => EquivalenceProperties::new(input.schema()),
        };
        let partitions = match forgotten {
            Forgotten::Order | Forgotten::Values => input.output_partitioning().clone(),
            Forgotten::Everything => {
                Partitioning::UnknownPartitioning(input.output_partitioning().partition_count())
            }
        };
        let properties =
            PlanProperties::new(known, partitions, input.pipeline_behavior(), input.boundedness())
                .with_scheduling_type(input.properties().scheduling_type);
        Self { input, forgotten, properties: Arc::new(properties) }
    }

    /// The operator below.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Whether its input claims nothing that operators derive from how they compute. Unique columns are no such claim: they
    /// only let the planner leave out a sort.
    pub fn is_idle(&self) -> bool {
        let known = self.input.equivalence_properties();
        let by_value = match self.input.output_partitioning() {
            Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_) => false,
            Partitioning::Hash(..) | Partitioning::Range(_) => true,
        };
        let has_order = !known.oeq_class().is_empty();
        match self.forgotten {
            Forgotten::Order => !has_order,
            Forgotten::Values => !has_order && known.eq_group().is_empty(),
            Forgotten::Everything => !has_order && known.eq_group().is_empty() && !by_value,
        }
    }
}

/// An operator that passes the rows of `input` on without these claims.
pub fn forget(input: Arc<dyn ExecutionPlan>, forgotten: Forgotten) -> Arc<dyn ExecutionPlan> {
    Arc::new(ForgetExec::new(input, forgotten))
}

/// What an operator forgets, if it does nothing else.
pub fn forgotten(operator: &dyn ExecutionPlan) -> Option<Forgotten> {
    operator.downcast_ref::<ForgetExec>().map(|forget| forget.forgotten)
}

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.forgotten {
            Forgotten::Order => "ForgetExec: order",
            Forgotten::Values => "ForgetExec: values",
            Forgotten::Everything => "ForgetExec: everything",
        })
    }
}

impl ExecutionPlan for ForgetExec {
    fn name(&self) -> &str {
        "ForgetExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    /// The operator above says whether it would.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        Ok(forget(Arc::clone(input), self.forgotten))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = inputs else {
            return internal_err!("it has one input, not {}", inputs.len());
        };
        Ok(Arc::clone(input))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // As above other operators, a projection that keeps all columns stays where it is.
        if projection.expr().len() >= self.input.schema().fields().len() {
            return Ok(None);
        }
        Ok(Some(forget(make_with_child(projection, &self.input)?, self.forgotten)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _options: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }
}
