//! Plans that may give different rows each time they are computed.
//!
//! A rewrite may put a plan into several places of a statement only if all of them get the same rows. [`computed_once`] makes that true.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, LogicalPlan, Subquery, TableScan, WindowFrameUnits,
    WindowFunctionDefinition,
};

use super::guards::PARAMETER;
use super::shared_rows::SharedRows;
use super::subqueries::{is_of_one_row, or_null_function};

/// Aggregates whose value does not depend on the order in which rows come.
const STEADY_AGGREGATES: [&str; 10] = [
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "grouping",
    "max",
    "min",
    "single_value",
];

/// Aggregates of which this holds, too, unless the value is a floating-point number: the order decides its last digits.
const STEADY_TOTALS: [&str; 2] = ["avg", "sum"];

/// Window functions that give rows with equal keys the same value.
const STEADY_RANKS: [&str; 4] = ["cume_dist", "dense_rank", "percent_rank", "rank"];

/// The plan, changed so that its copies give the same rows within one statement: a part that may give other
/// rows is computed once for all copies, the rest by each copy.
pub fn computed_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !varies(&plan)? {
        return Ok(plan);
    }
    let once = plan.transform_down_with_subqueries(|node| {
        if SharedRows::of(&node).is_some() {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        // The steps of a recursive query compute different rows, so that a part of a step must not be shared.
        let recurs = matches!(node, LogicalPlan::RecursiveQuery(_));
        let is_varying = if recurs { varies(&node)? } else { varies_itself(&node)? };
        Ok(match (is_varying, recurs) {
            (true, _) => Transformed::new(SharedRows::over(node), true, TreeNodeRecursion::Jump),
            (false, true) => Transformed::new(node, false, TreeNodeRecursion::Jump),
            (false, false) => Transformed::no(node),
        })
    })?;
    Ok(once.data)
}

