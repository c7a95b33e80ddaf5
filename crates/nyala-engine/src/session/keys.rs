//! Functional dependencies of primary keys: GROUP BY uses them while names are resolved, and the optimizer gets none.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::sqlparser::ast::TableFactor;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use nyala_cube::live::LiveProvider;

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
        let plan = if is_table(&plan) { plan } else { without_keys(plan)? };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Whether it is a scan of a table, with or without an alias.
fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        plan => matches!(plan, LogicalPlan::TableScan(_)),
    }
}

/// The same subquery without functional dependencies.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::SubqueryAlias(mut alias) => {
            alias.schema = without_dependencies(&alias.schema)?;
            LogicalPlan::SubqueryAlias(alias)
        }
        LogicalPlan::Projection(mut projection) => {
            projection.schema = without_dependencies(&projection.schema)?;
            LogicalPlan::Projection(projection)
        }
        plan => plan,
    })
}

fn without_dependencies(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    if schema.functional_dependencies().is_empty() {
        return Ok(Arc::clone(schema));
    }
    let nothing = FunctionalDependencies::empty();
    Ok(Arc::new(schema.as_ref().clone().with_functional_dependencies(nothing)?))
}

/// Makes tables without keys of those that are read, before each pass of the optimizer.
///
/// A key decides the other columns of its rows. Where a join multiplies the rows, DataFusion takes it to decide columns of other
/// tables too, and leaves these out of ORDER BY and GROUP BY. Only names need keys, and they are resolved by now.
#[derive(Debug)]
pub struct WithoutKeys;

impl OptimizerRule for WithoutKeys {
    fn name(&self) -> &str {
        "without_keys"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut is_stale = false;
        plan.transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::TableScan(scan) => keyless(scan)?,
                node => Transformed::no(node),
            };
            is_stale |= node.transformed;
            match is_stale {
                true => Ok(Transformed::yes(node.data.recompute_schema()?)),
                false => Ok(node),
            }
        })
    }
}

fn keyless(mut scan: TableScan) -> Result<Transformed<LogicalPlan>> {
    let provider = source_as_provider(&scan.source).ok();
    let live = provider.as_ref().and_then(|provider| provider.downcast_ref::<LiveProvider>());
    let Some(live) = live.filter(|live| live.has_key()) else {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    };
    scan.source = provider_as_source(Arc::new(live.without_key()));
    scan.projected_schema = without_dependencies(&scan.projected_schema)?;
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}
