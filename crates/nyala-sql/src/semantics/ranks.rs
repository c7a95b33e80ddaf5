//! Numbers of rows and ranks are signed.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window, WindowFunctionDefinition, cast};

/// Functions that count rows.
const COUNTING: &[&str] = &["row_number", "rank", "dense_rank", "ntile"];

/// `row_number()`, `rank()` and the like are BIGINT: DataFusion counts without a sign, and PostgreSQL has no type for that.
pub fn sign_numbers(window: Window) -> Result<Transformed<LogicalPlan>> {
    let is_count = |expr: &Expr| {
        matches!(expr.clone().unalias(), Expr::WindowFunction(function)
            if matches!(&function.fun, WindowFunctionDefinition::WindowUDF(counting) if COUNTING.contains(&counting.name())))
    };
    let counts: Vec<bool> = window.window_expr.iter().map(is_count).collect();
    let first = window.schema.fields().len() - counts.len();
    let mut changed = false;
    let columns = window.schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let column = Expr::from((qualifier, field));
        let is_count = at.checked_sub(first).and_then(|at| counts.get(at)) == Some(&true);
        match is_count && *field.data_type() == DataType::UInt64 {
            true => {
                changed = true;
                cast(column, DataType::Int64).alias_qualified(qualifier.cloned(), field.name())
            }
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Window(window)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
