//! FROM and TO of a build.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use nyala_cube::cube::{PartitionColumn, ReadyCube};
use nyala_model::KeyRange;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::query::engine::Engine;
use crate::session::Settings;

/// Evaluates FROM and TO.
pub async fn bounds(
    engine: &Engine,
    range: Option<(SqlExpr, SqlExpr)>,
    cube: &ReadyCube,
    settings: &Settings,
) -> Result<Option<KeyRange>> {
    let Some((from, to)) = range else { return Ok(None) };
    let Some(column) = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.clone()) else {
        // Any range will do: `wanted` refuses it without a partition column.
        return Ok(Some(KeyRange { from: 0, to: 0 }));
    };
    let state = engine.snapshots.current().state(settings);
    let work = async move {
        let (from, to) = (bound(from, &column, &state)?, bound(to, &column, &state)?);
        Ok(Some(KeyRange { from, to }))
    };
    engine.runtime.threads.plan(work).await
}

fn bound(written: SqlExpr, column: &PartitionColumn, state: &SessionState) -> Result<i64> {
    let shown = written.to_string();
    let refused = || {
        let message = format!("`{shown}` is no value of column `{}`", column.division.column);
        QueryError::new(ErrorKind::InvalidParameter, message)
            .hint("write a constant such as DATE '2026-01-01' or 20260101")
    };
    let schema = DFSchema::empty();
    let expr = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr: written, alias: None }, &schema)
        .map_err(|_| refused())?;
    let context = SimplifyContext::builder()
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let coerced = simplifier.coerce(expr, &schema).and_then(|expr| simplifier.simplify(expr));
    match coerced {
        Ok(Expr::Literal(value, _)) => column.bound(&value).ok_or_else(refused),
        _ => Err(refused()),
    }
}
