//! The columns of a UNION keep their names when its first inputs are dropped.
//!
//! A UNION has the names of its first input. DataFusion 55 drops inputs without rows: of those that are left, the first may have
//! other names, and operators above it look for columns by the names of the one that is gone.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::OptimizerConfig;

use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};

/// The rule of DataFusion that drops inputs without rows.
const DROPPING: &str = "propagate_empty_relation";

/// Gives the first input with rows the names of the UNION, before the rule that drops inputs without rows. Other rules are returned as
/// they are.
pub fn keep_union_names(rule: LogicalRule) -> LogicalRule {
    match rule.name() == DROPPING {
        true => KeepUnionNames.around(rule),
        false => rule,
    }
}

#[derive(Debug)]
struct KeepUnionNames;

impl LogicalWrapper for KeepUnionNames {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(union) if union.inputs.iter().any(|input| is_empty(input)) => {
                rule.rewrite(LogicalPlan::Union(with_names(union)?), config)
            }
            plan => rule.rewrite(plan, config),
        }
    }
}

/// Whether the rule drops this input.
fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row)
}

fn with_names(mut union: Union) -> Result<Union> {
    let schema = Arc::clone(&union.schema);
    let Some(first) = union.inputs.iter_mut().find(|input| !is_empty(input)) else { return Ok(union) };
    let mut pairs = first.schema().fields().iter().zip(schema.fields());
    if pairs.all(|(field, of_union)| field.name() == of_union.name()) {
        return Ok(union);
    }
    let columns = first.schema().columns().into_iter().zip(schema.iter());
    let named = columns.map(|(column, (qualifier, field))| {
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let named = Projection::try_new(named.collect(), Arc::clone(first))?;
    *first = Arc::new(LogicalPlan::Projection(named));
    Ok(union)
}
