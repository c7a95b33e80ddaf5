//! Conditions on partition columns, which exclude files before these are opened.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::physical_expr::create_physical_expr;

/// Whether a condition reads partition columns only, so that it holds for a whole file or for no row of it.
pub fn is_about(expr: &Expr, partitions: &[FieldRef]) -> bool {
    let (mut fits, mut columns) = (true, 0);
    let walked = expr.apply(|part| {
        fits &= match part {
            Expr::Column(column) => {
                columns += 1;
                partitions.iter().any(|partition| partition.name() == &column.name)
            }
            Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
            Expr::Literal(_, _)
            | Expr::Alias(_)
            | Expr::Not(_)
            | Expr::IsNotNull(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Negative(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::BinaryExpr(_)
            | Expr::Between(_)
            | Expr::Like(_)
            | Expr::InList(_)
            | Expr::Case(_) => true,
            _ => false,
        };
        Ok(if fits { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && fits && columns > 0
}

/// The files in whose folders all conditions hold.
pub fn pruned(
    files: Vec<PartitionedFile>,
    conditions: &[Expr],
    partitions: &[FieldRef],
) -> Result<Vec<PartitionedFile>> {
    let Some(condition) = conjunction(conditions.iter().cloned()) else { return Ok(files) };
    let mut folders: HashMap<&[ScalarValue], usize> = HashMap::new();
    let mut rows: Vec<&[ScalarValue]> = Vec::new();
    for file in &files {
        let values = file.partition_values.as_slice();
        folders.entry(values).or_insert_with(|| {
            rows.push(values);
            rows.len() - 1
        });
    }
    let holds = holds(&condition, &rows, partitions)?;
    let fits: Vec<bool> = files
        .iter()
        .map(|file| {
            folders.get(file.partition_values.as_slice()).and_then(|row| holds.get(*row)) == Some(&true)
        })
        .collect();
    Ok(files.into_iter().zip(fits).filter_map(|(file, fits)| fits.then_some(file)).collect())
}

/// Whether the condition holds for each row of partition values.
fn holds(condition: &Expr, rows: &[&[ScalarValue]], partitions: &[FieldRef]) -> Result<Vec<bool>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let schema = Arc::new(Schema::new(partitions.to_vec()));
    let column = |place: usize| -> Result<ArrayRef> {
        ScalarValue::iter_to_array(rows.iter().filter_map(|row| row.get(place).cloned()))
    };
    let columns = (0..partitions.len()).map(column).collect::<Result<_>>()?;
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let schema = DFSchema::try_from(schema)?;
    let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let condition = create_physical_expr(condition, &schema, &properties, &context)?;
    let found = condition.evaluate(&batch)?.into_array(rows.len())?;
    Ok(found.as_boolean().iter().map(|holds| holds == Some(true)).collect())
}
