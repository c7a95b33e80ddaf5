//! Moves filters towards the scans, and finds the columns of each operator's input by their positions.
//!
//! DataFusion 55 finds them by their names: above a join of two tables with a column `id`, a filter on the one reaches the
//! scan of the other, which leaves out rows of the answer (<https://github.com/apache/datafusion/issues/25296>,
//! <https://github.com/apache/datafusion/issues/25244>, <https://github.com/apache/datafusion/issues/25262>). No release has
//! the fix yet (<https://github.com/apache/datafusion/pull/25259>).

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use super::forget::ForgetExec;

type Plan = Arc<dyn ExecutionPlan>;
type Filter = Arc<dyn PhysicalExpr>;
type Answer = FilterPushdownPropagation<Plan>;

/// DataFusion's `FilterPushdown`, by positions.
///
/// The operators themselves decide which filters they let through, add filters of their own, and take what their inputs
/// refuse. The rule decides what a filter that is let through means below.
#[derive(Debug)]
pub struct PushFilters {
    pub phase: FilterPushdownPhase,
    /// The name of the rule that it replaces.
    pub name: String,
}

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        Ok(push(&plan, Vec::new(), options, self.phase)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Gives filters over the columns of an operator to it, and those of its inputs to them.
fn push(
    node: &Plan,
    filters: Vec<Filter>,
    options: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Answer> {
    let enters: Vec<bool> = filters.iter().map(|filter| may_enter(node.as_ref(), filter, phase)).collect();
    let inside = filters.into_iter().zip(&enters).filter_map(|(filter, enters)| enters.then_some(filter));
    let mut answer = push_inside(node, inside.collect(), options, phase)?;
    let mut of_inside = std::mem::take(&mut answer.filters).into_iter();
    answer.filters = enters
        .iter()
        .map(|enters| match enters {
            true => of_inside.next().unwrap_or(PushedDown::No),
            false => PushedDown::No,
        })
        .collect();
    Ok(answer)
}

fn may_enter(node: &dyn ExecutionPlan, filter: &Filter, phase: FilterPushdownPhase) -> bool {
    // Below a limit, a filter would change which rows are within the limit.
    if node.fetch().is_some() {
        return false;
    }
    // Filters with a projection take over what their input refuses, and find the columns of that by their names.
    match node.downcast_ref::<FilterExec>() {
        Some(own) if own.projection().is_some() && phase == FilterPushdownPhase::Pre => {
            let schema = own.input().schema();
            collect_columns(filter).iter().all(|column| is_unique(&schema, column.name()))
        }
        _ => true,
    }
}

fn is_unique(schema: &Schema, name: &str) -> bool {
    schema.fields().iter().filter(|field| field.name() == name).count() == 1
}

fn push_inside(
    node: &Plan,
    filters: Vec<Filter>,
    options: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Answer> {
    let steady = filters.iter().enumerate().filter(|(_, filter)| !is_volatile(filter));
    let steady: Vec<(usize, Filter)> = steady.map(|(at, filter)| (at, Arc::clone(filter))).collect();
    let offered = steady.iter().map(|(_, filter)| Arc::clone(filter)).collect();
    let description = node.gather_filters_for_pushdown(phase, offered, options)?;
    let (let_through, own) = (description.parent_filters(), description.self_filters());
    let inputs = node.children();
    if let_through.len() != inputs.len() || own.len() != inputs.len() {
        return internal_err!("{} describes filters of other inputs than it has", node.name());
    }
    let mut support = vec![Vec::new(); filters.len()];
    let (mut children, mut self_filters) = (Vec::new(), Vec::new());
    for (number, ((input, answers), own)) in inputs.into_iter().zip(let_through).zip(own).enumerate() {
        let (places, passed) = let_through_to(node.as_ref(), number, input, &steady, &answers)?;
        let own_steady = own.iter().filter(|filter| !is_volatile(filter)).cloned();
        let answer = push(input, own_steady.chain(passed).collect(), options, phase)?;
        children.push(answer.updated_node.unwrap_or_else(|| Arc::clone(input)));
        let mut taken = answer.filters.into_iter();
        self_filters.push(told(own, &mut taken));
        support.iter_mut().for_each(|of_inputs| of_inputs.push(PushedDown::No));
        for (at, taken) in places.into_iter().zip(taken) {
            if let Some(last) = support.get_mut(at).and_then(|of_inputs| of_inputs.last_mut()) {
                *last = taken;
            }
        }
    }
    let parent_filters = filters.into_iter().zip(support);
    let parent_filters =
        parent_filters.map(|(filter, child_results)| ChildFilterPushdownResult { filter, child_results });
    let results = ChildPushdownResult { parent_filters: parent_filters.collect(), self_filters };
    finish(node, children, results, options, phase)
}

/// An operator's own filters, each with whether the input took it.
fn told(own: Vec<Filter>, taken: &mut impl Iterator<Item = PushedDown>) -> Vec<PushedDownPredicate> {
    let own = own.into_iter().map(|filter| {
        let taken = if is_volatile(&filter) { None } else { taken.next() };
        taken.unwrap_or(PushedDown::No).wrap_expression(filter)
    });
    own.collect()
}

/// The operator over its new inputs, told which filters they took.
fn finish(
    node: &Plan,
    children: Vec<Plan>,
    results: ChildPushdownResult,
    options: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Answer> {
    let updated = replace_children_if_necessary(Arc::clone(node), children)?;
    let mut answer = updated.handle_child_pushdown_result(phase, results, options)?;
    if answer.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        answer.updated_node = Some(updated);
    }
    Ok(answer)
}

/// The filters that an operator lets through to its input `number`, in terms of that, and before them their numbers.
fn let_through_to(
    node: &dyn ExecutionPlan,
    number: usize,
    input: &Plan,
    filters: &[(usize, Filter)],
    answers: &[PushedDownPredicate],
) -> Result<(Vec<usize>, Vec<Filter>)> {
    let (mut numbers, mut passed) = (Vec::new(), Vec::new());
    let through =
        filters.iter().zip(answers).filter(|(_, answer)| matches!(answer.discriminant, PushedDown::Yes));
    let mut through = through.map(|(filter, _)| filter).peekable();
    if through.peek().is_none() {
        return Ok((numbers, passed));
    }
    let Some(origins) = origins(node, number, &input.schema()) else { return Ok((numbers, passed)) };
    for (at, filter) in through {
        if let Some(filter) = below(&origins, filter)? {
            numbers.push(*at);
            passed.push(filter);
        }
    }
    Ok((numbers, passed))
}

/// A filter over the columns of an operator in terms of their origins; none if one of the columns has no origin.
fn below(origins: &[Option<Filter>], filter: &Filter) -> Result<Option<Filter>> {
    let mut is_known = true;
    let below = Arc::clone(filter).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        Ok(match origins.get(column.index()).and_then(Option::as_ref) {
            Some(origin) if origin.downcast_ref::<Column>() == Some(column) => Transformed::no(expr),
            Some(origin) => Transformed::yes(Arc::clone(origin)),
            None => {
                is_known = false;
                Transformed::no(expr)
            }
        })
    })?;
    Ok(Some(below.data).filter(|below| is_known && !is_volatile(below)))
}

/// Each column of an operator in terms of the columns of its input `number`, with the schema `input`; none for a column that comes
/// from elsewhere. None for an operator whose columns are not known to come from its input.
fn origins(node: &dyn ExecutionPlan, number: usize, input: &SchemaRef) -> Option<Vec<Option<Filter>>> {
    let column = |at: usize| {
        let field = input.fields().get(at)?;
        Some(Arc::new(Column::new(field.name(), at)) as Filter)
    };
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return Some(projection.expr().iter().map(|column| Some(Arc::clone(&column.expr))).collect());
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr().expr().iter();
        return Some(groups.map(|(expr, _)| expr.is::<Column>().then(|| Arc::clone(expr))).collect());
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(origins_in_join(join, number, column));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>()
        && let Some(projection) = filter.projection()
    {
        return Some(projection.iter().map(|at| column(*at)).collect());
    }
    let passes_all_on = node.is::<FilterExec>()
        || node.is::<SortExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<UnionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<ForgetExec>();
    passes_all_on.then(|| (0..input.fields().len()).map(column).collect())
}

fn origins_in_join(
    join: &HashJoinExec,
    number: usize,
    column: impl Fn(usize) -> Option<Filter>,
) -> Vec<Option<Filter>> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, columns) = build_join_schema(&left, &right, join.join_type());
    let side = if number == 0 { JoinSide::Left } else { JoinSide::Right };
    let origin = |output: &ColumnIndex| match output.side == side {
        true => column(output.index),
        false => partner(join, output),
    };
    match &join.projection {
        Some(projection) => projection.iter().map(|at| columns.get(*at).and_then(&origin)).collect(),
        None => columns.iter().map(&origin).collect(),
    }
}

/// The key of the other side that a key in the output of a semi join equals.
fn partner(join: &HashJoinExec, output: &ColumnIndex) -> Option<Filter> {
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    let is_it = |key: &Filter| key.downcast_ref::<Column>().is_some_and(|key| key.index() == output.index);
    join.on().iter().find_map(|(left, right)| {
        let other = match (join.join_type(), output.side) {
            (JoinType::LeftSemi, JoinSide::Left) if is_it(left) => right,
            (JoinType::RightSemi, JoinSide::Right) if is_it(right) => left,
            _ => return None,
        };
        let types = (left.data_type(&left_schema).ok()?, right.data_type(&right_schema).ok()?);
        (types.0 == types.1).then(|| Arc::clone(other))
    })
}
