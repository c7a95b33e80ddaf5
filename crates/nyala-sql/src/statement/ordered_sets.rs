//! Writes aggregates WITHIN GROUP that DataFusion does not have in forms that it knows.
//!
//! ```text
//! percentile_disc(0.5) WITHIN GROUP (ORDER BY x)     percentile_disc_of(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL), 0.5)
//! rank(3) WITHIN GROUP (ORDER BY x)                  count(*) FILTER (WHERE x < 3) + 1
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OrderByExpr, Select, SelectItem,
    Visit, Visitor,
};

use super::snippets::parse_expr;
use super::titles::title_of;
use super::versions::folded;
use crate::error::{ErrorKind, QueryError, Result};

/// Names the columns of a SELECT list after their aggregates, before these are rewritten.
pub fn keep_titles(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && has_ordered_set(expr)
        {
            let alias = Ident::with_quote('"', title_of(item).unwrap_or_default());
            if let SelectItem::UnnamedExpr(expr) = item {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
    }
}

fn has_ordered_set(expr: &Expr) -> bool {
    struct Found(bool);
    impl Visitor for Found {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0 |= matches!(expr, Expr::Function(function) if !function.within_group.is_empty());
            ControlFlow::Continue(())
        }
    }
    let mut found = Found(false);
    let _ = Visit::visit(expr, &mut found);
    found.0
}

/// The rewritten aggregate; none if it is another function, or one that DataFusion has.
pub fn in_other_words(function: &Function) -> Result<Option<Expr>> {
    let (Some(name), false) =
        (function.name.0.last().and_then(|name| name.as_ident()), function.within_group.is_empty())
    else {
        return Ok(None);
    };
    let name = folded(name);
    let known =
        ["percentile_disc", "percentile_cont", "mode", "rank", "dense_rank", "percent_rank", "cume_dist"];
    let arguments = arguments(function)?;
    let is_list = arguments.first().is_some_and(|argument| is_list(argument));
    if !known.contains(&name.as_str()) || name == "percentile_cont" && !is_list {
        return Ok(None);
    }
    if function.over.is_some() {
        let message = format!("OVER is not supported for ordered-set aggregate {name}");
        return Err(QueryError::new(ErrorKind::Unsupported, message));
    }
    let [order] = function.within_group.as_slice() else {
        let message = format!("{name} WITHIN GROUP takes one expression to order by");
        return Err(QueryError::new(ErrorKind::Unsupported, message));
    };
    let filter = function.filter.as_ref().map_or_else(String::new, |filter| format!(" AND ({filter})"));
    let text = match (name.as_str(), arguments.as_slice()) {
        ("percentile_disc" | "percentile_cont", [fraction]) => {
            format!("{name}_of({}, {fraction})", sorted(order, &filter))
        }
        ("mode", []) => format!("mode_of({})", sorted(order, &filter)),
        ("rank" | "dense_rank" | "percent_rank" | "cume_dist", [value]) => {
            hypothetical(&name, value, order, &filter)
        }
        _ => {
            let message = format!("{name} WITHIN GROUP does not take {} arguments", arguments.len());
            return Err(QueryError::new(ErrorKind::UndefinedObject, message).sqlstate("42883"));
        }
    };
    parse_expr(&text).map(Some)
}

fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::Array(_) => true,
        Expr::Nested(inner) => is_list(inner),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, datafusion::sql::sqlparser::ast::DataType::Array(_))
        }
        _ => false,
    }
}

fn arguments(function: &Function) -> Result<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(Vec::new()) };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(QueryError::new(
            ErrorKind::Syntax,
            format!("`{other}` is no argument of an aggregate WITHIN GROUP"),
        )),
    });
    arguments.collect()
}

/// The values in order, without NULL.
fn sorted(order: &OrderByExpr, filter: &str) -> String {
    format!("array_agg({} ORDER BY {order}) FILTER (WHERE ({}) IS NOT NULL{filter})", order.expr, order.expr)
}

/// The rank that a value would have among the rows.
fn hypothetical(name: &str, value: &Expr, order: &OrderByExpr, filter: &str) -> String {
    let is_descending = order.options.asc == Some(false);
    let nulls_first = order.options.nulls_first.unwrap_or(is_descending);
    let (x, sign) = (&order.expr, if is_descending { '>' } else { '<' });
    let nulls = if nulls_first { format!(" OR ({x}) IS NULL") } else { String::new() };
    let before = format!("((({x}) {sign} ({value})){nulls}){filter}");
    let up_to = format!("((({x}) {sign}= ({value})){nulls}){filter}");
    let any = format!("true{filter}");
    match name {
        "rank" => format!("(count(*) FILTER (WHERE {before}) + 1)"),
        "dense_rank" => {
            let of_null = if nulls_first {
                format!(" + max(CASE WHEN ({x}) IS NULL{filter} THEN 1 ELSE 0 END)")
            } else {
                String::new()
            };
            format!("(count(DISTINCT {x}) FILTER (WHERE {before}) + 1{of_null})")
        }
        "percent_rank" => format!(
            "coalesce(CAST(count(*) FILTER (WHERE {before}) AS DOUBLE PRECISION) / nullif(count(*) FILTER (WHERE {any}), 0), 0)"
        ),
        _ => format!(
            "(CAST(count(*) FILTER (WHERE {up_to}) + 1 AS DOUBLE PRECISION) / (count(*) FILTER (WHERE {any}) + 1))"
        ),
    }
}
