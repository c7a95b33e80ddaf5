//! Applies the meanings of a phase: one walk over the plan, and one over each expression that a meaning concerns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{
    conjunction, grouping_set_to_exprlist, merge_schema, split_conjunction_owned,
};
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Union};

use super::categories::check_union;
use super::decimals::unions_meet;
use super::guards::conditions_first;
use super::integers::narrow_columns;
use super::interval_groups::{groups_by_length, intervals_by_length};
use super::intervals::sort_in_order;
use super::moments::tell_apart;
use super::repeated_keys::distinct_keys_once;
use super::sets::{count_copies, distinct_by_groups};
use super::subqueries::{Shared, lower_subqueries};
use super::unknowns::settle_union;
use super::widths::unions_of_one_width;
use super::zeros::equal_zeros_in_keys;
use super::{Meaning, Phase, Scope, meanings_of};
use crate::functions::constants_for_rows;

/// Rewrites the plan by the meanings of a phase. Its columns keep their names.
pub fn lower_plan(
    plan: LogicalPlan,
    phase: Phase,
    config: &ConfigOptions,
) -> Result<Transformed<LogicalPlan>> {
    let meanings = meanings_of(phase);
    let (mut shared, mut is_stale) = (Shared::new(config), false);
    // In a recursive query, columns keep the types that the planner gave the first rows, so they are not narrowed.
    let recurs = phase == Phase::Types && is_recursive(&plan)?;
    let plan = if phase == Phase::Optimizer { tell_apart(plan)? } else { Transformed::no(plan) };
    plan.transform_data(|plan| {
        plan.transform_up_with_subqueries(|node| {
            let prepared = match (phase, node) {
                (Phase::Operators, node) => for_operators(node)?,
                (Phase::Types, LogicalPlan::Union(union)) => {
                    let union = settle_union(union_of(union.inputs, is_stale, union.schema)?)?;
                    check_union(&union)?;
                    let union = unions_meet(union)?.transform_data(unions_of_one_width)?;
                    union.map_data(|union| Ok(LogicalPlan::Union(union)))?
                }
                (Phase::Types, node) if recurs => of_relations(node)?,
                (Phase::Types, node) => narrow_columns(node)?.transform_data(of_relations)?,
                (Phase::Optimizer, LogicalPlan::Distinct(Distinct::On(on))) => distinct_keys_once(on),
                (Phase::Optimizer, LogicalPlan::Distinct(distinct)) => distinct_by_groups(distinct)?,
                (_, node) => Transformed::no(node),
            };
            let lowered = prepared.transform_data(|node| {
                if (phase == Phase::Optimizer && matches!(node, LogicalPlan::Extension(_)))
                    || !has_concern(&node, meanings)?
                {
                    return Ok(Transformed::no(node));
                }
                lower_node(node, meanings, config)
            })?;
            let lowered = match phase {
                // The plans that replace a subquery lie below the node, where the walk does not come again.
                Phase::Types => lowered
                    .transform_data(|node| lower_subqueries(node, &mut shared))?
                    .transform_data(groups_by_length)?,
                Phase::Operators => lowered.transform_data(|node| Ok(equal_zeros_in_keys(node)))?,
                _ => lowered,
            };
            // A changed type may change the types of all nodes above. In later phases the names and types of columns stay as they are.
            is_stale |= lowered.transformed && phase <= Phase::Constants;
            match is_stale {
                true => Ok(Transformed::yes(lowered.data.recompute_schema()?)),
                false => Ok(lowered),
            }
        })
    })
}

/// Whether there is a recursive query in the plan, or in a subquery of it.
fn is_recursive(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The union with the present types of its inputs, if types below it changed.
fn union_of(inputs: Vec<Arc<LogicalPlan>>, is_stale: bool, schema: DFSchemaRef) -> Result<Union> {
    if is_stale { Union::try_new_with_loose_types(inputs) } else { Ok(Union { inputs, schema }) }
}

/// Rewrites a node that stands for a different relation in PostgreSQL. Its expressions are not rewritten yet.
fn of_relations(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    intervals_by_length(node)?.transform_data(|node| match node {
        LogicalPlan::Join(join) => count_copies(join),
        LogicalPlan::Sort(sort) => Ok(sort_in_order(sort)),
        node => Ok(Transformed::no(node)),
    })
}

/// Rewrites a node as a whole, where its single expressions do not tell enough.
fn for_operators(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Filter(filter) => conditions_first(filter),
        LogicalPlan::Projection(projection) => constants_for_rows(projection),
        other => Ok(Transformed::no(other)),
    }
}

