//! Casts in the predicates of Parquet scans: DataFusion 55 compares extremes of files as if every cast kept the order of
//! values.

use std::sync::Arc;

use datafusion::catalog::memory::DataSourceExec;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use nyala_sql::semantics::as_it_is;
use nyala_sql::semantics::pruning::{hidden_cast, misleads};

/// Hides casts in the predicates of Parquet scans, and shows those that other rules must not see.
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

/// The scan with misleading casts in its predicate hidden, and casts that were hidden before shown again; none if it has neither.
fn in_scan(node: &dyn ExecutionPlan, options: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let scan = node.downcast_ref::<DataSourceExec>();
    let Some((files, source)) = scan.and_then(|scan| scan.downcast_to_file_source::<ParquetSource>()) else {
        return Ok(None);
    };
    let Some(predicate) = source.filter() else { return Ok(None) };
    let schema = files.file_source().table_schema().table_schema();
    let hidden = predicate.transform_up(|expr| {
        if let Some(cast) = hidden_cast(&expr, schema).cloned() {
            return Ok(Transformed::yes(cast));
        }
        if !misleads(expr.as_ref(), schema) {
            return Ok(Transformed::no(expr));
        }
        let function = Arc::new(as_it_is());
        let hidden = ScalarFunctionExpr::try_new(function, vec![expr], schema, Arc::new(options.clone()))?;
        Ok(Transformed::yes(Arc::new(hidden) as Arc<dyn PhysicalExpr>))
    })?;
    if !hidden.transformed {
        return Ok(None);
    }
    let source = Arc::new(source.with_predicate(hidden.data));
    let files = FileScanConfigBuilder::from(files.clone()).with_source(source).build();
    Ok(Some(DataSourceExec::from_data_source(files)))
}