/// Whether two computations of a plan may give different rows.
pub fn varies(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if SharedRows::of(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        found |= varies_itself(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a plan computes a volatile expression, such as `random()`, anywhere.
pub fn is_volatile_plan(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if SharedRows::of(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.apply_expressions(|expr| {
            found |= expr.exists(|part| Ok(is_volatile_call(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a node may give different rows over the same input.
fn varies_itself(node: &LogicalPlan) -> Result<bool> {
    let is_varying = match node {
        LogicalPlan::Limit(limit) => !is_of_one_row(&limit.input),
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            !aggregate.aggr_expr.iter().all(|call| is_steady_total(call, schema))
        }
        LogicalPlan::Window(window) => {
            let schema = window.input.schema();
            !window.window_expr.iter().all(|call| is_steady_window(call, schema))
        }
        LogicalPlan::TableScan(scan) => is_made_when_read(scan),
        _ => false,
    };
    if is_varying {
        return Ok(true);
    }
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            found |= is_volatile_call(part) || asks_for_varying(part)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// A table about the state of the server, which changes while a statement runs. Other tables have the rows of one version.
fn is_made_when_read(scan: &TableScan) -> bool {
    let is_work_table =
        || source_as_provider(&scan.source).is_ok_and(|provider| provider.is::<CteWorkTable>());
    scan.source.table_type() == TableType::Temporary && !is_work_table()
}

/// A call with another value each time. Parameters and nullable values are only declared volatile, to keep rules from computing them.
fn is_volatile_call(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            expr.is_volatile_node() && call.name() != PARAMETER && call.name() != or_null_function().name()
        }
        _ => false,
    }
}

/// Whether an expression is a correlated subquery that may give different rows each time. Other subqueries
/// are looked at as plans of their own.
fn asks_for_varying(expr: &Expr) -> Result<bool> {
    let subquery: &Subquery = match expr {
        Expr::Exists(exists) => &exists.subquery,
        Expr::InSubquery(within) => &within.subquery,
        Expr::SetComparison(comparison) => &comparison.subquery,
        Expr::ScalarSubquery(subquery) => subquery,
        _ => return Ok(false),
    };
    if subquery.outer_ref_columns.is_empty() { Ok(false) } else { varies(&subquery.subquery) }
}

fn is_steady_total(call: &Expr, schema: &DFSchema) -> bool {
    match call {
        Expr::Alias(alias) => is_steady_total(&alias.expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, .. }) => is_steady(func.name(), call, schema),
        _ => false,
    }
}

fn is_steady(aggregate: &str, call: &Expr, schema: &DFSchema) -> bool {
    let is_exact = || call.get_type(schema).is_ok_and(|data_type| !data_type.is_floating());
    STEADY_AGGREGATES.contains(&aggregate) || (STEADY_TOTALS.contains(&aggregate) && is_exact())
}

fn is_steady_window(call: &Expr, schema: &DFSchema) -> bool {
    let WindowFunction { fun, params } = match call {
        Expr::Alias(alias) => return is_steady_window(&alias.expr, schema),
        Expr::WindowFunction(function) => function.as_ref(),
        _ => return false,
    };
    let frame = &params.window_frame;
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    match fun {
        // A frame that counts rows may give rows with equal keys different values.
        WindowFunctionDefinition::AggregateUDF(aggregate) => {
            (is_whole || frame.units != WindowFrameUnits::Rows) && is_steady(aggregate.name(), call, schema)
        }
        WindowFunctionDefinition::WindowUDF(function) => STEADY_RANKS.contains(&function.name()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::functions::math::expr_fn::random;
    use datafusion::functions_aggregate::array_agg::array_agg_udaf;
    use datafusion::functions_aggregate::sum::sum_udaf;
    use datafusion::functions_window::rank::rank_udwf;
    use datafusion::functions_window::row_number::row_number_udwf;
    use datafusion::logical_expr::{
        ExprFunctionExt, LogicalPlanBuilder, LogicalTableSource, TableSource, Window, cast, col, lit,
    };

    use super::*;

    fn rows() -> LogicalPlanBuilder {
        let row = |number: i64| vec![lit(number), lit("x")];
        LogicalPlanBuilder::values(vec![row(1), row(2)]).unwrap()
    }

    fn check(plan: LogicalPlan, expected: bool) {
        assert_eq!(varies(&plan).unwrap(), expected, "{plan}");
        assert_eq!(SharedRows::of(&computed_once(plan.clone()).unwrap()).is_some(), expected, "{plan}");
        let above = LogicalPlanBuilder::from(plan).alias("above").unwrap().build().unwrap();
        let once = computed_once(above).unwrap();
        assert!(!varies(&once).unwrap(), "{once}");
        assert!(SharedRows::of(&once).is_none(), "what is steady is computed in each place: {once}");
        assert_eq!(once.to_string().contains("SharedRows"), expected, "{once}");
    }

    #[test]
    fn rows_that_chance_chooses_or_computes_vary() {
        check(rows().build().unwrap(), false);
        check(rows().filter(col("column1").gt(lit(1_i64))).unwrap().build().unwrap(), false);
        check(rows().filter(random().gt(lit(0.5))).unwrap().build().unwrap(), true);
        check(rows().project([random()]).unwrap().build().unwrap(), true);
        check(
            rows().project([or_null_function().call(vec![col("column1")])]).unwrap().build().unwrap(),
            false,
        );
        check(rows().limit(0, Some(1)).unwrap().build().unwrap(), true);
        let one = rows().aggregate(Vec::<Expr>::new(), [sum_udaf().call(vec![col("column1")])]).unwrap();
        check(one.limit(0, Some(1)).unwrap().build().unwrap(), false);
    }

    /// A table about the state of the server.
    #[derive(Debug)]
    struct State(SchemaRef);

    impl TableSource for State {
        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.0)
        }

        fn table_type(&self) -> TableType {
            TableType::Temporary
        }
    }

    #[test]
    fn tables_about_the_server_vary() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let scan = |source: Arc<dyn TableSource>| {
            LogicalPlanBuilder::scan("s", source, None).unwrap().build().unwrap()
        };
        check(scan(Arc::new(State(Arc::clone(&schema)))), true);
        check(scan(Arc::new(LogicalTableSource::new(schema))), false);
    }

    #[test]
    fn totals_vary_by_the_order_of_rows_they_depend_on() {
        let total = |call: Expr| rows().aggregate([col("column2")], [call]).unwrap().build().unwrap();
        check(total(sum_udaf().call(vec![col("column1")])), false);
        check(total(sum_udaf().call(vec![cast(col("column1"), DataType::Float64)])), true);
        check(total(array_agg_udaf().call(vec![col("column1")])), true);
    }

    #[test]
    fn windows_vary_if_they_tell_equal_rows_apart() {
        let over = |function: WindowFunctionDefinition| {
            let call = Expr::from(WindowFunction::new(function, Vec::new()));
            let call = call.order_by(vec![col("column2").sort(true, false)]).build().unwrap();
            let input = Arc::new(rows().build().unwrap());
            LogicalPlan::Window(Window::try_new(vec![call], input).unwrap())
        };
        check(over(WindowFunctionDefinition::WindowUDF(rank_udwf())), false);
        check(over(WindowFunctionDefinition::WindowUDF(row_number_udwf())), true);
    }
}
