//! A physical plan with parameters.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use nyala_cube::cube::Report;
use nyala_cube::scan::{HotCuboidExec, HotGroupsExec, Values, WithoutValues};
use nyala_model::QualifiedName;
use nyala_sql::error::{QueryError, Result};
use nyala_sql::semantics::lists_may_overlap;
use nyala_sql::statement::Literal;

use super::cache::PlanBasis;
use super::parameter::{Given, open};
use crate::query::activity::Route;
use crate::query::answer::Source;
use crate::query::history::Recorded;
use crate::query::plan::cost_class::reads_cuboids_only;
use crate::query::plan::exact::value_of;
use crate::query::plan::parameters::parameter_types;
use crate::query::plan::parts::Parts;
use crate::query::plan::physical::optimize;
use crate::session::{Settings, SnapshotContext, is_plain};

/// Greatest depth of a template's expressions.
const MAX_DEPTH: usize = 64;

/// Cube and cuboids of each aggregation, to compare the reads of two plans.
pub type Answers = Vec<(String, Vec<Vec<String>>)>;

/// The cuboids of each aggregation of a query; none if it reads anything else, or cuboids that may not
/// answer any more after the next write. A query that reads nothing has no aggregations.
pub fn answers_of(report: &Report, logical: &LogicalPlan) -> Result<Option<Answers>> {
    if reads_nothing(logical)? {
        return Ok(Some(Answers::new()));
    }
    // The report covers aggregations, the plan all other reads.
    if report.reads_live() || !report.all_from_cuboids() || !reads_cuboids_only(logical)? {
        return Ok(None);
    }
    let chosen = report.blocks.iter().filter_map(|block| block.chosen.as_ref());
    Ok(Some(chosen.map(|c| (c.cube.clone(), c.cuboids.clone())).collect()))
}

