//! The values of SET, as texts.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, ValueWithSpan};
use nyala_engine::schema_in_path;

/// The values of a SET as one text; none for DEFAULT.
pub fn values_text(values: &[Expr]) -> Option<String> {
    (!is_default(values)).then(|| joined(values, value_text))
}

/// The names of schemas in a SET as one text; none for DEFAULT. Names without quotes are in lower case, as everywhere in a statement.
pub fn schemas_text(values: &[Expr]) -> Option<String> {
    let text = |value: &Expr| match value {
        Expr::Identifier(name) if name.quote_style.is_none() => name.value.to_ascii_lowercase(),
        Expr::Identifier(name) => schema_in_path(&name.value),
        value => value_text(value),
    };
    (!is_default(values)).then(|| joined(values, text))
}

fn is_default(values: &[Expr]) -> bool {
    let [Expr::Identifier(name)] = values else { return false };
    let is = |word| name.value.eq_ignore_ascii_case(word);
    name.quote_style.is_none() && (is("default") || is("local"))
}

fn joined(values: &[Expr], text: impl Fn(&Expr) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn value_text(value: &Expr) -> String {
    match value {
        Expr::Value(ValueWithSpan { value, .. }) => {
            value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        Expr::Identifier(name) => name.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", value_text(expr)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => value_text(expr),
        Expr::Interval(interval) => value_text(&interval.value),
        Expr::Cast { expr, .. } => value_text(expr),
        other => other.to_string(),
    }
}

/// Hours as an offset, which `SET TIME ZONE` takes: `2` is `+02:00`.
pub fn zone_text(text: String) -> String {
    let Ok(hours) = text.parse::<f64>() else { return text };
    let minutes = (hours.abs() * 60.0).round();
    let sign = if hours < 0.0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", (minutes / 60.0).floor(), minutes % 60.0)
}
