//! Casts that DataFusion 55 must not look through: it drops a cast if it can convert the compared constant back, and
//! compares extremes of files as if every cast kept the order of values.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use nyala_sql::cast_facts::can_be_undone;
use nyala_sql::pruning::misleads;

use super::overflow::input_schema;

/// Hides casts that are compared with constants from the rules that would drop them. Cubes are matched before, and know
/// casts; joins and subqueries are made of casts that are compared with columns.
#[derive(Debug)]
pub struct KeepCasts;

impl OptimizerRule for KeepCasts {
    fn name(&self) -> &str {
        "keep_casts"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| {
            if matches!(node, LogicalPlan::Extension(_)) || !has_casts(&node)? {
                return Ok(Transformed::no(node));
            }
            let (schema, names) = (input_schema(&node), NamePreserver::new(&node));
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let kept = expr.transform_down(|expr| Ok(kept(expr, &schema)))?;
                Ok(kept.update_data(|expr| name.restore(expr)))
            })
        })
    }
}

/// Whether an expression of a node is a cast, or has one in it.
pub fn has_casts(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Hides the casts in a comparison with constants.
fn kept(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let hidden = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            (is_constant(right) && hide(left, schema)) || (is_constant(left) && hide(right, schema))
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            // It becomes two comparisons.
            (is_constant(low) || is_constant(high)) && hide(expr, schema)
        }
        Expr::InList(InList { expr, list, .. }) if is_constant(expr) => {
            list.iter_mut().map(|item| hide(item, schema)).filter(|hidden| *hidden).count() > 0
        }
        Expr::InList(InList { expr, list, .. }) => list.iter().all(is_constant) && hide(expr, schema),
        Expr::Case(Case { expr: Some(expr), .. }) => hide(expr, schema),
        // A list of constants becomes IN.
        Expr::ScalarFunction(call) if call.name() == "array_has" => match call.args.as_mut_slice() {
            [list, value] => is_constant(list) && hide(value, schema),
            _ => false,
        },
        _ => false,
    };
    if hidden { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Whether the value of an expression depends on no row.
pub fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    });
    !varies.unwrap_or(true)
}

/// Hides the outermost of nested casts that cannot be undone. False if there is none, or it is hidden already.
fn hide(expr: &mut Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })) = expr
    else {
        return false;
    };
    if value.get_type(schema).is_ok_and(|from| can_be_undone(&from, field.data_type())) {
        return hide(value, schema);
    }
    *expr = ScalarUDF::new_from_impl(AsItIs::new()).call(vec![std::mem::take(expr)]);
    true
}

/// Hides casts in the predicates of Parquet scans.
#[derive(Debug)]
pub struct HideCasts;

impl PhysicalOptimizerRule for HideCasts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| match in_scan(node.as_ref(), options)? {
            Some(scan) => Ok(Transformed::yes(scan)),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "hide_casts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same scan with such casts hidden; none if it has none.
fn in_scan(node: &dyn ExecutionPlan, options: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let scan = node.downcast_ref::<DataSourceExec>();
    let Some((files, source)) = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>()) else {
        return Ok(None);
    };
    let Some(predicate) = source.filter() else { return Ok(None) };
    let schema = files.file_source().table_schema().table_schema();
    let hidden = predicate.transform_up(|expr| {
        if !misleads(expr.as_ref(), schema) {
            return Ok(Transformed::no(expr));
        }
        let as_it_is = Arc::new(ScalarUDF::new_from_impl(AsItIs::new()));
        let hidden = ScalarFunctionExpr::try_new(as_it_is, vec![expr], schema, Arc::new(options.clone()))?;
        Ok(Transformed::yes(Arc::new(hidden) as Arc<dyn PhysicalExpr>))
    })?;
    if !hidden.transformed {
        return Ok(None);
    }
    let source = Arc::new(source.with_predicate(hidden.data));
    let files = FileScanConfigBuilder::from(files.clone()).with_source(source).build();
    Ok(Some(DataSourceExec::from_data_source(files)))
}

/// A function that returns its argument, and that DataFusion does not look through.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsItIs {
    signature: Signature,
}

impl AsItIs {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AsItIs {
    fn name(&self) -> &str {
        "as_it_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        only(arguments).cloned()
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        only(arguments.arg_fields).cloned()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        only(&arguments.args).cloned()
    }

    // The column keeps the name of the argument.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(only(arguments)?.schema_name().to_string())
    }
}

fn only<T>(arguments: &[T]) -> Result<&T> {
    match arguments {
        [argument] => Ok(argument),
        _ => internal_err!("it has one argument, not {}", arguments.len()),
    }
}