/// Whether a query reads no rows, as `SELECT 1` does, which connection pools send all the time.
fn reads_nothing(plan: &LogicalPlan) -> Result<bool> {
    let mut nothing = true;
    plan.apply_with_subqueries(|node| {
        nothing &= matches!(
            node,
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::EmptyRelation(_)
        );
        Ok(if nothing { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(nothing)
}

/// Whether a plan is a chain of operators in one partition over memory. Over nothing only if the query
/// reads nothing: otherwise a constant may stem from facts about a table.
pub fn is_fit(plan: &dyn ExecutionPlan, answers: &Answers) -> bool {
    is_plain(plan) || (answers.is_empty() && gives_one_row(plan))
}

fn gives_one_row(plan: &dyn ExecutionPlan) -> bool {
    match plan.children()[..] {
        [] => plan.is::<PlaceholderRowExec>(),
        [child] => plan.is::<ProjectionExec>() && gives_one_row(child.as_ref()),
        _ => false,
    }
}

/// A plan that runs as soon as its parameters have values.
#[derive(Debug)]
pub struct Template {
    /// The statement it answers.
    parts: Arc<Parts>,
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    asked: Arc<Recorded>,
    route: Arc<Route>,
    /// Types of `$1`, `$2`, …
    types: Vec<DataType>,
    basis: PlanBasis,
}

impl Template {
    /// Plans a statement for any values. `answers` and `schema` are those of the plan with certain values;
    /// this plan must have the same.
    pub async fn plan(
        parts: Arc<Parts>,
        (context, settings, basis): (&SnapshotContext, &Settings, PlanBasis),
        answers: &Answers,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let mut state = context.state(settings);
        let task = state.task_ctx();
        state.config_mut().set_extension(Arc::new(WithoutValues));
        let plan = &parts.plan;
        check_constant(plan.logical())?;
        if lists_may_overlap(plan.logical())? {
            return Err(unfit("its values decide what lists have in common"));
        }
        let types = parameter_types(plan.logical())?.into_iter().collect::<Option<Vec<_>>>();
        let types = types.ok_or_else(|| unfit("a parameter has no type"))?;
        let (logical, report) = optimize(plan.as_ref().clone(), context, &mut state, settings)?;
        if answers_of(&report, &logical)?.as_ref() != Some(answers) {
            return Err(unfit("its values decide which cuboids it reads"));
        }
        let plan = state.query_planner().create_physical_plan(&open(logical)?, &state).await?;
        if !is_fit(plan.as_ref(), answers) || plan.schema() != *schema {
            return Err(unfit("its values decide more than which rows it reads"));
        }
        if !is_shallow(plan.as_ref())? {
            return Err(unfit("its conditions nest too deep to be evaluated with little stack"));
        }
        Ok(Self {
            parts,
            plan,
            task,
            route: Arc::new(Route::new(&report, "")),
            asked: Arc::new(Recorded::new(report.asked)),
            types,
            basis,
        })
    }

    /// The basis it was planned on.
    pub fn basis(&self) -> &PlanBasis {
        &self.basis
    }

    /// The statement it answers.
    pub fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// The tables and views that the statement reads.
    pub fn reads(&self) -> &[QualifiedName] {
        &self.parts.reads
    }

    /// The task context to run it in.
    pub fn task(&self) -> &Arc<TaskContext> {
        &self.task
    }

    /// The aggregations it answers.
    pub fn asked(&self) -> &Arc<Recorded> {
        &self.asked
    }

    /// The route that answers the statement.
    pub fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// The source of the answer, for the result cache; none if the statement reads nothing.
    pub fn source(&self) -> Option<Source> {
        let reads = Arc::clone(&self.parts.reads);
        let (asked, route) = (Arc::clone(&self.asked), Arc::clone(&self.route));
        (self.asked.len() > 0).then_some(Source { reads, asked, route })
    }

    /// Literals as values of the parameters; none if one would change its meaning.
    pub fn values_of(&self, literals: Vec<Literal<'_>>) -> Option<Vec<ScalarValue>> {
        if literals.len() != self.types.len() {
            return None;
        }
        literals.into_iter().zip(&self.types).map(|(literal, wanted)| value_of(literal, wanted)).collect()
    }

    /// The plan for these values. None if they have other types, as when column types changed since they
    /// were taken out of a text; if a cuboid is not in memory; or if there is so much to read that another
    /// plan is better.
    pub fn bind(&self, values: &[ScalarValue]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !values.iter().map(ScalarValue::data_type).eq(self.types.iter().cloned()) {
            return Ok(None);
        }
        Ok(bind(&self.plan, values)?)
    }

    /// Estimated memory, in bytes: a plan is a tree of small objects that are not counted.
    pub fn estimated_bytes(&self) -> usize {
        const OPERATOR_BYTES: usize = 2048;
        let mut operators = 1;
        let mut node = &self.plan;
        while let [child] = node.children()[..] {
            operators += 1;
            node = child;
        }
        operators * (OPERATOR_BYTES + 256 * self.plan.schema().fields().len()) + 8 * self.parts.text_bytes()
    }
}

fn unfit(reason: &str) -> QueryError {
    QueryError::internal(reason)
}

/// Refuses functions that are not immutable: `now()` must not stand still.
pub fn check_constant(plan: &LogicalPlan) -> Result<()> {
    let mut constant = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    constant &= call.func.signature().volatility == Volatility::Immutable;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if constant { Ok(()) } else { Err(unfit("its value changes with time")) }
}

/// Whether conditions are shallow enough for the small stack of a network thread.
fn is_shallow(plan: &dyn ExecutionPlan) -> Result<bool> {
    let mut most = 0;
    plan.apply_expressions(&mut |expr| {
        most = most.max(depth_of(expr));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut shallow = most <= MAX_DEPTH;
    for child in plan.children() {
        shallow &= is_shallow(child.as_ref())?;
    }
    Ok(shallow)
}

fn depth_of(expr: &Arc<dyn PhysicalExpr>) -> usize {
    1 + expr.children().into_iter().map(depth_of).max().unwrap_or(0)
}

fn bind(
    plan: &Arc<dyn ExecutionPlan>,
    values: &[ScalarValue],
) -> datafusion::error::Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<HotCuboidExec>() {
        let scan = scan.refiltered(&Given(values))?;
        return Ok(scan.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>));
    }
    if plan.is::<PlaceholderRowExec>() {
        return Ok(Some(Arc::clone(plan)));
    }
    let [child] = plan.children()[..] else { return Ok(None) };
    let Some(child) = bind(child, values)? else { return Ok(None) };
    if let Some(groups) = plan.downcast_ref::<HotGroupsExec>() {
        return match groups.with_scan(child) {
            Some(groups) => Ok(Some(Arc::new(groups))),
            None => bind(groups.general(), values),
        };
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = Given(values).put_into(filter.predicate())?;
        let filter = FilterExecBuilder::from(filter).with_input(child).with_predicate(predicate).build()?;
        return Ok(Some(Arc::new(filter)));
    }
    // The scan keeps its properties, and so does everything above it.
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let fresh = Arc::clone(plan).replace_children(vec![child], keep)?;
    // A sort keeps its threshold from one run to the next.
    fresh.reset_state().map(Some)
}
