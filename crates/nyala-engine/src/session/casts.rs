//! Files are not left out by what their extremes are cast to, where a cast changes the order of values.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::pruning::changes_order;

/// Hides such casts in what scans of Parquet files have to fulfil.
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
        if !changes_order(expr.as_ref(), schema) {
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

/// A function that gives its argument, of which pruning knows nothing.
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
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => internal_err!("it has one argument, not {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.into_iter().next() {
            Some(argument) => Ok(argument),
            None => internal_err!("it has one argument, not 0"),
        }
    }
}
