//! Functional dependencies: GROUP BY uses those of primary keys while names are resolved, and the optimizer gets none.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::TableFactor;
use datafusion::logical_expr::{Distinct, LogicalPlan, TableScan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use nyala_cube::live::LiveProvider;

use super::wrapped_logical_rule::LogicalRule;

/// Lets GROUP BY over the key of a table name its other columns, as PostgreSQL does for tables of FROM, but not for subqueries.
///
/// DataFusion would go on with the keys of tables below a subquery, and takes the key of one joined table to decide the columns
/// of the others.
#[derive(Debug)]
pub struct KeysOfTables;

thread_local! {
    /// Whether the relation that this thread plans next is planned for [`KeysOfTables`], which drops its dependencies afterwards.
    static IS_BELOW: Cell<bool> = const { Cell::new(false) };
}

impl RelationPlanner for KeysOfTables {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let may_have_keys =
            matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. });
        if IS_BELOW.replace(false) || !may_have_keys {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        IS_BELOW.set(true);
        let plan = context.plan(relation);
        IS_BELOW.set(false);
        let plan = plan?;
        let plan = if is_table(&plan) { plan } else { keyless(plan)?.data };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Whether a plan is a scan of a table, with or without an alias.
fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        plan => matches!(plan, LogicalPlan::TableScan(_)),
    }
}

/// The rules of DataFusion that conclude something from dependencies.
const READERS: [&str; 4] =
    ["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// The rule, with [`WithoutKeys`] before it if it reads dependencies: rules before it have made nodes anew, and dependencies with them.
pub fn without_keys_before(rule: LogicalRule) -> Vec<LogicalRule> {
    match READERS.contains(&rule.name()) {
        true => vec![Arc::new(WithoutKeys), rule],
        false => vec![rule],
    }
}

/// Removes all functional dependencies from a plan.
///
/// A key decides the other columns of its rows. DataFusion 55 takes it to decide columns of other tables too where a join repeats the
/// rows, takes the key of one joined table for the key of groups over the join, and still takes it for a key where unnest or a
/// recursive query repeats it. It leaves columns out of ORDER BY and GROUP BY for that, and rows out of joins
/// (<https://github.com/apache/datafusion/pull/24787> is about unnest; no release has the fix yet). Only names need keys, and they
/// are resolved by now.
#[derive(Debug)]
pub struct WithoutKeys;

impl OptimizerRule for WithoutKeys {
    fn name(&self) -> &str {
        "without_keys"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut has_some = false;
        plan.apply_with_subqueries(|node| {
            has_some = !node.schema().functional_dependencies().is_empty();
            Ok(if has_some { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if has_some { plan.transform_up_with_subqueries(keyless) } else { Ok(Transformed::no(plan)) }
    }
}

/// The node without functional dependencies.
fn keyless(mut node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = own_schema(&mut node).filter(|schema| !schema.functional_dependencies().is_empty());
    let Some(schema) = schema else { return Ok(Transformed::no(node)) };
    let nothing = FunctionalDependencies::empty();
    *schema = Arc::new((**schema).clone().with_functional_dependencies(nothing)?);
    if let LogicalPlan::TableScan(scan) = &mut node {
        hide_key(scan);
    }
    Ok(Transformed::yes(node))
}

/// The schema that a node has itself, and does not take from its input.
fn own_schema(node: &mut LogicalPlan) -> Option<&mut DFSchemaRef> {
    match node {
        LogicalPlan::TableScan(scan) => Some(&mut scan.projected_schema),
        LogicalPlan::Projection(projection) => Some(&mut projection.schema),
        LogicalPlan::Window(window) => Some(&mut window.schema),
        LogicalPlan::Aggregate(aggregate) => Some(&mut aggregate.schema),
        LogicalPlan::Distinct(Distinct::On(distinct)) => Some(&mut distinct.schema),
        LogicalPlan::Join(join) => Some(&mut join.schema),
        LogicalPlan::SubqueryAlias(alias) => Some(&mut alias.schema),
        LogicalPlan::Union(union) => Some(&mut union.schema),
        LogicalPlan::Unnest(unnest) => Some(&mut unnest.schema),
        LogicalPlan::RecursiveQuery(query) => Some(&mut query.schema),
        _ => None,
    }
}

/// Gives a scan its table without a key: a rule that makes the scan anew would ask the table for one.
fn hide_key(scan: &mut TableScan) {
    let provider = source_as_provider(&scan.source).ok();
    let live = provider.as_ref().and_then(|provider| provider.downcast_ref::<LiveProvider>());
    if let Some(live) = live.filter(|live| live.has_key()) {
        scan.source = provider_as_source(Arc::new(live.without_key()));
    }
}
