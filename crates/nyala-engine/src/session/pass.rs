//! An operator that passes the rows of its input on.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// What a [`PassExec`] claims of the rows that it passes on, and what it does meanwhile. By default it claims what its input claims,
/// and does nothing.
pub trait Pass: Debug + Send + Sync + Sized + 'static {
    /// The name of the operator.
    fn name(&self) -> &'static str;

    /// What plans show after the name.
    fn detail(&self) -> Option<&'static str> {
        None
    }

    /// A copy of this value for an operator that takes the place of this one and has passed on no row yet.
    fn anew(&self) -> Self;

    /// What operators above may rely on.
    fn claims(&self, input: &dyn ExecutionPlan) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// Whether the order of the input is among the claims.
    fn claims_order(&self) -> bool {
        true
    }

    /// Whether the optimizer may move projections and filters below the operator.
    fn lets_through(&self) -> bool {
        false
    }

    /// The rows of a partition of the input, as they are passed on.
    fn rows(
        &self,
        input: &dyn ExecutionPlan,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, task)
    }
}

/// The input of an operator that has one, or what is known of that input.
pub fn only_input<T: ?Sized>(inputs: &[Arc<T>]) -> Result<Arc<T>> {
    match inputs {
        [input] => Ok(Arc::clone(input)),
        _ => internal_err!("it has one input, not {}", inputs.len()),
    }
}

/// Passes rows on, in their partitions and in their order.
#[derive(Debug)]
pub struct PassExec<P> {
    input: Arc<dyn ExecutionPlan>,
    pass: P,
    properties: Arc<PlanProperties>,
}

impl<P: Pass> PassExec<P> {
    /// An operator over `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>, pass: P) -> Self {
        let properties = pass.claims(input.as_ref());
        Self { input, pass, properties }
    }

    /// The operator whose rows are passed on.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// What the operator claims and does.
    pub fn pass(&self) -> &P {
        &self.pass
    }
}

impl<P: Pass> DisplayAs for PassExec<P> {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name())?;
        match self.pass.detail() {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl<P: Pass> ExecutionPlan for PassExec<P> {
    fn name(&self) -> &str {
        self.pass.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.pass.claims_order()]
    }

    /// False, because the operator above says for itself whether it benefits from partitions.
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
        Ok(Arc::new(Self::new(only_input(&children)?, self.pass.anew())))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.pass.rows(self.input.as_ref(), partition, task)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        only_input(inputs)
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
        // A projection that keeps all columns stays where it is, as DataFusion leaves it above its own operators.
        let keeps_all = projection.expr().len() >= self.input.schema().fields().len();
        if keeps_all || !self.pass.lets_through() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self::new(make_with_child(projection, &self.input)?, self.pass.anew()))))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _options: &ConfigOptions,
    ) -> Result<FilterDescription> {
        match self.pass.lets_through() {
            true => FilterDescription::from_children(filters, &self.children()),
            false => Ok(FilterDescription::all_unsupported(&filters, &self.children())),
        }
    }
}