/// Rewrites an expression, whose types are settled, by the meanings of a phase.
pub fn lower_expr(expr: Expr, phase: Phase, schema: &DFSchema, config: &ConfigOptions) -> Result<Expr> {
    let scope = Scope { schema, config, is_condition: false };
    Ok(lower(expr, meanings_of(phase), &scope)?.data)
}

/// Gives an operator the meanings of types, if its operands have them already.
pub fn lower_operator(operator: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Expr> {
    let scope = Scope { schema, config, is_condition: false };
    Ok(lower_part(operator, meanings_of(Phase::Types), &scope)?.data)
}

fn lower_node(
    node: LogicalPlan,
    meanings: &[&dyn Meaning],
    config: &ConfigOptions,
) -> Result<Transformed<LogicalPlan>> {
    let schema = input_schema(&node);
    let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let scope = Scope { schema: &schema, config, is_condition };
    if let LogicalPlan::Filter(filter) = node {
        return lower_filter(filter, meanings, &scope);
    }
    if let LogicalPlan::Values(values) = node {
        let rows = values.values.into_iter().map(|row| {
            row.into_iter().map(|cell| Ok(lower(cell, meanings, &scope)?.data)).collect::<Result<Vec<_>>>()
        });
        // The types of cells may have changed: the builder derives the types of the columns.
        let values = LogicalPlanBuilder::values(rows.collect::<Result<_>>()?)?.build()?;
        return Ok(Transformed::yes(values));
    }
    let is_aggregate = matches!(node, LogicalPlan::Aggregate(_));
    let names = NamePreserver::new(&node);
    let named = |expr: Expr| {
        let name = names.save(&expr);
        Ok(lower(expr, meanings, &scope)?.update_data(|expr| name.restore(expr)))
    };
    let lowered = node.map_expressions(|expr| match expr {
        // The columns are named after the members of the set.
        Expr::GroupingSet(_) => expr.map_children(named),
        expr => named(expr),
    })?;
    if is_aggregate { lowered.transform_data(match_groupings) } else { Ok(lowered) }
}

/// Gives the arguments of `grouping` the aliases of the keys, because DataFusion looks for a key of the same name.
fn match_groupings(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(mut aggregate) = node else { return Ok(Transformed::no(node)) };
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    let named: Vec<(Expr, Expr)> = keys
        .into_iter()
        .filter(|key| matches!(key, Expr::Alias(_)))
        .map(|key| (key.clone().unalias(), key.clone()))
        .collect();
    let mut changed = false;
    for call in aggregate.aggr_expr.iter_mut().filter(|_| !named.is_empty()) {
        let renamed = std::mem::take(call).transform(|part| match part {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                for argument in &mut call.params.args {
                    if let Some((_, key)) = named.iter().find(|(plain, _)| plain == argument) {
                        *argument = key.clone();
                    }
                }
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        changed |= renamed.transformed;
        *call = renamed.data;
    }
    let node = LogicalPlan::Aggregate(aggregate);
    Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) })
}

/// The conditions of a filter are rewritten one by one: no meaning sees the AND between them, since a filter drops
/// unknown rows like false ones.
fn lower_filter(
    filter: Filter,
    meanings: &[&dyn Meaning],
    scope: &Scope<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    let parts = split_conjunction_owned(filter.predicate.clone()).into_iter().map(|part| {
        let part = lower(part, meanings, scope)?;
        changed |= part.transformed;
        Ok(part.data)
    });
    let parts: Vec<Expr> = parts.collect::<Result<_>>()?;
    match conjunction(parts) {
        Some(predicate) if changed => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
    }
}

fn lower(expr: Expr, meanings: &[&dyn Meaning], scope: &Scope<'_>) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| lower_part(part, meanings, scope))
}

/// Rewrites an expression, and none of its parts.
fn lower_part(part: Expr, meanings: &[&dyn Meaning], scope: &Scope<'_>) -> Result<Transformed<Expr>> {
    meanings.iter().try_fold(Transformed::no(part), |done, meaning| match meaning.concerns(&done.data) {
        true => done.transform_data(|part| meaning.rewrite(part, scope)),
        false => Ok(done),
    })
}

/// Whether a meaning concerns an expression of the node, or a part of one.
fn has_concern(node: &LogicalPlan, meanings: &[&dyn Meaning]) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(meanings.iter().any(|meaning| meaning.concerns(part))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The schema that the expressions of a node refer to: its inputs, and of a scan its table.
fn input_schema(node: &LogicalPlan) -> DFSchema {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = node {
        let table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema());
        schema = table.unwrap_or(schema);
    }
    schema
}
