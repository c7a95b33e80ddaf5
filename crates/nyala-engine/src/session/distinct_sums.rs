//! Sums of decimals beside a count of distinct values.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

use super::wrapped_logical_rule::{LogicalRule, LogicalWrapper};

/// The rule of DataFusion that groups twice for a DISTINCT.
const TWO_GROUPINGS: &str = "single_distinct_aggregation_to_group_by";

/// Keeps the rule that groups twice from aggregations in which that would change the type of a sum: the sum of sums of decimals has more
/// digits than the sum. Other rules are returned as they are.
pub fn keep_sum_types(rule: LogicalRule) -> LogicalRule {
    match rule.name() == TWO_GROUPINGS {
        true => KeepSumTypes.around(rule),
        false => rule,
    }
}

#[derive(Debug)]
struct KeepSumTypes;

impl LogicalWrapper for KeepSumTypes {
    fn run(
        &self,
        rule: &LogicalRule,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(aggregate) if sums_decimals(aggregate) => Ok(Transformed::no(plan)),
            _ => rule.rewrite(plan, config),
        }
    }
}

fn sums_decimals(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().any(|expr| {
        let is_sum = matches!(
            expr.clone().unalias(),
            Expr::AggregateFunction(call) if call.func.name() == "sum" && !call.params.distinct
        );
        is_sum && expr.get_type(aggregate.input.schema()).is_ok_and(|data_type| data_type.is_decimal())
    })
}
