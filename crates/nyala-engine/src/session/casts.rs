//! Casts that DataFusion 55 must not look through: it leaves out some whose constant it can take back to the type before, and compares
//! extremes of files as if every cast kept the order of values.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::overflow::input_schema;
use crate::conversion::can_be_undone;
use crate::pruning::misleads;

/// Hides casts in expressions of plans from what would leave them out. Cubes are matched before, and know casts.
#[derive(Debug)]
pub(super) struct KeepCasts;

impl OptimizerRule for KeepCasts {
    fn name(&self) -> &str {
        "keep_casts"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| {
            if matches!(node, LogicalPlan::Extension(_)) || !has_casts(&node)? {
                return Ok(Transformed::no(node));
            }
            let schema = input_schema(&node);
            node.map_expressions(|expr| expr.transform_down(|expr| Ok(kept(expr, &schema))))
        })
    }
}

/// Whether an expression of a node is a cast, or has one in it.
pub(super) fn has_casts(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn kept(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (value, to) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<AsItIs>() => {
            return Transformed::new(expr, false, TreeNodeRecursion::Jump);
        }
        _ => return Transformed::no(expr),
    };
    if value.get_type(schema).is_ok_and(|from| can_be_undone(&from, to)) {
        return Transformed::no(expr);
    }
    let hidden = ScalarUDF::new_from_impl(AsItIs::new()).call(vec![expr]);
    Transformed::new(hidden, true, TreeNodeRecursion::Jump)
}

/// Hides casts in what scans of Parquet files have to fulfil.
#[derive(Debug)]
pub(super) struct HideCasts;

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

/// A function that gives its argument, of which DataFusion knows nothing.
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

    // Columns and plans are called as without it.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(only(arguments)?.schema_name().to_string())
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(only(arguments)?.to_string())
    }
}

fn only<T>(arguments: &[T]) -> Result<&T> {
    match arguments {
        [argument] => Ok(argument),
        _ => internal_err!("it has one argument, not {}", arguments.len()),
    }
}
