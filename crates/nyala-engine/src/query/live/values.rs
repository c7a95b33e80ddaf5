//! Rows that stand in the statement or in its parameters: `INSERT INTO t VALUES (1, $1)`. They need no plan, which would
//! take longer than the write, and no parameters put in their place, which takes as long.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::compute::cast_with_options;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::ScalarValue;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Projection, Values};

use crate::error::Result;

/// The rows of an INSERT of literals and of `parameters`, which have the types that were inferred; none if it must be planned.
pub(super) fn literal_rows(input: &LogicalPlan, parameters: &[ScalarValue]) -> Result<Option<RecordBatch>> {
    let LogicalPlan::Projection(Projection { expr, input, schema, .. }) = input else { return Ok(None) };
    let LogicalPlan::Values(values) = input.as_ref() else { return Ok(None) };
    let Some(given) = columns(values, parameters)? else { return Ok(None) };
    let mut projected = Vec::with_capacity(expr.len());
    for expression in expr {
        match column(expression, values, &given)? {
            Some(column) => projected.push(column),
            None => return Ok(None),
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(values.values.len()));
    let fields: Vec<_> =
        schema.as_arrow().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    Ok(Some(RecordBatch::try_new_with_options(schema, projected, &options)?))
}

/// The columns of VALUES, if all of them are literals or parameters.
fn columns(values: &Values, parameters: &[ScalarValue]) -> Result<Option<Vec<ArrayRef>>> {
    let mut columns = Vec::new();
    for (at, field) in values.schema.fields().iter().enumerate() {
        let mut scalars = Vec::with_capacity(values.values.len());
        for row in &values.values {
            match row.get(at).and_then(|cell| literal(cell, parameters)).transpose()? {
                // A column of parameters that nobody gave a type gets one from the values, when it is planned.
                Some(value) if field.data_type().is_null() && !value.is_null() => return Ok(None),
                Some(value) => scalars.push(value.cast_to(field.data_type())?),
                None => return Ok(None),
            }
        }
        columns.push(match scalars.is_empty() {
            true => new_empty_array(field.data_type()),
            false => ScalarValue::iter_to_array(scalars)?,
        });
    }
    Ok(Some(columns))
}

fn literal(expression: &Expr, parameters: &[ScalarValue]) -> Option<Result<ScalarValue>> {
    match expression {
        Expr::Literal(value, _) => Some(Ok(value.clone())),
        Expr::Placeholder(Placeholder { id, field: Some(_) }) => {
            let at = id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
            Some(Ok(parameters.get(at)?.clone()))
        }
        Expr::Cast(Cast { expr, field }) => {
            let inner = literal(expr, parameters)?;
            Some(inner.and_then(|value| Ok(value.cast_to(field.data_type())?)))
        }
        Expr::Negative(inner) => {
            Some(literal(inner, parameters)?.and_then(|value| Ok(value.arithmetic_negate()?)))
        }
        Expr::Alias(alias) => literal(&alias.expr, parameters),
        _ => None,
    }
}

/// A column of the table: one of the values, as it is or cast, or the same literal in every row.
fn column(expression: &Expr, values: &Values, given: &[ArrayRef]) -> Result<Option<ArrayRef>> {
    match expression {
        Expr::Alias(alias) => column(&alias.expr, values, given),
        Expr::Column(name) => {
            let at = values.schema.maybe_index_of_column(name);
            Ok(at.and_then(|at| given.get(at)).cloned())
        }
        Expr::Cast(Cast { expr, field }) => match column(expr, values, given)? {
            Some(inner) => Ok(Some(cast_with_options(&inner, field.data_type(), &DEFAULT_CAST_OPTIONS)?)),
            None => Ok(None),
        },
        Expr::Literal(value, _) => Ok(Some(value.to_array_of_size(values.values.len())?)),
        _ => Ok(None),
    }
}
